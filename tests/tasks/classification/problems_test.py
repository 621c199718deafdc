"""Losses of the problems: weights and smoothing, compared with torch."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny
from tests.tasks.classification.support import MULTI, TORCH, WEIGHTS


def _of_three(problem, **options):
    return ClassificationTask(tiny.config(), 1 if problem == "regression" else 3, problem, **options)


def _loss(task, logits, target):
    """What a batch with a padding row gives in training: as the loop has it, the loss over the denominators."""
    row = np.zeros_like(target[:1])
    batch = {
        task.problem.target: np.concatenate([target, row]),
        "is_real_example": np.array([1.0] * len(target) + [0.0], np.float32),
    }
    return task.loss(tf.constant(np.concatenate([logits, logits[:1] + 1])), batch, task.loss_normalizers(batch))


# torch 2.13 in float64: F.cross_entropy(z, y, weight=w, label_smoothing=s), and for several labels, with
# t = (1 - s) * y + s / 2, F.binary_cross_entropy_with_logits(z, t, weight=w, reduction="sum") / (3 * w.sum()).
GOLDENS = [
    (None, 0.0, 1.051283896623981, 0.3454480950540479),
    (None, 0.1, 1.1401727855128698, 0.42044809505404795),
    (None, 1.0, 1.9401727855128696, 1.095448095054048),
    (WEIGHTS, 0.0, 1.163835680617978, 0.3715686916679799),
    (WEIGHTS, 0.1, 1.2056108052488814, 0.44126566136494944),
    (WEIGHTS, 1.0, 1.5815869269270113, 1.068538388637677),
]


@pytest.mark.parametrize("weights, smoothing, one, several", GOLDENS)
def test_weights_and_smoothing_are_torch_s(weights, smoothing, one, several):
    options = {"class_weights": weights, "label_smoothing": smoothing}
    got = _loss(_of_three("single_label", **options), TORCH, np.array([2, 0, 1], np.int32))
    assert float(got) == pytest.approx(one, abs=1e-6)
    assert float(_loss(_of_three("multi_label", **options), TORCH, MULTI)) == pytest.approx(several, abs=1e-6)


@pytest.mark.parametrize("problem, target", [("single_label", np.array([2, 0, 1], np.int32)), ("multi_label", MULTI)])
def test_weights_add_up_over_the_parts_of_a_batch(problem, target):
    task = _of_three(problem, class_weights=WEIGHTS, label_smoothing=0.1)
    batch = {"label_ids": target, "is_real_example": np.ones(3, np.float32)}
    whole = task.loss_normalizers(batch)
    parts = [{name: value[part] for name, value in batch.items()} for part in (slice(0, 1), slice(1, 3))]
    summed = sum(task.loss_normalizers(part)["examples"] for part in parts)
    assert float(summed) == pytest.approx(float(whole["examples"]))
    losses = sum(task.loss(z, part, whole) for z, part in zip((TORCH[:1], TORCH[1:]), parts, strict=True))
    assert float(losses) == pytest.approx(float(task.loss(TORCH, batch, whole)), rel=1e-6)


@pytest.mark.parametrize("problem, target", [("single_label", np.array([2, 0, 1], np.int32)), ("multi_label", MULTI)])
def test_equal_weights_and_no_smoothing_change_nothing(problem, target):
    usual = float(_loss(_of_three(problem), TORCH, target))
    assert float(_loss(_of_three(problem, class_weights=(1, 1, 1)), TORCH, target)) == pytest.approx(usual, rel=1e-6)
    assert float(_loss(_of_three(problem, class_weights=(7, 7, 7)), TORCH, target)) == pytest.approx(usual, rel=1e-6)


@pytest.mark.parametrize(
    "problem, options, message",
    [
        ("regression", {"class_weights": (1.0,)}, "require labels, but the problem is regression"),
        ("regression", {"label_smoothing": 0.1}, "require labels"),
        ("regression", {"temperature": 2.0}, "require labels"),
        ("single_label", {"class_weights": (1.0, 2.0)}, r"must be 3 numbers above 0.*got \[1.0, 2.0\]"),
        ("multi_label", {"class_weights": (1.0, 0.0, 2.0)}, "must be 3 numbers above 0"),
        ("single_label", {"class_weights": (1.0, np.nan, 2.0)}, "must be 3 numbers above 0"),
        ("single_label", {"label_smoothing": 1.1}, "must be from 0 to 1; got 1.1"),
        ("single_label", {"temperature": 0.0}, "must be above 0; got 0.0"),
        ("single_label", {"temperature": np.nan}, "must be above 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(problem, options, message):
    with pytest.raises(ValueError, match=message):
        _of_three(problem, **options)


def test_what_is_said_of_each_example():
    probabilities = np.array([[0.6, 0.5, 0.9], [0.1, 0.2, 0.3]])
    assert PROBLEMS["single_label"].choose(probabilities, ["a", "b", "c"]) == ["c", "c"]
    assert PROBLEMS["multi_label"].choose(probabilities, ["a", "b", "c"]) == [("a", "c"), ()]
    assert PROBLEMS["regression"].choose(np.array([1.5, 2.0]), None) == [1.5, 2.0]
