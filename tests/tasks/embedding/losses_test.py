"""Losses of sentence embeddings, each compared with its formula."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.windowed import Windowed
from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.tasks.distilled_task import DistilledTask
from bert_tf.tasks.embedding.losses import LOSS_FUNCTIONS, LossParameters
from bert_tf.tasks.embedding.task import EmbeddingTask
from tests import tiny
from tests.tasks.embedding.support import unit_vectors

NUMBERS = LossParameters(temperature=0.1, margin=0.4)


def batch(vectors, scores=None, **changes):
    """A batch whose texts all differ."""
    count, texts = vectors.shape[:2]
    values = {"input_ids": np.arange(count * texts * 2).reshape(count, texts, 2), "is_real_example": np.ones(count)}
    values["input_mask"] = np.ones_like(values["input_ids"])
    values |= {"label_values": np.ones(count) if scores is None else scores} | changes
    return {name: tf.constant(v, tf.int32 if name.startswith("input_") else tf.float32) for name, v in values.items()}


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


def test_a_text_that_an_example_lacks_is_no_negative():
    vectors, mask = unit_vectors(3, 4, 5), np.ones([3, 4, 2])
    mask[0, 2:] = mask[2, 3] = 0
    found = computed("in_batch_negatives", vectors, batch(vectors, input_mask=mask))
    candidates = np.concatenate([vectors[:, 1], vectors[1:, 2], vectors[1:2, 3]])
    np.testing.assert_allclose(found, [cross_entropy(vectors[n, 0], candidates, n) for n in range(3)], rtol=1e-5)


def test_examples_of_one_query_share_their_negatives():
    """The matches of a query are not candidates for each other, and its negatives count once, for all queries."""
    vectors, ids = unit_vectors(4, 4, 5), np.arange(32).reshape(4, 4, 2)
    vectors[2, [0, 2, 3]], ids[2, [0, 2, 3]] = vectors[0, [0, 2, 3]], ids[0, [0, 2, 3]]  # one query, two matches
    found = computed("in_batch_negatives", vectors, batch(vectors, input_ids=ids))
    negatives = vectors[[0, 1, 3, 0, 1, 3], [2, 2, 2, 3, 3, 3]]
    of_others = {0: [0, 1, 3], 2: [2, 1, 3], 1: [1, 0, 2, 3], 3: [3, 0, 1, 2]}
    expected = [cross_entropy(vectors[n, 0], [*vectors[of_others[n], 1], *negatives], 0) for n in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    again = np.concatenate([vectors, vectors[:1]]), np.concatenate([ids, ids[:1]])  # the last one fills up
    fillers = batch(again[0], input_ids=again[1][::-1], is_real_example=[0, 1, 1, 1, 1])
    reverse = computed("in_batch_negatives", again[0][::-1].copy(), fillers)
    np.testing.assert_allclose(reverse[:0:-1], expected, rtol=1e-5)


def test_losses_of_each_example_alone():
    vectors, scores = unit_vectors(4, 3, 5), np.array([1.0, 0, 1, 0])
    near, far = ((vectors[:, 0] * vectors[:, n]).sum(-1) for n in (1, 2))
    distance = 1 - near
    expected = {
        "cosine": (near - scores) ** 2,
        "contrastive": np.where(scores > 0, distance**2, np.maximum(0, 0.4 - distance) ** 2) / 2,
        "triplet": np.maximum(0, far - near + 0.4),
        "margin_mse": ((near - far) / 0.1 - scores) ** 2,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(computed(name, vectors, batch(vectors, scores)), values, rtol=1e-4, atol=1e-6)
    assert set(LOSS_FUNCTIONS) == {"in_batch_negatives", *expected}


@pytest.mark.parametrize("loss", LOSS_FUNCTIONS)
def test_the_loss_of_shorter_vectors_is_the_mean_over_them(loss):
    vectors = np.random.default_rng(1).normal(size=(4, 3, 32)).astype(np.float32)
    marked, numbers = batch(vectors, [1.0, 0, 1, 0]), {"examples": tf.constant(4.0)}
    task = EmbeddingTask(tiny.config(), loss=loss, matryoshka_dims=(32, 8, 3))
    of_each = [
        LOSS_FUNCTIONS[loss].compute(tf.math.l2_normalize(vectors[..., :dim], -1), marked, LossParameters(0.05, 0.5))
        for dim in (32, 8, 3)
    ]
    found = task.loss(tf.constant(vectors), marked, numbers)
    assert float(found) == pytest.approx(float(tf.reduce_mean(of_each)), rel=1e-5)


def test_a_teacher_does_not_change_what_the_loss_depends_on():
    assert DistilledTask(EmbeddingTask(tiny.config()), None).loss_of_batch
    assert not DistilledTask(EmbeddingTask(tiny.config(), loss="cosine"), None).loss_of_batch


def test_metrics_of_shorter_vectors():
    vectors, names = unit_vectors(20, 2, 32), ["recall_at_1", "recall_at_10", "mrr"]
    task = EmbeddingTask(tiny.config(), matryoshka_dims=(32, 8, 3))
    sequences = EncodedDataset({"input_ids": np.arange(40)}, np.arange(41), {})
    encoded = Windowed(sequences, np.arange(0, 41, 2), {})
    found = task.metrics(vectors, encoded)
    assert list(found) == list(task.metric_names) == [*names, *(f"{n}_dim_{d}" for d in (8, 3) for n in names)]
    for dim in (8, 3):
        alone = EmbeddingTask(tiny.config()).metrics(vectors[..., :dim], encoded)
        assert [found[f"{name}_dim_{dim}"] for name in names] == list(alone.values())
    assert all(map(higher_is_better, found))


@pytest.mark.parametrize("dims", [(33,), (8, 0), (8, 8)])
def test_dimensions_that_there_are_not(dims):
    with pytest.raises(ValueError, match="`matryoshka_dims` must be different numbers from 1 to 32, the number of dim"):
        EmbeddingTask(tiny.config(), matryoshka_dims=dims)
