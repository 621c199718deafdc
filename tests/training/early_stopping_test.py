"""Early stopping: the run ends where the scores no longer rise, and has ended for good."""

import json
import os
import shutil

import keras
import pytest

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.batching import BatchSettings
from bert_tf.training.history import History
from bert_tf.training.run_config import RunConfig
from bert_tf.training.scoring import Evaluator
from bert_tf.training.step import TrainStep
from bert_tf.training.trainer import Trainer
from tests import tiny

TASK = tiny.shallow(ClassificationTask)(tiny.config(), 2)
EXAMPLES, BATCHING = tiny.tokenized(40), BatchSettings(16)
HELD_OUT = BATCHING.scoring(tiny.tokenized(30, seed=9), 8)
SCORES = (0.5, 0.75, 0.7, 0.75, 0.9)  # of steps 2, 4, 6, 8, 10: 0.75 again is no better


class Killed(Exception):
    """Stands for SIGKILL."""


def _train(monkeypatch, folder, scores, patience=2, metric="accuracy", steps=10, fail_at=None):
    """Returns (job, the scores that were not asked for); `fail_at`: which of the scores kills the process."""
    keras.utils.set_random_seed(0)
    left = list(scores)

    def metrics(outputs, rows):
        if fail_at is not None and len(scores) - len(left) == fail_at:
            raise Killed
        return {"accuracy": left.pop(0)}

    monkeypatch.setattr(TASK, "metrics", metrics)
    run = RunConfig(os.fspath(folder), 8, steps, learning_rate=1e-3, save_checkpoints_steps=2)
    job = Trainer(TASK, run, History(os.fspath(folder), {}))
    batches = BATCHING.training(EXAMPLES, run)
    try:
        scoring = {"held_out": HELD_OUT, "metric_for_best_model": metric, "early_stopping": patience}
        job.fit(batches, lambda model: os.makedirs(folder, exist_ok=True), **scoring)
    except Killed:
        assert fail_at is not None
    return job, left


def _history(folder):
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [(line["kind"], line["step"]) for line in lines]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that has stopped early: (folder, job, the scores that were not asked for)."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as monkeypatch:
        return folder, *_train(monkeypatch, folder, SCORES)


def test_it_stops_at_the_right_step_and_the_best_is_the_result(stopped):
    folder, job, left = stopped
    assert left == [0.9] and CheckpointManager(folder).steps() == [2, 4, 6, 8]
    assert job.global_step == 4 and CheckpointManager(folder).best() == (4, "accuracy", 0.75)
    (weights,) = [v.numpy() for v in job.model.variables if v.path == "classifier/output_weights"]
    assert (weights == CheckpointManager(folder).restore(f"{folder}/model.ckpt-4")["output_weights"]).all()
    lines = _history(folder)
    assert max(step for _, step in lines) == 8 and [s for kind, s in lines if kind == "eval"] == [2, 4, 6, 8]
    assert "accuracy" in (folder / "report.html").read_text()
    size = {step: sum(p.stat().st_size for p in folder.glob(f"model.ckpt-{step}.data-*")) for step in (2, 4, 6, 8)}
    assert size[4] < size[2] / 2 and size[8] < size[6] / 2  # the best and the last are results
    assert abs(size[2] - size[6]) < 200  # but for the numbers of the steps that no line told of yet, as text


def test_started_again_it_makes_no_step(stopped, tmp_path, monkeypatch):
    shutil.copytree(stopped[0], tmp_path, dirs_exist_ok=True)
    before = {p.name: p.read_bytes() for p in tmp_path.glob("model.ckpt-*")}
    monkeypatch.setattr(TrainStep, "__call__", None)  # to make one would be an error
    job, _ = _train(monkeypatch, tmp_path, [0.75])
    assert job.global_step == 4 and job.model is not None
    assert {p.name: p.read_bytes() for p in tmp_path.glob("model.ckpt-*")} == before
    assert [line for line in _history(tmp_path) if line[0] == "start"] == [("start", 0), ("start", 8)]


@pytest.mark.slow
def test_killed_before_the_deciding_score_it_ends_when_started_again(tmp_path, monkeypatch):
    _train(monkeypatch, tmp_path, SCORES, fail_at=3)
    assert CheckpointManager(tmp_path).steps() == [2, 4, 6, 8]
    monkeypatch.setattr(TrainStep, "__call__", None)
    job, left = _train(monkeypatch, tmp_path, SCORES[3:])
    assert job.global_step == 4 and left == [0.9]


@pytest.mark.slow
def test_killed_on_the_way_it_ends_where_it_would_have(tmp_path, monkeypatch):
    _train(monkeypatch, tmp_path, SCORES, fail_at=2)
    job, left = _train(monkeypatch, tmp_path, SCORES[2:])
    assert job.global_step == 4 and left == [0.9] and CheckpointManager(tmp_path).steps() == [2, 4, 6, 8]


@pytest.mark.slow
def test_with_more_patience_it_goes_on(tmp_path, monkeypatch):
    job, left = _train(monkeypatch, tmp_path, SCORES, 3)
    assert not left and job.global_step == 10


@pytest.mark.slow
def test_of_a_loss_less_is_better(tmp_path, monkeypatch):
    losses = iter((0.5, 0.25, 0.3, 0.25, 0.1))
    monkeypatch.setattr(Evaluator, "scores", lambda *args, **kwargs: {"loss": next(losses)})
    job, _ = _train(monkeypatch, tmp_path, (), metric="eval_loss")
    assert job.global_step == 4 and next(losses) == 0.1


@pytest.mark.slow
def test_scores_that_are_no_numbers_are_never_better(tmp_path, monkeypatch):
    nan = float("nan")
    job, left = _train(monkeypatch, tmp_path, (float("inf"), 0.5, nan, nan, 0.6))
    assert job.global_step == 4 and left == [0.6]


@pytest.mark.slow
def test_without_one_score_that_is_a_number_nothing_is_best(tmp_path, monkeypatch):
    job, _ = _train(monkeypatch, tmp_path, (float("nan"),) * 5)
    assert job.global_step == 4 and CheckpointManager(tmp_path).best() is None


def test_it_goes_on_with_the_same_patience_only(stopped, monkeypatch):
    with pytest.raises(ValueError, match=r"Changed: early_stopping: 2 before, 3 now\."):
        _train(monkeypatch, stopped[0], SCORES, 3)
    words = r"Changed: early_stopping: 2 before, None now; metric_for_best_model: 'accuracy' b"
    with pytest.raises(ValueError, match=words):
        _train(monkeypatch, stopped[0], SCORES, 0)
