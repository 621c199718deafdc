"""Self-attention: the harness, the masks as pictures, the probabilities."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.attention import MASKED, SelfAttention, attention_bias, attention_scores
from bert_tf.models.disentangled_attention import position_scores
from bert_tf.models.encoder import Encoder
from tests import tiny
from tests.harness import check_layer

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 5, 8)).astype(np.float32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], np.int32)
BIAS = attention_bias(tf.constant(MASK)).numpy()
WEIGHTS = {
    "attention/self/query/kernel": (8, 8),
    "attention/self/query/bias": (8,),
    "attention/self/key/kernel": (8, 8),
    "attention/self/key/bias": (8,),
    "attention/self/value/kernel": (8, 8),
    "attention/self/value/bias": (8,),
    "attention/output/dense/kernel": (8, 8),
    "attention/output/dense/bias": (8,),
    "attention/output/LayerNorm/gamma": (8,),
    "attention/output/LayerNorm/beta": (8,),
}


@pytest.mark.slow
def test_harness(tmp_path):
    arguments = {
        "num_heads": 2,
        "attention_dropout": 0.1,
        "hidden_dropout": 0.2,
        "initializer_range": 0.05,
        "epsilon": 1e-6,
        "name": "attention",
    }
    # A key's bias adds one number to all scores of a query, which softmax does not see.
    layer = check_layer(SelfAttention, arguments, (X, BIAS), WEIGHTS, tmp_path, unmoved=["key/bias"])
    np.testing.assert_allclose(layer(X, BIAS), _by_hand(layer, 2, 1e-6), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("positions", [False, True])
def test_scores_in_float16_stay_in_its_range(positions):
    """Their products are above 65,504, as those of mDeBERTa; scaled first, as in Transformers, they are not."""
    query, key, far_keys, far_queries = (70 * RNG.standard_normal((4, 1, 2, 6, 64))).astype(np.float32)
    vectors = (np.tile(far_keys, (1, 1, 2, 1)), np.tile(far_queries, (1, 1, 2, 1))) if positions else None
    scale = (64 * (3 if positions else 1)) ** -0.5
    exact = query @ key.swapaxes(-1, -2) + (position_scores(query, key, *vectors).numpy() if positions else 0)
    assert abs(exact).max() > 65504
    for dtype, bits in ((tf.float16, False), (tf.float32, True), (tf.bfloat16, True)):
        q, k, *v = (tf.cast(each, dtype) for each in (query, key, *(vectors or ())))
        scores = attention_scores(q, k, scale, v or None)
        assert scores.dtype == dtype and np.isfinite(tf.cast(scores, tf.float32)).all()
        if bits:  # the order of operations that oneDNN fuses
            plain = tf.matmul(q, k, transpose_b=True)
            plain = (plain + position_scores(q, k, *v) if positions else plain) * tf.cast(scale, dtype)
            np.testing.assert_array_equal(scores, plain)
        else:
            exact *= scale
            np.testing.assert_allclose(tf.cast(scores, tf.float32), exact, atol=0.004 * abs(exact).max())


@pytest.mark.parametrize(
    "changes", [{}, {"global_rope_theta": 100.0, "local_attention": 2, "global_attn_every_n_layers": 2},
                {"pos_att_type": ("c2p", "p2c"), "position_biased_input": False}],
    ids=["plain", "local and rotary", "disentangled"],
)  # fmt: skip
def test_an_encoder_with_large_scores_in_float16(changes):
    """Queries and keys are all about 80, so that their products exceed float16, and all tokens are alike."""
    encoder = Encoder(tiny.config(num_hidden_layers=2, **changes), dtype="float16")
    encoder.build()
    for variable in encoder.variables:
        if variable.path.endswith(("query/bias", "key/bias")):
            variable.assign(tf.fill(variable.shape, 80.0))
    features = {"input_ids": np.arange(1, 9, dtype=np.int32)[None], "input_mask": np.ones((1, 8), np.int32)}
    assert 80 * 80 * encoder.block_of(1).attention.width > 65504
    assert np.isfinite(encoder(features)["sequence_output"]).all()


def _by_hand(layer, heads, epsilon):
    """The formula of the paper in NumPy, one row, head and token at a time."""
    q_w, q_b, k_w, k_b, v_w, v_b, o_w, o_b = (
        np.asarray(w) for part in ("query", "key", "value", "dense") for w in getattr(layer, part).get_weights()
    )
    gamma, beta = layer.norm.get_weights()
    width, out = 8 // heads, np.zeros_like(X)
    for row, x in enumerate(X):
        q, k, v = x @ q_w + q_b, x @ k_w + k_b, x @ v_w + v_b
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            for token in range(len(x)):
                e = np.exp(k[:, part] @ q[token, part] / np.sqrt(width)) * MASK[row]
                out[row, token, part] = e / e.sum() @ v[:, part]
    y = X + out @ o_w + o_b
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + epsilon)
    return y * gamma + beta


def test_probabilities():
    layer = SelfAttention(2, initializer_range=0.5)
    y, probs = layer(X, BIAS, return_probs=True)
    np.testing.assert_array_equal(y, layer(X, BIAS))
    assert probs.shape == (3, 2, 5, 5)
    np.testing.assert_allclose(tf.reduce_sum(probs, -1), np.ones((3, 2, 5)), rtol=1e-5)
    assert (probs.numpy()[1, :, :, 3:] == 0).all() and (probs.numpy()[1, :, :, :3] > 0).all()


def test_dropout_strikes_the_probabilities_and_the_output():
    calm = SelfAttention(2, 0.0, 0.0)
    np.testing.assert_allclose(calm(X, BIAS, training=True), calm(X, BIAS), atol=1e-6)
    _, probs = SelfAttention(2, 0.5, 0.0)(X, BIAS, training=True, return_probs=True)
    assert 0.2 < (probs.numpy()[0] == 0).mean() < 0.8  # no token of the first row is masked
    hidden = SelfAttention(2, 0.0, 0.5)
    assert (hidden(X, BIAS, training=True).numpy() != hidden(X, BIAS).numpy()).any()


def test_width_and_heads_are_free():
    layer = SelfAttention(3, initializer_range=0.3)
    assert layer(X[:, :, :6], BIAS).shape == (3, 5, 6)


def test_bias_of_padding():
    bias = attention_bias(tf.constant([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]))
    assert bias.shape == (2, 1, 1, 5)
    assert (bias[:, 0, 0] / MASKED).numpy().tolist() == [[0, 0, 0, 0, 1], [0, 0, 1, 1, 1]]


def test_bias_of_packed_sentences():
    sentence_ids = tf.constant([[1, 1, 2, 2, 0]])
    picture = [
        [0, 0, 1, 1, 1],
        [0, 0, 1, 1, 1],
        [1, 1, 0, 0, 1],
        [1, 1, 0, 0, 1],
        [1, 1, 1, 1, 1],  # padding sees nothing; what comes of it is not read
    ]
    bias = attention_bias(tf.constant([[1, 1, 1, 1, 0]]), sentence_ids)
    assert bias.shape == (1, 1, 5, 5)
    assert (bias[0, 0] / MASKED).numpy().tolist() == picture


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_bias_is_finite_in_half_precision(dtype):
    bias = attention_bias(tf.constant([[1, 0]]), dtype=dtype)
    assert bias.dtype == dtype and np.isfinite(tf.cast(bias, tf.float32)).all()
    assert tf.nn.softmax(bias + tf.cast(30, dtype))[0, 0, 0].numpy().tolist() == [1, 0]
