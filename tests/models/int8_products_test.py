"""Products of 8-bit integers: the formula itself, each row alone, each kernel once."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.graph_forms import INT8_PRODUCTS, graph_forms, is_wanted
from bert_tf.models.layers import Linear

N, WIDTH, UNITS = 5, 32, 24


@pytest.fixture(scope="module")
def rows():
    rows = np.random.default_rng(0).normal(size=(N, WIDTH)).astype(np.float32)
    rows[1] *= 100  # a scale for each row
    rows[2] = 0
    return rows


@pytest.fixture(scope="module")
def layer():
    layer = Linear(UNITS)
    layer.build((None, WIDTH))
    kernel = np.random.default_rng(1).normal(size=(WIDTH, UNITS)).astype(np.float32)
    kernel[:, 3] *= 50  # and for each column
    layer.set_weights([kernel, np.linspace(-1, 1, UNITS, dtype=np.float32)])
    return layer


def _traced(layer, times=1):
    def call(x):
        with graph_forms(INT8_PRODUCTS):
            return [layer(x) for _ in range(times)]

    spec = tf.TensorSpec([None, WIDTH], tf.float32)
    return tf.function(call, input_signature=[spec], autograph=False).get_concrete_function()


def _by_numpy(x, kernel, bias):
    s = np.maximum(np.abs(x).max(1, keepdims=True), 1e-9) / 127
    t = np.abs(kernel).max(0) / 127
    product = np.floor(x / s + 0.5).astype(int) @ np.round(kernel / t).astype(int)
    return product * s * t + bias


def test_it_is_the_product_of_rounded_numbers(layer, rows):
    ours = _traced(layer)(rows)[0]
    np.testing.assert_allclose(ours, _by_numpy(rows, *layer.get_weights()), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(ours[2], layer.get_weights()[1])  # a row of zeros


def test_it_is_as_near_to_the_product_as_rounding_allows(layer, rows):
    kernel, _ = layer.get_weights()
    half_a_step = [np.abs(each).max(axis, keepdims=True) / 254 for each, axis in ((rows, 1), (kernel, 0))]
    most = half_a_step[0] * np.abs(kernel).sum(0) + half_a_step[1] * (np.abs(rows).sum(1, keepdims=True) + 1)
    difference = np.abs(_traced(layer)(rows)[0] - layer(rows))
    assert np.all(difference <= 1.01 * most) and difference.max() > 0


def test_rows_do_not_hang_on_each_other(layer, rows):
    traced = _traced(layer)
    together = traced(rows)[0]
    for n in range(N):
        np.testing.assert_array_equal(traced(rows[n : n + 1])[0][0], together[n])


def test_a_kernel_that_is_shared_is_there_once(layer):
    graph = _traced(layer, times=3).graph
    kinds = [op.type for op in graph.get_operations()]
    constants = [op.outputs[0] for op in graph.get_operations() if op.type == "Const"]
    assert kinds.count("QuantizedMatMulWithBiasAndDequantize") == 3 and "MatMul" not in kinds
    assert [each.shape for each in constants if each.dtype == tf.int8] == [[WIDTH, UNITS]]


def test_it_ends_where_its_scope_ends(layer, rows):
    before = layer(rows).numpy()
    with graph_forms(INT8_PRODUCTS):
        within = layer(rows).numpy()
    assert np.any(within != before) and not is_wanted(INT8_PRODUCTS)
    np.testing.assert_array_equal(layer(rows), before)


def test_a_layer_answers_in_its_own_type(layer, rows):
    half = Linear(UNITS, dtype="mixed_bfloat16")
    half.build((None, WIDTH))
    half.set_weights(layer.get_weights())
    with graph_forms(INT8_PRODUCTS):
        ours = half(rows)
    assert ours.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(ours, tf.float32)[3:], layer(rows)[3:], rtol=0.05, atol=1.5)
