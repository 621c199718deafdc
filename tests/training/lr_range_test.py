"""The range test of the learning rate: the rate that it finds, the run that follows, and the plot on its page."""

import dataclasses
import os

import keras
import numpy as np
import pytest

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training import fine_tuning, history, report_page
from bert_tf.training.fine_tuning import with_tested_rate
from bert_tf.training.history import History
from bert_tf.training.learning_rate_range import RangeTest
from bert_tf.training.run_config import RunConfig
from bert_tf.training.scoring import BatchSettings
from bert_tf.training.trainer import Trainer
from bert_tf.utils.html_report import Page
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
    monkeypatch.setattr(fine_tuning, "measure_lr_range", lambda task, run, batches: made.append(run) or TEST)
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
    monkeypatch.setattr(fine_tuning, "_steps", lambda *_: ([1e-6] * 4, [0.7] * 4))
    with pytest.raises(ValueError, match="the loss was NaN or infinite after 4 steps"):
        fine_tuning.measure_lr_range(TASK, _run(tmp_path), None)
    assert not os.listdir(tmp_path)


def test_a_test_ends_where_the_loss_is_lost():
    assert not fine_tuning._is_lost([0.7] * 4) and not fine_tuning._is_lost([0.7, 5.0, 0.7, 0.7, 0.7, 0.7])
    assert fine_tuning._is_lost([0.7] * 10 + [2.0] * 5)


@pytest.mark.parametrize(
    ("do_train", "unfreeze_epochs", "steps", "message"),
    [
        (False, 0.0, 0, "requires `do_train`"),
        (True, 0.5, 500, "cannot be combined with `unfreeze_epochs`"),
        (True, 0.0, 79, r"requires at least 80 steps.* this run has 79\. Pass a number"),
        (True, 0.0, 80, None),
    ],
)
def test_a_range_test_that_would_say_nothing_is_refused(do_train, unfreeze_epochs, steps, message):
    if message is None:
        fine_tuning._check_range_test(do_train, unfreeze_epochs, steps)
        return
    with pytest.raises(ValueError, match=f"`learning_rate=auto` {message}"):
        fine_tuning._check_range_test(do_train, unfreeze_epochs, steps)


RATES = np.geomspace(1e-6, 1e-1, 80)


def _curve(least_at, rises_at, start=0.7, least=0.5, noise=0.0):
    """Losses that fall to `least`, stay there, and rise fast beyond `rises_at`."""
    falling = start - (start - least) * np.clip(np.log(RATES / 1e-5) / np.log(least_at / 1e-5), 0, 1)
    rising = np.clip(np.log(RATES / rises_at), 0, None) ** 2
    return falling + rising + noise * np.random.default_rng(0).standard_normal(len(RATES))


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("rises_at", [1e-4, 1e-3, 1e-2])
def test_the_rate_is_a_twelfth_of_the_edge_wherever_the_least_loss_is(rises_at, noise):
    for least_at in (2e-5, rises_at):
        test = RangeTest(RATES.tolist(), _curve(least_at, rises_at, noise=noise).tolist())
        assert rises_at / 2 < test.edge < 2 * rises_at
        assert test.learning_rate == float(f"{test.edge / 12:.1e}")


def test_a_large_loss_at_the_start_does_not_matter():
    """A new head whose logits are large is put right within some steps; that says nothing about the run's rate."""
    plain, large = (RangeTest(RATES.tolist(), _curve(1e-4, 1e-3, start=start).tolist()) for start in (0.7, 4.0))
    assert plain.learning_rate == large.learning_rate


def test_a_loss_that_never_rises_is_good_up_to_the_highest_rate():
    test = RangeTest(RATES.tolist(), np.linspace(2.0, 1.0, 80).tolist())
    assert test.edge == RATES[-1] and test.learning_rate == 8.3e-3


def test_too_few_steps_say_nothing():
    with pytest.raises(ValueError, match=r"`learning_rate=auto` failed: the loss was .* after 3"):
        RangeTest([1e-6, 2e-6, 3e-6], [0.7, 0.7, 0.7])


def test_what_is_kept_makes_the_same_test_and_the_page_shows_it():
    test = RangeTest(RATES.tolist(), _curve(1e-4, 1e-3, noise=0.02).tolist())
    again = RangeTest(*(test.to_dict()[name] for name in ("rates", "losses")))
    assert again == test and test.to_dict()["learning_rate"] == test.learning_rate
    pages = [Page("Run"), Page("Run")]
    for page in pages:
        report_page.add_range_test(page, again)
    text = pages[0].html()
    assert text == pages[1].html()
    assert "Learning-rate range test" in text and f"chosen {test.learning_rate:.1e}" in text
