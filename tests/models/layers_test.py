"""Linear, LayerNorm, Dropout: the harness, and what each promises besides."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.layers import Dropout, LayerNorm, Linear
from bert_tf.models.training_ops import current_seed, seed_scope
from tests.harness import check_layer, numbers

X = np.random.default_rng(0).standard_normal((4, 6, 8)).astype(np.float32)


@pytest.mark.parametrize("activation", ["linear", "gelu", "gelu_tanh"])
def test_linear(tmp_path, activation):
    arguments = {"units": 5, "activation": activation, "initializer_range": 0.05, "name": "dense"}
    layer = check_layer(Linear, arguments, (X,), {"dense/kernel": (8, 5), "dense/bias": (5,)}, tmp_path)
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


def test_without_a_scope_a_compiled_function_draws_anew_and_keras_seed_repeats():
    layer = Dropout(0.5)
    run = tf.function(lambda x: layer(x, training=True))
    keras.utils.set_random_seed(1)
    first, second = run(X).numpy(), run(X).numpy()
    assert (first != second).any()
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(tf.function(lambda x: layer(x, training=True))(X), first)
