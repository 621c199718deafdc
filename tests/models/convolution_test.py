"""The convolution parallel to the first layer; that its numbers are torch's is in families_parity_test.py."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.convolution import TokenConvolution, neighbors
from bert_tf.models.encoder import Encoder
from tests import tiny
from tests.harness import check_layer, randomize

CONVOLVED = {"conv_kernel_size": 3, "conv_act": "gelu", "num_hidden_layers": 2, "max_position_embeddings": 13}


@pytest.fixture(scope="module")
def encoder():
    encoder = Encoder(tiny.config(**CONVOLVED, has_pooler=False))
    encoder.build()
    randomize(encoder)
    return encoder


def _ids(*shape):
    return np.random.default_rng(0).integers(4, len(tiny.VOCAB), shape).astype(np.int32)


def test_neighbors_by_hand():
    x = np.arange(1, 6, dtype=np.float32)[None, :, None]
    expected = [[0, 1, 2], [1, 2, 0], [0, 3, 4], [3, 4, 0], [0, 0, 0]]
    assert neighbors(x, 3, np.array([[1, 1, 1, 1, 0]]), np.array([[1, 1, 2, 2, 0]])).numpy().tolist() == expected
    assert neighbors(x, 3, np.array([[1, 1, 1, 1, 0]]))[2].numpy().tolist() == [2, 3, 4]


@pytest.mark.slow
def test_harness(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(2, 2, 5, 8)).astype(np.float32)
    arguments = {"kernel_size": 3, "act": "tanh", "hidden_dropout": 0.1, "initializer_range": 0.02, "epsilon": 1e-12,
                 "norm_bias": True}  # fmt: skip
    shapes = {"kernel": (3, 8, 8), "bias": (8,), "LayerNorm/gamma": (8,), "LayerNorm/beta": (8,)}
    shapes = {f"conv/{name}": shape for name, shape in shapes.items()}
    check_layer(TokenConvolution, arguments, (x, y, np.ones((2, 5), np.int32)), shapes, tmp_path)


def test_packed_rows_are_as_their_parts_alone(encoder):
    ids = _ids(1, 13)
    sentences = np.repeat([[1, 2, 0]], [5, 7, 1], axis=1).astype(np.int32)
    inputs = {"input_ids": ids, "input_mask": (sentences > 0).astype(np.int32), "sentence_ids": sentences}
    together = encoder(inputs)["sequence_output"][0]
    for part in (slice(0, 5), slice(5, 12)):
        alone = encoder({"input_ids": ids[:, part]})["sequence_output"][0]
        np.testing.assert_allclose(together[part], alone, atol=1e-5)


def test_the_gradient_of_the_bias_in_bfloat16():
    """TensorFlow's BiasAddGrad would be off by far more."""
    layer = TokenConvolution(3, "linear", 0.0, dtype="mixed_bfloat16")
    layer.build((None, None, 4))
    x = np.random.default_rng(0).normal(size=(32, 128, 4)).astype(np.float32)
    layer.norm = lambda y: y
    with tf.GradientTape() as tape:
        out = layer(x, 0 * x, np.ones((32, 128), np.int32), training=True)
        loss = tf.reduce_sum(tf.cast(out, tf.float32))
    found = tape.gradient(loss, layer.bias.value)
    np.testing.assert_allclose(found, np.full(4, 32 * 128, np.float32), rtol=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv_kernel_size": 2}, "conv_kernel_size must be odd; got 2"),
        ({"is_decoder": True}, "conv_kernel_size requires is_decoder=False"),
    ],
)
def test_settings_that_do_not_go_together(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny.config(**CONVOLVED | changes)
