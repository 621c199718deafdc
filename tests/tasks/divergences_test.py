"""The distances to a teacher's outputs, against sums by hand."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.divergences import divergence, yes_no_divergence
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.tagging.task import TaggingTask
from tests import tiny

T = 2.5
OWN, TAUGHT = np.random.default_rng(0).normal(0, 2, (2, 4, 3, 5)).astype(np.float32)
B = {"label_ids": tf.constant([0, 4, 1, 1])}


def _softmax(logits):
    shares = np.exp(logits.astype(np.float64))
    return shares / shares.sum(-1, keepdims=True)


def _by_hand(own, taught):
    p, q = _softmax(taught / T), _softmax(own / T)
    return T**2 * (p * np.log(p / q)).sum(-1)


def test_divergence():
    np.testing.assert_allclose(divergence(OWN, TAUGHT, T), _by_hand(OWN, TAUGHT), rtol=1e-4)
    np.testing.assert_allclose(divergence(TAUGHT, TAUGHT, T), np.zeros((4, 3)), atol=1e-5)


def test_its_gradient_keeps_its_size_as_the_temperature_rises():
    """In the limit it is that of half the squared difference over the number of labels (Hinton et al., equation 4)."""
    own, taught = (tf.constant(each - each.mean(-1, keepdims=True)) for each in (OWN, TAUGHT))
    with tf.GradientTape() as tape:
        tape.watch(own)
        loss = divergence(own, taught, 300.0)
    np.testing.assert_allclose(tape.gradient(loss, own), (own - taught) / 5, atol=0.02)


def test_of_yes_and_no():
    """Yes and no are two labels, of which no has the logit 0."""
    both = [np.stack([each, np.zeros_like(each)], -1) for each in (OWN, TAUGHT)]
    np.testing.assert_allclose(yes_no_divergence(OWN, TAUGHT, T), _by_hand(*both), rtol=1e-4, atol=1e-6)


CONFIG = tiny.config()
ROW, ROW_TAUGHT = OWN[:, 0], TAUGHT[:, 0]  # [4, 5]
TAGS = np.array([[0, -1, 4], [-1, -1, -1], [2, 1, -1], [3, 3, 3]], np.int32)
WEIGHTS = np.array([1, 2, 3, 4, 5], np.float32)


def _tagged(weights):
    each = np.where(TAGS >= 0, np.asarray(weights)[np.maximum(TAGS, 0)], 0)
    return (_by_hand(OWN, TAUGHT) * each).sum(1)


def _spans(values):
    return {"start_logits": tf.constant(values[:, 0]), "end_logits": tf.constant(values[:, 1])}


LABELS = ["B-X", "B-Y", "I-X", "I-Y", "O"]
CASES = {
    "classification": (ClassificationTask(CONFIG, 5), ROW, ROW_TAUGHT, B, _by_hand(ROW, ROW_TAUGHT)),
    "classification with weights": (
        ClassificationTask(CONFIG, 5, class_weights=WEIGHTS),
        ROW, ROW_TAUGHT, B, _by_hand(ROW, ROW_TAUGHT) * [1, 5, 2, 2],
    ),
    "several labels": (
        ClassificationTask(CONFIG, 5, "multi_label"),
        ROW, ROW_TAUGHT, {"label_ids": np.zeros((4, 5), np.int32)},
        yes_no_divergence(ROW, ROW_TAUGHT, T).numpy().mean(-1),
    ),
    "regression": (
        ClassificationTask(CONFIG, 1, "regression"),
        ROW[:, :1], ROW_TAUGHT[:, :1], {"label_values": np.zeros(4, np.float32)},
        (ROW[:, 0] - ROW_TAUGHT[:, 0]) ** 2,
    ),
    "tagging": (TaggingTask(CONFIG, LABELS), OWN, TAUGHT, {"tag_ids": tf.constant(TAGS)}, _tagged(np.ones(5))),
    "tagging with weights": (
        TaggingTask(CONFIG, LABELS, class_weights=WEIGHTS),
        OWN, TAUGHT, {"tag_ids": tf.constant(TAGS)}, _tagged(WEIGHTS),
    ),
    "questions": (
        QuestionAnsweringTask(CONFIG),
        _spans(OWN), _spans(TAUGHT), {}, _by_hand(OWN, TAUGHT)[:, :2].mean(1),
    ),
    "multiple choice": (MultipleChoiceTask(CONFIG), ROW, ROW_TAUGHT, B, _by_hand(ROW, ROW_TAUGHT)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_task_has_its_own(name):
    task, own, taught, batch, expected = CASES[name]
    found = task.distillation_losses(own, taught, batch | {"is_real_example": np.ones(4, np.float32)}, T)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_what_a_temperature_softens():
    assert CASES["tagging"][0].has_temperature and CASES["several labels"][0].has_temperature
    assert not CASES["regression"][0].has_temperature
    assert EmbeddingTask.distillation_losses is TaggingTask.__mro__[1].distillation_losses  # it learns from no teacher
