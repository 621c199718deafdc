"""A job: train, keep the best, bring back, score, ask."""

import contextlib
import logging
import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.batching import BatchSettings
from bert_tf.training.callbacks import Events
from bert_tf.training.history import History, read_history
from bert_tf.training.interruption import Stopped
from bert_tf.training.run_config import RunConfig
from bert_tf.training.step import TrainStep
from bert_tf.training.trainer import Trainer
from bert_tf.utils.folder_lock import alone_in
from tests import tiny

TASK = tiny.shallow(ClassificationTask)(tiny.config(), 2)
EXAMPLES, BATCHING = tiny.tokenized(40), BatchSettings(16)
HELD_OUT = BATCHING.scoring(tiny.tokenized(30, seed=9), 8)


def _job(folder, **changes):
    keras.utils.set_random_seed(0)
    values = {"num_train_steps": 6, "learning_rate": 1e-3, "save_checkpoints_steps": 2, **changes}
    return Trainer(TASK, RunConfig(os.fspath(folder), 8, **values))


def _train(job, held_out=None, metric_for_best_model=None):
    """Trains on `EXAMPLES`."""
    job.fit(BATCHING.training(EXAMPLES, job.run), held_out=held_out, metric_for_best_model=metric_for_best_model)


@pytest.mark.slow
def test_what_was_trained_comes_back_with_the_same_outputs(tmp_path):
    trained = _job(tmp_path)
    _train(trained)
    again = _job(tmp_path)
    again.restore()
    assert again.global_step == trained.global_step == 6
    assert (again.outputs(HELD_OUT) == trained.outputs(HELD_OUT)).all()
    assert tf.train.latest_checkpoint(tmp_path).endswith("model.ckpt-6")


def test_outputs_do_not_depend_on_batches_but_for_rounding(tmp_path):
    job = _job(tmp_path)
    job.model = TASK.build_model()
    outputs = [job.outputs(BATCHING.scoring(HELD_OUT.rows, batch_size)) for batch_size in (1, 7, 30)]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=0, atol=1e-5)
    np.testing.assert_allclose(outputs[0], outputs[2], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_best_model_is_the_result(tmp_path, monkeypatch):
    values = iter((0.5, 0.75, 0.625))
    monkeypatch.setattr(TASK, "metrics", lambda outputs, rows: {"accuracy": next(values)})
    job = _job(tmp_path, keep_checkpoints=1)
    _train(job, HELD_OUT, "accuracy")
    assert job.global_step == 4 and CheckpointManager(tmp_path).steps() == [4, 6]
    saved = CheckpointManager(tmp_path).restore(f"{tmp_path}/model.ckpt-4")["output_weights"]
    (weights,) = [v.numpy() for v in job.model.variables if v.path == "classifier/output_weights"]
    assert (weights == saved).all()
    assert tf.train.latest_checkpoint(tmp_path).endswith("model.ckpt-4")  # what the directory stands for
    again = _job(tmp_path)
    again.restore()
    assert again.global_step == 4 and (again.outputs(HELD_OUT) == job.outputs(HELD_OUT)).all()


@pytest.mark.slow
@pytest.mark.parametrize("metric, steps", [("accuracy", 2), (None, 6)])
def test_a_checkpoint_that_was_not_scored_before_the_kill_is_scored_now(tmp_path, monkeypatch, metric, steps):
    def killed(outputs, rows):
        raise InterruptedError

    def job():
        made = _job(tmp_path)
        made.history = History(os.fspath(tmp_path), {})
        return made

    monkeypatch.setattr(TASK, "metrics", killed)
    with pytest.raises(InterruptedError):
        _train(job(), HELD_OUT, metric)
    values = iter((0.75, 0.5, 0.625))
    monkeypatch.setattr(TASK, "metrics", lambda outputs, rows: {"accuracy": next(values)})
    again = job()
    _train(again, HELD_OUT, metric)
    scores = [
        (line["step"], line["accuracy"]) for line in read_history(tmp_path / "history.jsonl") if line["kind"] == "eval"
    ]
    assert scores == [(2, 0.75), (4, 0.5), (6, 0.625)] and again.global_step == steps
    assert CheckpointManager(tmp_path).best() == ((2, "accuracy", 0.75) if metric else None)
    _train(job(), HELD_OUT, metric)  # the last one has its scores: nothing is left to score
    assert next(values, None) is None


@pytest.mark.parametrize("received, said", [("loss", "loss"), (None, "none")])
def test_a_best_checkpoint_is_not_compared_by_another_metric(tmp_path, received, said):
    store = CheckpointManager(tmp_path)
    store.save(2, {"weight": np.float32(1)})
    store.mark_best(2, "accuracy", 0.9)
    words = (
        r"by accuracy \(step 2: 0\.90000\), so `metric_for_best_model` must be accuracy; "
        rf"got {said}\. Pass it to resume"
    )
    with pytest.raises(ValueError, match=words):
        _train(_job(tmp_path), HELD_OUT, received)
    with pytest.raises(ValueError, match="contains no run settings"):  # the same metric comes as far as the state
        _train(_job(tmp_path), HELD_OUT, "eval_accuracy")


def test_an_unknown_metric_is_refused_before_anything_is_written(tmp_path):
    words = r"`metric_for_best_model` must be one of \['accuracy', .*'loss'.*\]; got 'bleu'"
    with pytest.raises(ValueError, match=words):
        _train(_job(tmp_path / "out"), HELD_OUT, "bleu")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_two_runs_in_one_directory_are_not_mixed(tmp_path):
    with alone_in(tmp_path), pytest.raises(ValueError, match=rf"already writing to {tmp_path} \(`output_dir`\)\. Wait"):
        _train(_job(tmp_path))
    assert not os.listdir(tmp_path)
    _train(_job(tmp_path))


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_another_run_wrote_after_the_state_was_read_is_not_trained_over(tmp_path, overwrite):
    job = _job(tmp_path, overwrite=overwrite)
    CheckpointManager(tmp_path).save(4, {"weight": np.float32(1)})
    with contextlib.ExitStack() as stack:
        job._begin(stack, lambda model: None, 4, None)
    with contextlib.ExitStack() as stack, contextlib.nullcontext() if overwrite else pytest.raises(
        ValueError, match=r"Another run .*: the newest checkpoint was step 2 and is now step 4\. Run the same"
    ):
        job._begin(stack, lambda model: None, 2, None)


def test_without_a_trained_model_there_is_an_error_and_no_directory(tmp_path):
    with pytest.raises(ValueError, match=r"No trained model found: .*/out contains no checkpoint, "
                       r"and `init_checkpoint` is not set\. Train one with `do_train`\."):  # fmt: skip
        _job(tmp_path / "out").restore()
    assert not (tmp_path / "out").exists()


def test_an_initial_checkpoint_without_the_head_is_no_trained_model(tmp_path):
    init = tiny.checkpoint(tmp_path / "init")
    words = r"out contains no checkpoint, and .*init/bert_model\.ckpt has no head for this task\. Train one with"
    with pytest.raises(ValueError, match=words):
        whole = ClassificationTask(tiny.config(), 2)
        Trainer(whole, RunConfig(os.fspath(tmp_path / "out"), 8, 6, init_checkpoint=os.fspath(init))).restore()


def test_random_weights_are_announced(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        _train(_job(tmp_path, num_train_steps=1))
    assert "No `init_checkpoint`: training starts from random weights." in caplog.messages


def test_a_disk_that_is_full_after_the_last_step_does_not_end_a_run_in_an_error(tmp_path, monkeypatch, caplog):
    def full(step, is_needed, more):
        raise ValueError(f"The checkpoint {step} could not be written: no space.")

    job = _job(tmp_path)
    job.global_step = 4
    monkeypatch.setattr(job.checkpoints, "shrink", full)
    with caplog.at_level(logging.WARNING):
        job._drop_optimizer(6)
    assert sorted(caplog.messages) == [
        f"The checkpoint {step} could not be written: no space. The checkpoint keeps the optimizer state."
        for step in (4, 6)
    ]


class Killed(BaseException):
    """Stands for SIGKILL: whatever was in memory is gone."""


def _lines(folder):
    """Returns what must be the same of all lines but those of starts."""
    unlike = {"time", "examples_per_second", "tokens_per_second"}
    lines = [line for line in read_history(folder / "history.jsonl") if line["kind"] != "start"]
    return [{name: value for name, value in line.items() if name not in unlike} for line in lines]


def _run_to_the_end(folder, monkeypatch, moment=None, at=0, interrupt=None):
    """Trains ten steps with a line each three and a checkpoint each four, then scores; killed at a moment of these."""
    seen = []

    def killing(own, name, after):
        def call(*args):
            if not after and moment == name and seen.append(name) is None and len(seen) == at:
                raise Killed
            given = own(*args)
            if after and moment == name and seen.append(name) is None and len(seen) == at:
                interrupt()
            return given

        return call

    def kill():
        raise Killed

    interrupt = interrupt or kill
    with monkeypatch.context() as patch:
        patch.setattr(RunConfig, "report_steps", 3)
        patch.setattr(CheckpointManager, "save", killing(CheckpointManager.save, "saved", True))
        patch.setattr(TrainStep, "__call__", killing(TrainStep.__call__, "step", True))
        for name in ("trained", "evaluated"):
            patch.setattr(History, name, killing(getattr(History, name), name, False))
        patch.setattr(History, "concluded", killing(History.concluded, "concluded", True))
        job = _job(folder, num_train_steps=10, save_checkpoints_steps=4)
        job.history = History(os.fspath(folder), {})
        _train(job, HELD_OUT)
        job.history.concluded(job.global_step, job.scores(HELD_OUT))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The lines of a run that was left alone."""
    folder = tmp_path_factory.mktemp("unbroken")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _run_to_the_end(folder, monkeypatch)
    return _lines(folder)


def test_a_run_has_one_line_a_step(unbroken):
    kinds = [(line["kind"], line["step"]) for line in unbroken]
    trained = [("train", 3), ("eval", 4), ("train", 6), ("eval", 8), ("train", 9), ("train", 10), ("eval", 10)]
    assert kinds == trained


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment, at",
    [
        pytest.param("saved", 1, marks=pytest.mark.slow),  # step 4, in the midst of the steps of a line
        pytest.param("trained", 2, marks=pytest.mark.slow),
        pytest.param("trained", 3, marks=pytest.mark.slow),  # step 9, just after the checkpoint of step 8
        pytest.param("evaluated", 2, marks=pytest.mark.slow),
        ("saved", 3),  # step 10, whose line is still to be written
        pytest.param("evaluated", 3, marks=pytest.mark.slow),
        pytest.param("concluded", 1, marks=pytest.mark.slow),
    ],
)
def test_killed_anywhere_it_comes_to_the_same_lines(tmp_path, monkeypatch, unbroken, moment, at):
    with pytest.raises(Killed):
        _run_to_the_end(tmp_path, monkeypatch, moment, at)
    _run_to_the_end(tmp_path, monkeypatch)
    assert _lines(tmp_path) == unbroken


@pytest.mark.slow
def test_told_to_stop_at_the_step_of_a_line_it_comes_to_the_same_lines(tmp_path, monkeypatch, unbroken):
    with pytest.raises(Stopped):
        _run_to_the_end(tmp_path, monkeypatch, "step", 6, lambda: signal.raise_signal(signal.SIGTERM))
    assert _lines(tmp_path) == unbroken[:2] and CheckpointManager(tmp_path).steps() == [4, 6]
    _run_to_the_end(tmp_path, monkeypatch)
    assert _lines(tmp_path) == unbroken


@pytest.mark.slow
def test_told_to_stop_between_the_log_and_the_history_it_comes_to_the_same_lines(tmp_path, monkeypatch, unbroken):
    write = Events.write

    def interrupted(self, step, values):
        if step == 6 and self.directory.endswith("train"):
            signal.raise_signal(signal.SIGTERM)
        write(self, step, values)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Events, "write", interrupted)
        _run_to_the_end(tmp_path, patch)
    assert CheckpointManager(tmp_path).latest()[0] == 6
    _run_to_the_end(tmp_path, monkeypatch)
    assert _lines(tmp_path) == unbroken
