"""Each loss by hand, in numpy; and what of a batch it does not read."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.embedding import LOSS_FUNCTIONS, LossParameters

NUMBERS = LossParameters(temperature=0.1, margin=0.4)


def unit_vectors(*shape):
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def batch(vectors, scores=None, **changes):
    """A batch whose texts all differ."""
    count, texts = vectors.shape[:2]
    values = {"input_ids": np.arange(count * texts * 2).reshape(count, texts, 2), "is_real_example": np.ones(count)}
    values |= {"label_values": np.ones(count) if scores is None else scores} | changes
    return {name: tf.constant(v, tf.int32 if name == "input_ids" else tf.float32) for name, v in values.items()}


def computed(name, vectors, batch):
    return LOSS_FUNCTIONS[name].compute(tf.constant(vectors), batch, NUMBERS).numpy()


def cross_entropy(query, candidates, own):
    logits = candidates @ query / NUMBERS.temperature
    return np.log(np.exp(logits).sum()) - logits[own]


@pytest.mark.parametrize("texts", [2, 3])
def test_the_own_text_among_those_of_the_batch(texts):
    vectors = unit_vectors(4, texts, 5)
    candidates = np.concatenate([vectors[:, n] for n in range(1, texts)])
    expected = [cross_entropy(vectors[n, 0], candidates, n) for n in range(4)]
    np.testing.assert_allclose(computed("in_batch_negatives", vectors, batch(vectors)), expected, rtol=1e-5, atol=1e-5)


def test_what_fills_a_batch_up_is_no_negative():
    vectors = unit_vectors(5, 2, 5)
    real = batch(vectors, is_real_example=[1, 1, 0, 1, 0])
    expected = [cross_entropy(vectors[n, 0], vectors[[0, 1, 3], 1], place) for place, n in enumerate((0, 1, 3))]
    np.testing.assert_allclose(computed("in_batch_negatives", vectors, real)[[0, 1, 3]], expected, rtol=1e-5, atol=1e-5)


def test_the_same_text_is_no_negative_of_itself():
    vectors = unit_vectors(3, 2, 5)
    ids = np.arange(12).reshape(3, 2, 2)
    ids[2, 1] = ids[0, 1]
    found = computed("in_batch_negatives", vectors, batch(vectors, input_ids=ids))
    expected = [cross_entropy(vectors[n, 0], vectors[of, 1], own) for n, of, own in
                ((0, [0, 1], 0), (1, [0, 1, 2], 1), (2, [1, 2], 1))]  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_losses_of_each_example_alone():
    vectors, scores = unit_vectors(4, 3, 5), np.array([1.0, 0, 1, 0])
    near, far = ((vectors[:, 0] * vectors[:, n]).sum(-1) for n in (1, 2))
    distance = 1 - near
    expected = {
        "cosine": (near - scores) ** 2,
        "contrastive": np.where(scores > 0, distance**2, np.maximum(0, 0.4 - distance) ** 2) / 2,
        "triplet": np.maximum(0, far - near + 0.4),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(computed(name, vectors, batch(vectors, scores)), values, rtol=1e-4, atol=1e-6)
    assert set(LOSS_FUNCTIONS) == {"in_batch_negatives", *expected}
