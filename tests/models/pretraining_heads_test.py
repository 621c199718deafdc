"""Pretraining's heads: the harness, and their formulas by hand."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.pretraining_heads import MaskedLMHead, NextSentenceHead
from tests.harness import check_layer, randomize, relative_error

RNG = np.random.default_rng(0)
V = B = 6  # the harness takes the table for an input, whose first axis is the batch
X = RNG.standard_normal((B, 5, 8)).astype(np.float32)
TABLE = RNG.standard_normal((V, 8)).astype(np.float32)
POSITIONS = np.array([[1, 4, 0], [0, 1, 2], [3, 0, 0], [4, 3, 2], [2, 2, 2], [0, 0, 0]], np.int32)


@pytest.mark.parametrize("tied", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_masked_lm_head(tmp_path, tied):
    arguments = {"vocab_size": V, "hidden_act": "relu", "initializer_range": 0.5, "epsilon": 1e-5, "tied": tied}
    own = {} if tied else {"predictions/output_weights": (V, 8)}
    weights = own | {
        "predictions/transform/dense/kernel": (8, 8),
        "predictions/transform/dense/bias": (8,),
        "predictions/transform/LayerNorm/gamma": (8,),
        "predictions/transform/LayerNorm/beta": (8,),
        "predictions/output_bias": (V,),
    }
    layer = check_layer(MaskedLMHead, arguments, (X, TABLE, POSITIONS), weights, tmp_path, half_dtype="float32")
    *own, kernel, bias, gamma, beta, output_bias = (layer_weight(layer, path) for path in weights)
    table = own[0] if own else TABLE
    x = np.stack([row[places] for row, places in zip(X, POSITIONS, strict=True)])
    x = np.maximum(x @ kernel + bias, 0)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta
    np.testing.assert_allclose(layer(X, TABLE, POSITIONS), x @ table.T + output_bias, rtol=1e-4, atol=1e-4)


def layer_weight(layer, path):
    return next(v.value.numpy() for v in layer.variables if v.path == path)


def test_next_sentence_head(tmp_path):
    weights = {"seq_relationship/output_weights": (2, 8), "seq_relationship/output_bias": (2,)}
    layer = check_layer(NextSentenceHead, {"initializer_range": 0.5}, (X,), weights, tmp_path, half_dtype="float32")
    kernel, bias = layer.get_weights()
    np.testing.assert_allclose(layer(X), X @ kernel.T + bias, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer(X[:, 0]), X[:, 0] @ kernel.T + bias, rtol=1e-5, atol=1e-5)


def test_a_place_beyond_the_row_is_no_place_in_the_next_row():
    layer = MaskedLMHead(V)
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in \\[0, 5\\)"):
        layer(X, TABLE, np.full((B, 1), 5, np.int32))


@pytest.mark.slow
def test_gradients_in_bfloat16():
    """The bias's gradient is a sum over all predictions: in bfloat16 it would stand still after some hundred."""
    rng = np.random.default_rng(1)
    x, table = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 40, 16), (30, 16)))
    positions = np.tile(np.arange(40, dtype=np.int32), (64, 1))
    labels = rng.integers(0, 30, (64, 40))
    true = MaskedLMHead(30, name="true")
    true(x, table, positions)
    randomize(true)
    half = MaskedLMHead(30, dtype="mixed_bfloat16", name="half")
    half(x, table, positions)
    half.set_weights(true.get_weights())
    gradients = []
    for layer in (true, half):
        dtype = layer.compute_dtype
        inputs = [tf.constant(x, dtype), tf.constant(table, dtype)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            logits = layer(*inputs, positions, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        gradients.append(tape.gradient(loss, inputs + [v.value for v in layer.trainable_variables]))
    errors = [relative_error(ours, theirs) for theirs, ours in zip(*gradients, strict=True)]
    assert max(errors) < 0.05, errors
    assert errors[-1] < 0.01, errors
