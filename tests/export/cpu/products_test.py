"""Products of 8-bit integers: the formulas themselves, how near they are, each row alone; and the norm's one kernel."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.cpu import int8_ranges
from bert_tf.export.cpu.int8_ranges import RangedInt8, RecordingFloats
from bert_tf.export.cpu.products import DenseWeights, Floats, FusedLayerNorm, Int8
from bert_tf.models import layers
from tests.harness import randomize
from tests.processor import needs_int8

N, WIDTH, UNITS = 5, 32, 64
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def x():
    x = RANDOM.normal(size=(N, WIDTH)).astype(np.float32)
    x[1] *= 100  # a scale for each row
    x[2] = 0
    x[:, 5] *= 30  # an outlier, as LayerNorm has them
    return tf.constant(x)


def _dense(seed, width=WIDTH, units=UNITS, activation="linear"):
    random = np.random.default_rng(seed)
    kernel, bias = random.normal(size=(width, units)) / 6, random.normal(size=units)
    return DenseWeights(kernel.astype(np.float32), bias.astype(np.float32), activation)


def _exact(layer, x):
    return layers.activation(layer.activation)(tf.matmul(x, layer.kernel) + layer.bias)


def _relative(ours, wanted):
    return np.linalg.norm(ours - wanted) / np.linalg.norm(wanted)


def _by_numpy(x, kernel, bias):
    s = np.maximum(np.abs(x).max(1, keepdims=True), 1e-9) / 127
    t = np.abs(kernel).max(0) / 127
    product = np.floor(x / s + 0.5).astype(int) @ np.round(kernel / t).astype(int)
    return product * s * t + bias


@needs_int8
def test_int8_is_the_product_of_rounded_numbers(x):
    layer = _dense(1)
    product = tf.function(Int8().dense(layer), autograph=False, reduce_retracing=True)
    ours = product(x)
    np.testing.assert_allclose(ours, _by_numpy(x.numpy(), layer.kernel, layer.bias), rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(ours[2], layer.bias)  # a row of zeros
    half_a_step = [np.abs(each).max(axis, keepdims=True) / 254 for each, axis in ((x, 1), (layer.kernel, 0))]
    most = half_a_step[0] * np.abs(layer.kernel).sum(0) + half_a_step[1] * (np.abs(x).sum(1, keepdims=True) + 1)
    difference = np.abs(ours - _exact(layer, x))
    assert np.all(difference <= 1.01 * most) and difference.max() > 0
    for n in range(N):
        np.testing.assert_array_equal(product(x[n : n + 1])[0], ours[n])


def _ranges(make, *inputs):
    """Returns the ranges that `make`, which takes an arithmetic, notes for the inputs of its product."""
    recording = RecordingFloats()
    product = make(recording)
    recording.begin(tf.ones([N], tf.int32))
    product(*inputs)
    return {key: most.numpy() for key, most in recording.found.items()}


def test_padding_has_no_part_in_a_range(x):
    recording = RecordingFloats()
    product = recording.attention_input(_dense(1), (0, "attention"))
    recording.begin(tf.constant([1, 0, 1, 1, 0]))
    product(x)
    np.testing.assert_array_equal(recording.found[0, "attention"], np.abs(x.numpy()[[0, 2, 3]]).max(0))


@needs_int8
def test_queries_keys_and_values_are_rounded_once(x):
    layer, key = _dense(2), (0, "attention")

    def make(arithmetic):
        return arithmetic.attention_input(layer, key)

    ranged = tf.function(make(RangedInt8(_ranges(make, x))), autograph=False)
    assert 0 < _relative(ranged(x), _exact(layer, x)) < 0.02
    kinds = [op.type for op in ranged.get_concrete_function(x).graph.get_operations()]
    assert kinds.count("_QuantizedMatMul") == kinds.count("QuantizeV2") == 1


def test_the_sum_is_part_of_the_product(x):
    layer, key = _dense(3, units=WIDTH), (0, "attention_output")

    def make(arithmetic):
        return arithmetic.attention_output(layer, key)

    ours = tf.function(make(RangedInt8(_ranges(make, x, x))), autograph=False)(x[:3], x)  # filled up by zeros
    exact = x + tf.concat([_exact(layer, x[:3]), tf.tile([layer.bias], [2, 1])], 0)
    assert 0 < np.abs(ours - exact).max() < 0.5 * np.abs(x).max() / 127 * np.abs(layer.kernel).sum(0).max()


@needs_int8
@pytest.mark.parametrize(
    ("activation", "units"), [("gelu", UNITS), ("gelu_tanh", UNITS), ("relu", UNITS), ("tanh", UNITS), ("gelu", 8)]
)
def test_a_feed_forward_layer(x, activation, units):
    x = x / 30
    inner, outer, key = _dense(4, units=units, activation=activation), _dense(5, units, WIDTH), (0, "feed_forward")

    def make(arithmetic):
        return arithmetic.feed_forward(inner, outer, key)

    call = tf.function(make(RangedInt8(_ranges(make, x, x))), autograph=False)
    exact = _exact(outer, _exact(inner, x))
    assert _relative(call(x, x, False), exact) < 0.03
    assert _relative(call(x, x), x + exact) < 0.03
    kinds = [op.type for op in call.get_concrete_function(x, x).graph.get_operations()]
    assert kinds.count("_QuantizedMatMul") == (2 if units > 8 and activation != "tanh" else 0)


def test_inputs_that_were_all_zero_have_a_range(x):
    inner, outer = _dense(7, activation="relu"), _dense(8, UNITS, WIDTH)
    inner = DenseWeights(inner.kernel / 100, np.full(UNITS, -100.0, np.float32), "relu")  # no unit is ever above zero

    def make(arithmetic):
        return arithmetic.feed_forward(inner, outer, (0, "feed_forward"))

    ours = tf.function(make(RangedInt8(_ranges(make, x, x))), autograph=False)(x, x)
    np.testing.assert_allclose(ours, x + _exact(outer, _exact(inner, x)), atol=1e-2)


def test_a_small_range_has_all_its_steps():
    rounded = int8_ranges._round(tf.constant([[1e-3, -4e-4]]), np.float32(1e-3))
    np.testing.assert_array_equal(tf.bitcast(rounded, tf.int8), [[127, -51]])


def test_the_norm_is_the_models(x):
    layer = layers.LayerNorm(1e-12)
    layer.build((None, WIDTH))
    randomize(layer)
    fast = tf.function(FusedLayerNorm(layer, Floats()), autograph=False)
    np.testing.assert_allclose(fast(x), layer(x), atol=1e-5)
