"""Gradients in bfloat16 against float32, of every variable, at a batch as large as one in training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.utils.resources import computes_bfloat16
from tests.harness import numbers

CONFIG = EncoderConfig(
    vocab_size=500,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=512,
    max_position_embeddings=64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


@pytest.fixture(scope="module")
def gradients():
    """Returns {path: (in bfloat16, in float32)} for 32 rows of up to 64 tokens."""
    rng = np.random.default_rng(0)
    keras.utils.set_random_seed(0)
    true, half = Encoder(CONFIG), Encoder(CONFIG, dtype="mixed_bfloat16")
    for model in (true, half):
        model.build()
    for ours, twin in zip(true.variables, half.variables, strict=True):
        scale = 0.1 if len(ours.shape) == 1 else 0.04
        ours.assign_add(scale * rng.standard_normal(ours.shape).astype(np.float32))
        twin.assign(ours)
    inputs = {
        "input_ids": rng.integers(0, 500, (32, 64)).astype(np.int32),
        "input_mask": (np.arange(64) < rng.integers(10, 65, (32, 1))).astype(np.int32),
    }
    weight = 0.01 * rng.standard_normal((32, 64, 128)).astype(np.float32) * inputs["input_mask"][:, :, None]
    each = zip(
        true.trainable_variables, _gradients(half, inputs, weight), _gradients(true, inputs, weight), strict=True
    )
    return {v.path: (ours, twin) for v, ours, twin in each}


def _gradients(model, inputs, weight):
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        y = tf.cast(outputs["sequence_output"], tf.float32)
        pooled = tf.cast(outputs["pooled_output"], tf.float32)
        loss = tf.reduce_sum(weight * (y + 5 * y * y)) + 0.01 * tf.reduce_sum(pooled)
    return [numbers(g) for g in tape.gradient(loss, [v.value for v in model.trainable_variables])]


@pytest.mark.slow
def test_every_gradient_is_near(gradients):
    """The parts that add up thousands of rows too: biases, gammas, tables."""
    errors = {p: np.linalg.norm(a - b) / np.linalg.norm(b) for p, (a, b) in gradients.items() if "key/bias" not in p}
    assert len(errors) == 37
    most = 0.02 if computes_bfloat16() else 0.03  # TensorFlow's plain kernels, without oneDNN, round more often
    assert {path: error for path, error in errors.items() if not error < most} == {}


@pytest.mark.slow
def test_the_keys_bias(gradients):
    """Its true gradient is zero; it is measured by that of the query's bias."""
    for n in range(2):
        at = f"bert/encoder/layer_{n}/attention/self"
        query, (ours, true) = gradients[f"{at}/query/bias"][1], gradients[f"{at}/key/bias"]
        assert np.linalg.norm(true) < 1e-5 * np.linalg.norm(query)
        assert np.linalg.norm(ours) < 0.03 * np.linalg.norm(query)
