"""The losses of the problems: weights and smoothing against torch, and what the flags make of them."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.flags import _old_fine_tuning as fine_tuning
from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny

TORCH = np.array([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0], [-3.0, 4.0, 3.0]], np.float32)
WEIGHTS = (0.5, 2.0, 3.0)
MULTI = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], np.int32)


def _task(problem, **options):
    return ClassificationTask(tiny.config(), 1 if problem == "regression" else 3, problem, **options)


def _loss(task, logits, target):
    """What a batch with a padding row gives in training: as the loop has it, the loss over the denominators."""
    row = np.zeros_like(target[:1])
    batch = {
        task.problem.target: np.concatenate([target, row]),
        "is_real_example": np.array([1.0] * len(target) + [0.0], np.float32),
    }
    return task.loss(tf.constant(np.concatenate([logits, logits[:1] + 1])), batch, task.denominators(batch))


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
    got = _loss(_task("single_label", **options), TORCH, np.array([2, 0, 1], np.int32))
    assert float(got) == pytest.approx(one, abs=1e-6)
    assert float(_loss(_task("multi_label", **options), TORCH, MULTI)) == pytest.approx(several, abs=1e-6)


@pytest.mark.parametrize("problem, target", [("single_label", np.array([2, 0, 1], np.int32)), ("multi_label", MULTI)])
def test_weights_add_up_over_the_parts_of_a_batch(problem, target):
    task = _task(problem, class_weights=WEIGHTS, label_smoothing=0.1)
    batch = {"label_ids": target, "is_real_example": np.ones(3, np.float32)}
    whole = task.denominators(batch)
    parts = [{name: value[part] for name, value in batch.items()} for part in (slice(0, 1), slice(1, 3))]
    summed = sum(task.denominators(part)["examples"] for part in parts)
    assert float(summed) == pytest.approx(float(whole["examples"]))
    losses = sum(task.loss(z, part, whole) for z, part in zip((TORCH[:1], TORCH[1:]), parts, strict=True))
    assert float(losses) == pytest.approx(float(task.loss(TORCH, batch, whole)), rel=1e-6)


@pytest.mark.parametrize("problem, target", [("single_label", np.array([2, 0, 1], np.int32)), ("multi_label", MULTI)])
def test_equal_weights_and_no_smoothing_change_nothing(problem, target):
    usual = float(_loss(_task(problem), TORCH, target))
    assert float(_loss(_task(problem, class_weights=(1, 1, 1)), TORCH, target)) == pytest.approx(usual, rel=1e-6)
    assert float(_loss(_task(problem, class_weights=(7, 7, 7)), TORCH, target)) == pytest.approx(usual, rel=1e-6)


@pytest.mark.parametrize(
    "problem, options, message",
    [
        ("regression", {"class_weights": (1.0,)}, "must come with labels. Received them for regression"),
        ("regression", {"label_smoothing": 0.1}, "must come with labels"),
        ("regression", {"temperature": 2.0}, "must come with labels"),
        ("single_label", {"class_weights": (1.0, 2.0)}, r"must be 3 numbers over 0.*Received \[1.0, 2.0\]"),
        ("multi_label", {"class_weights": (1.0, 0.0, 2.0)}, "must be 3 numbers over 0"),
        ("single_label", {"class_weights": (1.0, np.nan, 2.0)}, "must be 3 numbers over 0"),
        ("single_label", {"label_smoothing": 1.1}, "must be from 0 to 1. Received 1.1"),
        ("single_label", {"temperature": 0.0}, "must be over 0. Received 0.0"),
        ("single_label", {"temperature": np.nan}, "must be over 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(problem, options, message):
    with pytest.raises(ValueError, match=message):
        _task(problem, **options)


def _flags(monkeypatch, **values):
    usual = {"class_weights": None, "label_smoothing": 0.0, "fit_temperature": False, "do_eval": False}
    flags = types.SimpleNamespace(**{**usual, "early_stopping": 0, "keep_best": None, **values})
    monkeypatch.setattr(fine_tuning, "FLAGS", flags)


def test_balanced_weights_are_scikit_learn_s(monkeypatch):
    from sklearn.utils.class_weight import compute_class_weight

    target = np.array([0, 1, 1, 2, 1, 0, 1], np.int32)
    _flags(monkeypatch, class_weights=["balanced"])
    weights = fine_tuning.class_weights(["a", "b", "c"], target)
    assert weights == pytest.approx(compute_class_weight("balanced", classes=np.arange(3), y=target))
    # All labels weigh the same together.
    assert np.bincount(target) * weights == pytest.approx([7 / 3] * 3)
    assert fine_tuning.class_weights(["a", "b", "c"], MULTI) == pytest.approx((3 / 3, 3 / 3, 3 / 6))
    assert fine_tuning.class_weights(["a", "b", "c"], None) is None


def test_named_weights(monkeypatch):
    _flags(monkeypatch, class_weights=["no:2.5", "x:y:3"])
    assert fine_tuning.class_weights(["no", "x:y", "yes"], np.array([0])) == (2.5, 3.0, 1.0)
    _flags(monkeypatch)
    assert fine_tuning.class_weights(["no", "x:y", "yes"], np.array([0])) is None


@pytest.mark.parametrize(
    "given",
    [["no"], ["balanced", "no:2"], ["maybe:2"], ["no:0"], ["no:-1"], ["no:inf"], ["no:nan"], ["no:two"], ["no:1"] * 2],
)
def test_weights_that_are_none_are_refused(monkeypatch, given):
    _flags(monkeypatch, class_weights=given)
    with pytest.raises(ValueError, match="label:weight pairs .* the labels are no, yes"):
        fine_tuning.class_weights(["no", "yes"], np.array([0, 1]))


def test_a_label_without_examples_cannot_be_balanced(monkeypatch):
    _flags(monkeypatch, class_weights=["balanced"])
    with pytest.raises(ValueError, match=r"every label. Received none of \['yes'\]"):
        fine_tuning.class_weights(["no", "yes"], np.array([0, 0]))


@pytest.mark.parametrize(
    "has_labels, values, message",
    [
        (False, {"class_weights": ["balanced"]}, "must be labels for --class_weights. Received numbers"),
        (False, {"label_smoothing": 0.1}, "must be labels for --label_smoothing"),
        (False, {"fit_temperature": True, "do_eval": True}, "must be labels for --fit_temperature"),
        (True, {"fit_temperature": True}, "--fit_temperature must come with --do_eval"),
        (True, {"early_stopping": 2}, "must come with --keep_best. Received --early_stopping=2 alone"),
    ],
)
def test_flags_that_do_not_fit_are_refused(monkeypatch, has_labels, values, message):
    _flags(monkeypatch, **values)
    with pytest.raises(ValueError, match=message):
        fine_tuning.check_loss(has_labels)


def test_flags_that_fit_are_taken(monkeypatch):
    _flags(monkeypatch)
    fine_tuning.check_loss(False)
    _flags(monkeypatch, label_smoothing=0.1, fit_temperature=True, do_eval=True, early_stopping=1, keep_best="ece")
    fine_tuning.check_loss(True)
