"""Layers in parts: their sum is the whole, each part is made once, and what cannot be split is left whole."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.encoder import Encoder, TransformerBlock
from bert_tf.models.fused_int8 import found_ranges
from bert_tf.models.graph_forms import INT8_PRODUCTS, INT8_RANGES, graph_forms
from bert_tf.models.lora import Lora
from bert_tf.models.tensor_parallel import split_layers
from tests.harness import randomize
from tests.models.encoder_test import CONFIG

N, WIDTH, UNITS = 6, 32, 64
BIAS = np.zeros((1, 1, 1, N), np.float32)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(2, N, WIDTH)).astype(np.float32)


def _block(heads=4, **options):
    block = TransformerBlock(heads, UNITS, "gelu", head_width=8, **options)
    block.build((None, None, WIDTH))
    randomize(block)
    return block


def _operations(block, x, **options):
    def call(x):
        with graph_forms(**options):
            return block(x, BIAS)

    return [each.type for each in tf.function(call).get_concrete_function(x).graph.get_operations()]


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"dtype": "mixed_bfloat16"}], ids=str)
def test_a_block_in_parts_gives_what_the_whole_gives(x, options):
    block = _block(**options)
    parts = {}
    with graph_forms(parts=parts):
        ours = block(x, BIAS)
    assert [len(each) for each in parts.values()] == [2, 2]
    largest = np.abs(np.asarray(tf.cast(ours - block(x, BIAS), tf.float32))).max()
    assert largest < (0.15 if options.get("dtype") else 1e-5)
    assert _operations(block, x, parts={}).count("MatMul") == 2 * 4 and _operations(block, x).count("MatMul") == 6


def test_heads_and_units_are_the_whole_ones_in_order():
    block = _block()
    attention = block.attention
    with graph_forms(parts={}):
        halves = split_layers([attention.query, attention.key], attention.dense, width=8)
    both = [np.split(part.kernel, 2, 1) for (part,), _ in halves]
    biases = [np.split(part.bias, 2) for (part,), _ in halves]
    for number, whole in enumerate([attention.query, attention.key]):
        np.testing.assert_array_equal(np.concatenate([each[number] for each in both], 1), whole.kernel)
        np.testing.assert_array_equal(np.concatenate([each[number] for each in biases]), whole.bias)
    np.testing.assert_array_equal(np.concatenate([each[1].kernel for each in halves]), attention.dense.kernel)
    np.testing.assert_array_equal(halves[0][1].bias + halves[1][1].bias, attention.dense.bias)


def test_an_odd_number_of_heads_adapters_and_weights_of_heads_are_left_whole(x):
    parts = {}
    with graph_forms(parts=parts):
        odd = _block(heads=3)(x, BIAS)
    assert odd.shape == x.shape and len(parts) == 1  # the feed-forward layer
    adapted = _block(lora=Lora(2, 4, ("query",)))
    with graph_forms(parts=parts):
        np.testing.assert_allclose(adapted(x, BIAS), adapted(x, BIAS))
        attention = _block().attention
        masked = attention(x, BIAS, head_mask=np.array([1, 0, 1, 1], np.float32))
    np.testing.assert_array_equal(masked, attention(x, BIAS, head_mask=np.array([1, 0, 1, 1], np.float32)))
    assert len(parts) == 2  # and that of the one with an adapter


def test_layers_that_share_a_block_share_its_parts(x):
    encoder = Encoder(dataclasses.replace(CONFIG, num_hidden_layers=3, num_hidden_groups=1))
    encoder.build()
    parts, features = {}, {"input_ids": np.ones((1, 4), np.int32), "segment_ids": np.zeros((1, 4), np.int32)}
    for _ in range(2):  # two signatures
        with graph_forms(parts=parts):
            encoder(features)
    assert len(parts) == 2


def test_a_second_graph_has_the_ranges_of_the_first(x):
    """As scoring on several devices makes one for each."""
    block = _block()
    with graph_forms(INT8_RANGES):
        block(x, BIAS)
        ranges = {path: most.numpy() for path, most in found_ranges().items()}
    parts, answers = {}, []
    for _ in range(2):
        with graph_forms(INT8_PRODUCTS, ranges=ranges, parts=parts):
            answers.append(tf.function(lambda x: block(x, BIAS), autograph=False)(x))
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("with_ranges", [False, True])
def test_in_integers(x, with_ranges):
    keras.utils.set_random_seed(1)
    block = TransformerBlock(4, UNITS, "gelu", initializer_range=0.05)
    block.build((None, None, WIDTH))
    with graph_forms(INT8_RANGES):
        exact = block(x, BIAS)
        ranges = {path: most.numpy() for path, most in found_ranges().items()} if with_ranges else None

    def call(x):
        with graph_forms(INT8_PRODUCTS, ranges=ranges, parts={}):
            return block(x, BIAS)

    call = tf.function(call, autograph=False)
    ours = call(x)
    assert 0 < np.linalg.norm(ours - exact) / np.linalg.norm(exact) < 0.03
    found = call.get_concrete_function(x).graph.get_operations()
    product = "_QuantizedMatMul" if with_ranges else "QuantizedMatMulWithBiasAndDequantize"
    assert [each.type for each in found].count(product) == 2 * 4
    kernels = [each.outputs[0] for each in found if each.type == "Const" and each.outputs[0].dtype == tf.int8]
    assert (
        sum(each.shape.num_elements() for each in kernels) == 4 * WIDTH * WIDTH + 2 * WIDTH * UNITS
    )  # as many weights as the whole has
