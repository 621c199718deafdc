"""Products of integers with known ranges: as near as rounding allows, each row alone, each kernel once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import fused_int8
from bert_tf.models.encoder import TransformerBlock
from bert_tf.models.fused_int8 import found_ranges
from bert_tf.models.graph_forms import INT8_RANGES, graph_forms
from bert_tf.models.layers import Linear

N, WIDTH, UNITS = 6, 32, 64


@pytest.fixture(scope="module")
def x():
    x = np.random.default_rng(0).normal(size=(2, N, WIDTH)).astype(np.float32)
    x[..., 5] *= 30  # an outlier, as LayerNorm has them
    return x


def _linear(seed, width=WIDTH, units=UNITS, activation="linear"):
    layer, random = Linear(units, activation, name=f"layer_{seed}"), np.random.default_rng(seed)
    layer.build((None, width))
    layer.set_weights([random.normal(size=(width, units)) / 6, random.normal(size=units)])
    return layer


def _block(units, activation, **options):
    keras.utils.set_random_seed(1)
    block = TransformerBlock(4, units, activation, initializer_range=0.05, **options)
    block.build((None, None, WIDTH))
    return block


def _ranges(*calls):
    with graph_forms(INT8_RANGES):
        for call in calls:
            call()
        return {path: most.numpy() for path, most in found_ranges().items()}


def _in_integers(call, ranges):
    def computed(x):
        with graph_forms(ranges=ranges):
            return call(x)

    return tf.function(computed, autograph=False)


def _relative(ours, wanted):
    return np.linalg.norm(ours - wanted) / np.linalg.norm(wanted)


def test_layers_side_by_side(x):
    layers = [_linear(1), _linear(2, units=24)]
    ranges = _ranges(*(lambda layer=layer: layer(x) for layer in layers))
    np.testing.assert_allclose(ranges[layers[0].kernel.path], np.abs(x).max((0, 1)))
    call = _in_integers(lambda x: fused_int8.products_of_same(x, layers), ranges)
    for ours, layer in zip(call(x), layers, strict=True):
        assert ours.shape == (2, N, layer.units) and 0 < _relative(ours, layer(x)) < 0.02
    kinds = [op.type for op in call.get_concrete_function(x).graph.get_operations()]
    assert kinds.count("_QuantizedMatMul") == 2 and kinds.count("QuantizeV2") == 1


def test_the_sum_is_part_of_the_product(x):
    layer = _linear(3, units=WIDTH)
    ours = _in_integers(lambda v: fused_int8.plus_residual(v, layer, tf.constant(x)), _ranges(lambda: layer(x)))(x)
    exact = x + layer(x)
    assert 0 < np.abs(ours - exact).max() < 0.5 * np.abs(x).max() / 127 * np.abs(layer.kernel.numpy()).sum(0).max()


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_a_feed_forward_layer(x, activation):
    inner, outer = _linear(4, activation=activation), _linear(5, UNITS, WIDTH)
    ranges = _ranges(lambda: outer(inner(x)))
    assert fused_int8.can_feed_forward(inner, outer) is False  # no ranges are set here
    ours = _in_integers(lambda v: fused_int8.feed_forward(v, inner, outer, tf.constant(x)), ranges)(x)
    assert 0 < _relative(ours - x, outer(inner(x))) < 0.03


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_block_and_each_of_its_rows_alone(x, norm_first):
    block = _block(UNITS, "gelu", norm_first=norm_first)
    bias = np.zeros((1, 1, 1, N), np.float32)
    ranges = _ranges(lambda: block(x, bias))
    call = _in_integers(lambda v: block(v, bias), ranges)
    ours = call(x)
    added = x if norm_first else 0
    assert 0 < _relative(ours - added, block(x, bias) - added) < 0.03
    np.testing.assert_allclose(call(x[:1]), ours[:1], atol=1e-5)
    assert "MatMul" in {op.type for op in call.get_concrete_function(x).graph.get_operations()}  # of outlier units


@pytest.mark.parametrize(("units", "activation"), [(UNITS, "tanh"), (8, "gelu")])
def test_a_feed_forward_layer_of_another_kind_is_left_to_its_layers(x, units, activation):
    block = _block(units, activation)
    bias = np.zeros((1, 1, 1, N), np.float32)
    call = _in_integers(lambda v: block(v, bias), _ranges(lambda: block(x, bias)))
    assert _relative(call(x), block(x, bias)) < 0.03
    kinds = [op.type for op in call.get_concrete_function(x).graph.get_operations()]
    assert kinds.count("_QuantizedMatMul") == 4


def test_inputs_that_were_all_zero_have_a_range(x):
    inner, outer = _linear(7, activation="relu"), _linear(8, UNITS, WIDTH)
    inner.set_weights([inner.kernel, np.full(UNITS, -100.0)])  # no unit is ever above zero
    ranges = _ranges(lambda: outer(inner(x)))
    ours = _in_integers(lambda v: fused_int8.feed_forward(v, inner, outer, tf.constant(x)), ranges)(x)
    np.testing.assert_allclose(ours, x + outer(inner(x)), atol=1e-2)


def test_a_small_range_has_all_its_steps():
    rounded = fused_int8._round(tf.constant([[1e-3, -4e-4]]), np.float32(1e-3))
    np.testing.assert_array_equal(tf.bitcast(rounded, tf.int8), [[127, -51]])


def test_a_kernel_that_is_shared_is_there_once(x):
    layer = _linear(6)
    ranges = _ranges(lambda: layer(x))
    call = _in_integers(lambda v: [fused_int8.products_of_same(v, [layer]) for _ in range(3)], ranges)
    constants = [op.outputs[0] for op in call.get_concrete_function(x).graph.get_operations() if op.type == "Const"]
    assert [each.shape for each in constants if each.dtype == tf.int8] == [[WIDTH, UNITS]]
