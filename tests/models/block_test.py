"""The Transformer block: the harness, and how the feed-forward part is put together."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.block import TransformerBlock
from tests.harness import check_layer, randomize
from tests.models import attention_test

X, BIAS = attention_test.X, attention_test.BIAS
WEIGHTS = {f"layer_0/{path}": shape for path, shape in attention_test.WEIGHTS.items()} | {
    "layer_0/intermediate/dense/kernel": (8, 12),
    "layer_0/intermediate/dense/bias": (12,),
    "layer_0/output/dense/kernel": (12, 8),
    "layer_0/output/dense/bias": (8,),
    "layer_0/output/LayerNorm/gamma": (8,),
    "layer_0/output/LayerNorm/beta": (8,),
}
ARGUMENTS = {
    "num_heads": 2,
    "intermediate_size": 12,
    "hidden_act": "gelu",
    "attention_dropout": 0.1,
    "hidden_dropout": 0.2,
    "initializer_range": 0.05,
    "epsilon": 1e-6,
    "name": "layer_0",
}


def test_harness(tmp_path):
    check_layer(TransformerBlock, ARGUMENTS, (X, BIAS), WEIGHTS, tmp_path, unmoved=["key/bias"])


@pytest.mark.parametrize(("name", "act"), [("gelu", lambda x: tf.nn.gelu(x, False)), ("relu", tf.nn.relu)])
def test_feed_forward(name, act):
    block = TransformerBlock(**{**ARGUMENTS, "hidden_act": name})
    block.build(X.shape)
    randomize(block)
    y, probs = block(X, BIAS, return_probs=True)
    np.testing.assert_array_equal(y, block(X, BIAS))
    assert probs.shape == (3, 2, 5, 5)
    (w1, b1), (w2, b2), (gamma, beta) = (p.get_weights() for p in (block.intermediate, block.dense, block.norm))
    x = block.attention(X, BIAS).numpy()
    z = x + act(x @ w1 + b1).numpy() @ w2 + b2
    z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-6) * gamma + beta
    np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5)
