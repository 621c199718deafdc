"""The classification task: losses, metrics and answers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.evaluation import metrics
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.training.batching import BatchSettings
from bert_tf.training.callbacks import KeepBest
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from tests import tiny
from tests.fake_batches import fake_batch
from tests.tasks.classification.support import MULTI, TORCH, WEIGHTS

CONFIG = tiny.config()
LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0], [-30.0, 40.0, 3.0]], np.float32)


def _by_hand(problem):
    """Returns (logits, target, loss of each example) from the formulas."""
    logits = LOGITS.astype(np.float64)
    if problem == "single_label":
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        return LOGITS, np.array([2, 0, 1], np.int32), -np.log(chances[[0, 1, 2], [2, 0, 1]])
    if problem == "multi_label":
        chances = 1 / (1 + np.exp(-logits))
        each = -(MULTI * np.log(chances) + (1 - MULTI) * np.log1p(-np.minimum(chances, 1 - 1e-16)))
        return LOGITS, MULTI, each.mean(1)
    target = np.array([1.5, 0.0, -2.0], np.float32)
    return LOGITS[:, :1], target, (logits[:, 0] - target) ** 2


def _task(problem, num_labels=None, **options):
    return ClassificationTask(CONFIG, num_labels or (1 if problem == "regression" else 3), problem, **options)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_loss_is_the_formula_s(problem):
    logits, target, expected = _by_hand(problem)
    task = _task(problem)
    batch = {task.problem.target: target, "is_real_example": np.array([1, 0, 1], np.float32)}
    losses, weights = task.example_losses(tf.constant(logits), batch)
    assert losses.dtype == weights.dtype == tf.float32 and losses.shape == (3,)
    assert weights.numpy().tolist() == [1, 1, 1]
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-7)
    denominators = task.loss_normalizers(batch)
    assert float(denominators["examples"]) == 2
    assert float(task.loss(tf.constant(logits), batch, denominators)) == pytest.approx(
        (expected[0] + expected[2]) / 2, rel=1e-5)  # fmt: skip


@pytest.mark.slow  # tests/integration/end_to_end_test.py trains one too
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_tiny_model_learns(problem, tmp_path):
    examples = tiny.tokenized(64)
    labels = examples.targets["label_ids"]
    targets = {
        "single_label": {"label_ids": labels},
        "multi_label": {"label_ids": np.stack([labels, 1 - labels], 1)},
        "regression": {"label_values": labels.astype(np.float32) * 2 - 1},
    }
    examples.targets = targets[problem]
    task = _task(problem, 1 if problem == "regression" else 2)
    job, batching = Trainer(task, RunConfig(str(tmp_path), 16, 60, 6, 2e-3)), BatchSettings(16, by_length=False)
    scoring = batching.scoring(examples, 16)
    keras.utils.set_random_seed(0)
    job.model = task.build_model()
    before = job.scores(scoring)
    job.fit(batching.training(examples, job.run))
    after = job.scores(scoring)
    assert after["loss"] < 0.5 * before["loss"]
    assert set(after) == {*task.metric_names, "loss"}
    assert min(after[name] for name in task.metric_names if metrics.higher_is_better(name)) > 0.8
    assert after.get("ece", 0) < 0.2
    logits = job.outputs(scoring)
    assert logits.shape == (64, task.num_labels)
    expected = task.example_losses(tf.constant(logits), examples.targets)[0].numpy().mean()
    assert after["loss"] == pytest.approx(expected, rel=1e-4)


def test_answers_are_a_softmax_a_sigmoid_each_or_the_number():
    logits = LOGITS.astype(float)
    softmax = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(_task("single_label").answers(LOGITS), softmax, rtol=1e-6)
    assert np.isfinite(_task("single_label").answers(LOGITS * 1000)).all()
    np.testing.assert_allclose(_task("multi_label").answers(LOGITS), 1 / (1 + np.exp(-logits)))
    assert _task("regression").answers(LOGITS[:, :1]).tolist() == [2.0, 0.0, -30.0]


def test_metrics_of_one_label():
    task = _task("single_label", metric_names=("accuracy", "f1"))
    scores = task.metrics(np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], tiny.rows(label_ids=np.array([0, 1, 2, 2])))
    sure = np.e / (np.e + 2)
    assert scores == {"accuracy": 0.75, "f1": pytest.approx((2 / 3 + 1 + 2 / 3) / 3), "ece": pytest.approx(0.75 - sure)}
    assert task.metric_names == ("accuracy", "f1", "ece")
    assert _task("single_label").metric_names == (*PROBLEMS["single_label"].default_metrics, "ece")
    assert _task("single_label", metric_names=("ece", "accuracy")).metric_names == ("ece", "accuracy")


def test_two_labels_have_a_precision_at_a_recall():
    task = _task("single_label", 2)
    assert task.metric_names == (*PROBLEMS["single_label"].default_metrics, "precision_at_recall_90", "ece")
    logits = np.array([[0, 3], [0, 2], [0, 1], [0, -1]], np.float32)
    scores = task.metrics(logits, tiny.rows(label_ids=np.array([1, 0, 1, 0])))
    assert scores["precision_at_recall_90"] == pytest.approx(2 / 3) and set(scores) == set(task.metric_names)


def test_metrics_of_several_labels_count_every_label():
    scores = _task("multi_label").metrics(np.where(MULTI == 1, 3.0, -3.0) * [1, 1, -1], tiny.rows(label_ids=MULTI))
    # 2 found, 1 wrong, 2 missed; all nine are as sure.
    expected = {
        "accuracy": 6 / 9,
        "f1": 4 / 7,
        "weighted_f1": (1 * 1 + 1 * 1 + 2 * 0) / 4,
        "precision": 2 / 3,
        "recall": 2 / 4,
        "ece": 1 / (1 + np.exp(-3)) - 6 / 9,
    }
    assert scores == pytest.approx(expected)


def test_metrics_of_regression():
    rows = tiny.rows(label_values=np.array([0.0, 1.0, 3.0]))
    scores = _task("regression").metrics(np.array([[1.0], [2.0], [4.0]]), rows)
    assert scores == pytest.approx({"pearson": 1, "spearman": 1, "mae": 1, "rmse": 1})


def test_an_unknown_problem_is_refused():
    with pytest.raises(ValueError, match=r"problem must be one of \['multi_label', .*\]; got 'ranking'\."):
        _task("ranking")


def test_the_options_of_training_and_the_temperature_leave_the_scored_loss_alone():
    batch = {"label_ids": np.array([2, 0, 1], np.int32), "is_real_example": np.ones(3, np.float32)}
    task = _task("single_label", class_weights=WEIGHTS, label_smoothing=0.1, temperature=2.0)
    plain = _task("single_label")
    scored, expected = (np.stack(each.example_losses(TORCH, batch)).tolist() for each in (task, plain))
    assert scored == expected
    without = _task("single_label", class_weights=WEIGHTS, label_smoothing=0.1)
    whole = task.loss_normalizers(batch)
    assert float(task.loss(TORCH, batch, whole)) == float(without.loss(TORCH, batch, whole))


@pytest.mark.parametrize("problem", ["single_label", "multi_label"])
def test_a_temperature_divides_the_logits_in_every_answer(problem):
    task, plain = _task(problem, temperature=2.5), _task(problem)
    np.testing.assert_allclose(task.answers(TORCH), plain.answers(TORCH / 2.5))
    served, expected = task.postprocess(tf.constant(TORCH)), plain.postprocess(tf.constant(TORCH / 2.5))
    assert {name: value.numpy().tolist() for name, value in served.items()} == {
        name: value.numpy().tolist() for name, value in expected.items()
    }
    np.testing.assert_allclose(served["probabilities"], task.answers(TORCH), rtol=1e-6)
    assert served["label"].numpy().tolist() == plain.postprocess(tf.constant(TORCH))["label"].numpy().tolist()
    scores = task.example_answer(tf.constant(TORCH))["scores"]
    np.testing.assert_array_equal(scores, served["probabilities"])


def test_a_temperature_changes_ece_and_no_other_score():
    rows = tiny.rows(label_ids=np.array([2, 0, 1], np.int32))
    scores, plain = (_task("single_label", temperature=each).metrics(TORCH, rows) for each in (3.0, 1.0))
    assert scores.pop("ece") != pytest.approx(plain.pop("ece"), abs=1e-3)
    assert scores == plain


def test_the_best_checkpoint_can_be_that_of_the_least_ece(tmp_path):
    names, run = (*_task("single_label").metric_names, "loss"), RunConfig(str(tmp_path), 16, 60, 6, 2e-3)
    assert not KeepBest(None, run, None, None, "ece", names).higher
    with pytest.raises(ValueError, match="`metric_for_best_model` must be one of"):
        KeepBest(None, run, None, None, "ece", _task("regression").metric_names)


def test_a_fitted_temperature_is_the_task_s():
    task, rng = _task("single_label"), np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3))
    targets = {"label_ids": (logits + rng.gumbel(size=logits.shape)).argmax(-1)}
    logits = (logits * 4).astype(np.float32)
    before = task.metrics(logits, tiny.rows(**targets))["ece"]
    assert task.fit_temperature(logits, targets) == task.temperature == pytest.approx(4, rel=0.1)
    assert task.metrics(logits, tiny.rows(**targets))["ece"] < 0.2 * before


def test_task_json_has_options_that_are_not_the_default_s_only(tmp_path):
    save_task(str(tmp_path), TrainedTask(_task("single_label"), ("text",), 16))
    old = json.loads((tmp_path / "task.json").read_text())
    assert set(old) == {"task", "num_labels", "problem", "labels", "text_inputs", "max_seq_length"}
    assert read_task(str(tmp_path), CONFIG).task.temperature == 1
    (tmp_path / "task.json").write_text(json.dumps(old | {"temperature": 0}))
    with pytest.raises(ValueError, match="task.json must describe a task.*temperature must be above 0"):
        read_task(str(tmp_path), CONFIG)


@pytest.mark.slow
def test_rematerialization_changes_no_gradient():
    batch = fake_batch(("input_ids", "input_mask", "segment_ids"), vocab_size=CONFIG.vocab_size)
    gradients = []
    for gradient_checkpointing in (False, True):
        keras.utils.set_random_seed(0)
        model = _task("single_label", gradient_checkpointing=gradient_checkpointing).build_model()
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(batch, training=True) ** 2)
        found = tape.gradient(loss, [v.value for v in model.trainable_variables])
        gradients.append([tf.convert_to_tensor(g).numpy() for g in found])
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)
