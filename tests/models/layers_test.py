"""Linear, LayerNorm, Dropout: the harness, and what each promises; their formulas equal TensorFlow's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import training_ops
from bert_tf.models.layers import Dropout, LayerNorm, Linear
from bert_tf.models.training_ops import current_seed, seed_scope
from tests.harness import check_layer, numbers, randomize

X = np.random.default_rng(0).standard_normal((4, 6, 8)).astype(np.float32)


def test_linear_s_harness(tmp_path):
    arguments = {"units": 5, "activation": "gelu", "initializer_range": 0.05, "name": "dense"}
    check_layer(Linear, arguments, (X,), {"dense/kernel": (8, 5), "dense/bias": (5,)}, tmp_path)


@pytest.mark.parametrize("activation", ["linear", "gelu", "gelu_tanh"])
def test_linear(activation):
    layer = Linear(5, activation, initializer_range=0.05)
    layer.build(X.shape)
    randomize(layer)
    kernel, bias = layer.get_weights()
    product = X @ kernel + bias
    act = {"linear": lambda x: x}.get(activation, lambda x: tf.nn.gelu(x, approximate=activation == "gelu_tanh"))
    np.testing.assert_allclose(layer(X), act(product), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer(X[0]), layer(X)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ["linear", "gelu", "gelu_tanh", "relu", "tanh"])
def test_training_changes_neither_values_nor_gradients(activation):
    """While training, the formulas are other ones."""
    layer = Linear(5, activation, initializer_range=0.3)
    layer.build(X.shape)
    layer.bias.assign([0.1, -0.2, 0.3, 0.4, -0.5])

    def run(training):
        x = tf.constant(X)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=training)
            loss = tf.reduce_sum(tf.sin(y))
        return [y, *tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])]

    for ours, true in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(ours, true, rtol=1e-5, atol=1e-5)


def test_layer_norm(tmp_path):
    weights = {"LayerNorm/gamma": (8,), "LayerNorm/beta": (8,)}
    layer = check_layer(LayerNorm, {"epsilon": 1e-3, "name": "LayerNorm"}, (X,), weights, tmp_path)
    gamma, beta = layer.get_weights()
    wide = X.astype(np.float64)
    true = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-3) * gamma + beta
    np.testing.assert_allclose(layer(X), true, rtol=1e-5, atol=1e-5)


def test_layer_norm_of_bfloat16_computes_in_float32():
    layer = LayerNorm(dtype="mixed_bfloat16")
    x = tf.cast(300 + X, tf.bfloat16)  # a mean that leaves bfloat16 one digit for the difference
    np.testing.assert_allclose(numbers(layer(x)), numbers(LayerNorm()(tf.cast(x, tf.float32))), atol=0.01)


def test_dropout(tmp_path):
    layer = check_layer(Dropout, {"rate": 0.25, "name": "dropout"}, (X,), {}, tmp_path)
    np.testing.assert_array_equal(layer(X), X)
    y = layer(X, training=True).numpy()
    dropped = y == 0
    assert 0.1 < dropped.mean() < 0.4
    np.testing.assert_allclose(y[~dropped], X[~dropped] / 0.75, rtol=1e-6)
    assert (layer(X, training=True).numpy() != y).any()  # without a scope every call draws anew


def test_dropout_of_rate_0_draws_nothing():
    np.testing.assert_array_equal(Dropout(0.0)(X, training=True), X)


def test_seed_scope_repeats():
    one, other = Dropout(0.5, name="one"), Dropout(0.5, name="other")

    def masks(seed):
        with seed_scope(tf.constant(seed)):
            return [numbers(layer(np.ones((8, 64), np.float32), training=True)) for layer in (one, other)]

    first, second, third = masks([3, 7]), masks([3, 7]), masks([3, 8])
    np.testing.assert_array_equal(first, second)
    assert (first[0] != third[0]).mean() > 0.3 and (first[0] != first[1]).mean() > 0.3


def test_seed_scopes_nest_and_end():
    with seed_scope(tf.constant([1, 2])):
        with pytest.raises(RuntimeError), seed_scope(tf.constant([3, 4])):
            assert current_seed().numpy().tolist() == [3, 4]
            raise RuntimeError
        assert current_seed().numpy().tolist() == [1, 2]
    assert (current_seed().numpy() != current_seed().numpy()).any()


def test_without_a_scope_a_compiled_function_draws_anew():
    layer = Dropout(0.5)
    run = tf.function(lambda x: layer(x, training=True))
    assert (run(X).numpy() != run(X).numpy()).any()


@pytest.mark.skipif(
    tuple(map(int, keras.__version__.split(".")[:2])) < (3, 13),
    reason="Keras before 3.13 does not start its own generator anew in set_random_seed",
)
def test_without_a_scope_keras_seed_repeats():
    layer = Dropout(0.5)
    keras.utils.set_random_seed(1)
    first = tf.function(lambda x: layer(x, training=True))(X).numpy()
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(tf.function(lambda x: layer(x, training=True))(X), first)


# === Formulas ===


POINTS = np.linspace(-6, 6, 4001).astype(np.float32)
DY = np.cos(POINTS)


def _run(function, x, approximate):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x, approximate=approximate)
    return y, tape.gradient(y, x, tf.cast(DY, x.dtype))


@pytest.mark.parametrize("approximate", [True, False])
def test_gelu(approximate):
    ours = _run(training_ops.gelu, tf.constant(POINTS), approximate)
    true = _run(tf.nn.gelu, tf.constant(POINTS), approximate)
    for a, b in zip(ours, true, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("approximate", [True, False])
def test_gelu_in_bfloat16_is_rounded_once(approximate):
    x = tf.cast(POINTS, tf.bfloat16)
    ours = _run(training_ops.gelu, x, approximate)
    true = _run(tf.nn.gelu, tf.cast(x, tf.float32), approximate)
    for a, b in zip(ours, true, strict=True):
        assert a.dtype == tf.bfloat16
        np.testing.assert_allclose(numbers(a), b, rtol=1e-2, atol=1e-5)


def test_the_two_gelus_differ():
    difference = training_ops.gelu(POINTS, True) - training_ops.gelu(POINTS, False)
    assert 1e-4 < np.abs(difference).max() < 1e-3


@pytest.mark.parametrize("in_program", [False, True])
def test_linear_in_bfloat16_adds_up_its_bias_gradient_in_float32(in_program):
    rng = np.random.default_rng(0)
    x, kernel, bias = (tf.cast(rng.standard_normal(s), tf.bfloat16) for s in [(8192, 4), (4, 16), (16,)])
    dy = tf.cast(0.1 + rng.standard_normal((8192, 16)), tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(bias)
        y = training_ops.linear(x, kernel, bias)
    true = numbers(dy).sum(0)
    with training_ops.program_scope(in_program):
        error = numbers(tape.gradient(y, bias, dy)) - true
    assert np.linalg.norm(error) < 0.005 * np.linalg.norm(true)  # TensorFlow's BiasAddGrad: 0.08


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_keep_mask(dtype):
    shape = (100, 1001)
    mask = numbers(training_ops.keep_mask(shape, 0.1, tf.constant([1, 2]), dtype))
    assert mask.shape == shape
    assert abs((mask == 0).mean() - 0.1) < 0.005
    np.testing.assert_allclose(np.unique(mask), [0, 1 / 0.9], rtol=1e-6 if dtype == "float32" else 4e-3)
    assert abs(mask.mean() - 1) < 0.005


def test_keep_mask_of_an_odd_number_of_elements():
    assert training_ops.keep_mask((3, 5, 7), 0.5, tf.constant([1, 2]), tf.float32).shape == (3, 5, 7)


def test_keep_mask_is_a_function_of_its_seed():
    def draw(*seed):
        return training_ops.keep_mask((50, 50), 0.5, tf.constant(seed), tf.float32).numpy()

    np.testing.assert_array_equal(draw(1, 2), draw(1, 2))
    for other in (draw(1, 3), draw(2, 2), draw(2, 1)):
        assert abs((draw(1, 2) != other).mean() - 0.5) < 0.05  # independent: half of all elements differ


def test_keep_mask_has_no_pattern_between_neighbours():
    """Two elements share one random number of 32 bits: its halves must not depend on each other."""
    dropped = training_ops.keep_mask((100000,), 0.5, tf.constant([5, 5]), tf.float32).numpy() == 0
    for distance in (1, 2, 3):
        assert abs(np.corrcoef(dropped[:-distance], dropped[distance:])[0, 1]) < 0.015


def dropped(x, rate, seed, known_shape):
    """`training_ops.dropout` in a graph that knows the shape of x, where XLA compiles it, or in one that does not."""
    spec = tf.TensorSpec(x.shape if known_shape else [None] * len(x.shape), x.dtype)

    @tf.function(input_signature=[spec])
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = training_ops.dropout(x, rate, tf.constant(seed))
        return y, tape.gradient(y, x)

    return [numbers(tensor) for tensor in run(x)]


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("shape", [[2, 5, 3], [None, None, 3]], ids=["known", "unknown"])
def test_slice_axis_is_an_ordinary_slice(shape, jit_compile):
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)

    def values_and_gradients(take, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = take(x)
            loss = tf.reduce_sum(y**3)
        return y, tape.gradient(loss, x)

    def run(x):
        ours = values_and_gradients(lambda x: training_ops.slice_axis(x, 1, tf.shape(x)[1] - 4, 3), x)
        return ours, values_and_gradients(lambda x: x[:, 1:4], x)

    ours, plain = tf.function(run, [tf.TensorSpec(shape)], jit_compile=jit_compile)(x)
    assert ours[0].shape[2] == 3
    for found, expected in zip(ours, plain, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("known_shape", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dropout_drops_the_same_ones_forward_and_backward(dtype, known_shape):
    y, slope = dropped(tf.ones((100, 1001), dtype), 0.1, (1, 2), known_shape)
    assert abs((y == 0).mean() - 0.1) < 0.005
    np.testing.assert_array_equal(y, slope)
    np.testing.assert_allclose(np.unique(y), [0, 1 / 0.9], rtol=1e-6 if dtype == "float32" else 4e-3)


def test_a_program_that_is_compiled_whole_draws_the_same_mask_for_any_shape():
    @tf.function(input_signature=[tf.TensorSpec([None, None])], jit_compile=True)
    def program(x):
        with training_ops.program_scope(True), tf.GradientTape() as tape:
            tape.watch(x)
            y = training_ops.dropout(x, 0.1, tf.constant((1, 2)))
            return y, tape.gradient(y, x)

    y, slope = program(tf.ones((100, 1001)))
    np.testing.assert_array_equal(y, slope)
    np.testing.assert_array_equal(y, dropped(tf.ones((100, 1001)), 0.1, (1, 2), known_shape=True)[0])


@pytest.mark.slow
def test_compiled_dropout_has_no_pattern():
    """Neither between neighbours nor between seeds that differ by little, as those of two steps do."""
    ones = tf.ones(100_000)
    masks = [dropped(ones, 0.5, seed, True)[0] == 0 for seed in [(5, 5), (5, 6), (6, 5), (5 + 2**20, 5)]]
    for distance in (1, 2, 3, 128):
        assert abs(np.corrcoef(masks[0][:-distance], masks[0][distance:])[0, 1]) < 0.015
    assert np.abs(np.corrcoef(masks) - np.eye(4)).max() < 0.015


@pytest.mark.slow
@pytest.mark.parametrize("approximate", [True, False])
def test_compiled_gelu_equals_the_plain_one(approximate):
    x = tf.constant(POINTS, tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None] * len(x.shape))])
    def plain(x):
        return both(x)

    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = training_ops.gelu(x, approximate)
        return y, tape.gradient(y, x)

    for ours, theirs in zip(tf.function(both)(x), plain(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=5e-6)
