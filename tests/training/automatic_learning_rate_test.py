"""`learning_rate=auto`: the range test, the run that follows, and the runs for which there is none."""

import dataclasses
import os

import keras
import numpy as np
import pytest

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training import automatic_learning_rate, history
from bert_tf.training.automatic_learning_rate import check_range_test, with_tested_rate
from bert_tf.training.batching import BatchSettings
from bert_tf.training.history import History
from bert_tf.training.learning_rate_range import RangeTest
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from tests import tiny

TASK = tiny.shallow(ClassificationTask)(tiny.config(dropout=0.1), 2)
EXAMPLES, BATCHING = tiny.tokenized(40), BatchSettings(16)
TEST = RangeTest(np.geomspace(1e-6, 1e-1, 20).tolist(), [0.7] * 20)


def _run(folder, rate=None, **changes):
    values = {"num_train_steps": 4, "num_warmup_steps": 1, "learning_rate": rate, "save_checkpoints_steps": 2}
    return RunConfig(os.fspath(folder), 8, **values | changes)


def _batches(run):
    return BATCHING.training(EXAMPLES, dataclasses.replace(run, num_train_steps=max(80, run.num_train_steps)))


def _train(run, kept=None):
    os.makedirs(run.output_dir, exist_ok=True)
    Trainer(TASK, run, History(run.output_dir, {}, range_test=kept)).fit(_batches(run))


def _tensors(folder, step):
    tensors = CheckpointManager(folder).restore(f"{folder}/model.ckpt-{step}")
    return {name: np.asarray(value).tobytes() for name, value in tensors.items()}


@pytest.mark.slow
def test_the_run_is_to_the_bit_the_one_with_the_rate_given(tmp_path):
    """Weights that begin at random, the optimizer, dropout and the order of the data."""
    keras.utils.set_random_seed(0)
    tested, kept = with_tested_rate(TASK, _run(tmp_path / "tested"), _batches(_run(tmp_path)))
    _train(tested, kept)
    assert 8e-8 < tested.learning_rate < 9e-3 and kept["learning_rate"] == tested.learning_rate
    keras.utils.set_random_seed(0)
    _train(_run(tmp_path / "given", tested.learning_rate))
    for step in (2, 4):
        assert _tensors(tmp_path / "tested", step) == _tensors(tmp_path / "given", step)
    (line,) = history.read_history(tmp_path / "tested" / "history.jsonl")[:1]
    assert line["range_test"] == kept and "range test" in (tmp_path / "tested" / "report.html").read_text()


@pytest.fixture
def measured(monkeypatch):
    """Counts the tests that are made, none of them really."""
    made = []
    monkeypatch.setattr(
        automatic_learning_rate, "measure_lr_range", lambda task, run, batches: made.append(run) or TEST
    )
    return made


def _begin(run, kept):
    os.makedirs(run.output_dir, exist_ok=True)
    begun = History(run.output_dir, {}, range_test=kept)
    begun.start(0, None)


def test_a_run_that_goes_on_has_the_rate_that_it_began_with(tmp_path, measured):
    run = _run(tmp_path)
    with_rate, kept = with_tested_rate(TASK, run, None)
    assert with_rate.learning_rate == TEST.learning_rate and len(measured) == 1
    _begin(with_rate, kept)
    assert with_tested_rate(TASK, run, None) == (with_rate, kept) and len(measured) == 1
    CheckpointManager(tmp_path).save(2, {"global_step": np.int64(2)})
    assert with_tested_rate(TASK, run, None) == (with_rate, kept) and len(measured) == 1
    with_tested_rate(TASK, dataclasses.replace(run, overwrite=True), None)
    assert len(measured) == 2


def test_what_another_run_left_is_not_taken(tmp_path, measured):
    """It was stopped before its first checkpoint, and the command is another now."""
    run = _run(tmp_path)
    _begin(*with_tested_rate(TASK, run, None))
    with_tested_rate(TASK, dataclasses.replace(run, num_warmup_steps=2), None)
    assert len(measured) == 2


def test_a_run_that_began_with_a_given_rate_is_not_continued(tmp_path, measured):
    CheckpointManager(tmp_path).save(2, {"global_step": np.int64(2)})
    with pytest.raises(ValueError, match="`learning_rate=auto` was given, but the run in .* started with a number"):
        with_tested_rate(TASK, _run(tmp_path), None)
    assert not measured


def test_a_loss_that_is_no_number_ends_the_test(tmp_path, monkeypatch):
    monkeypatch.setattr(automatic_learning_rate, "_steps", lambda *_: ([1e-6] * 4, [0.7] * 4))
    with pytest.raises(ValueError, match="the loss was NaN or infinite after 4 steps"):
        automatic_learning_rate.measure_lr_range(TASK, _run(tmp_path), None)
    assert not os.listdir(tmp_path)


def test_a_test_ends_where_the_loss_is_lost():
    is_lost = automatic_learning_rate._is_lost
    assert not is_lost([0.7] * 4) and not is_lost([0.7, 5.0, 0.7, 0.7, 0.7, 0.7])
    assert is_lost([0.7] * 10 + [2.0] * 5)


@pytest.mark.parametrize(
    ("do_train", "steps", "message"),
    [
        (False, 0, "requires `do_train`"),
        (True, 79, r"requires at least 80 steps.* this run has 79\. Pass a number"),
        (True, 80, None),
    ],
)
def test_a_range_test_that_would_say_nothing_is_refused(do_train, steps, message):
    if message is None:
        check_range_test(do_train, steps)
        return
    with pytest.raises(ValueError, match=f"`learning_rate=auto` {message}"):
        check_range_test(do_train, steps)
