"""What happens beside the steps: progress, the best checkpoint."""

import glob
import logging
import os
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.training.callbacks import KeepBest, ProgressLog, ScoreCheckpoints, clock
from bert_tf.training.history import History, read_history
from bert_tf.training.run_config import RunConfig
from bert_tf.utils.progress import Stopwatch

OPTIMIZER = types.SimpleNamespace(learning_rate=tf.constant(0.25))


def _run(folder, **changes):
    return RunConfig(os.fspath(folder), 8, **{"num_train_steps": 6, "save_checkpoints_steps": 2, **changes})


def _results(loss, skipped=0.0):
    counts = {"examples": tf.constant(8), "tokens": tf.constant(40), "skipped": tf.constant(skipped)}
    return {"loss": tf.constant(loss), "gradient_norm": tf.constant(2.0), **counts}


@pytest.mark.parametrize("seconds, text", [(0, "0:00"), (75.2, "1:15"), (599.6, "10:00"), (3675, "1:01:15")])
def test_clock(seconds, text):
    assert clock(seconds) == text


def _state(monkeypatch=None):
    """Returns what actions are told of a run; with `monkeypatch` each look at the clock is 4 seconds after the last."""
    if monkeypatch:
        now = iter(range(0, 1000, 4))
        monkeypatch.setattr("bert_tf.utils.progress.time.perf_counter", lambda: float(next(now)))
    return types.SimpleNamespace(model=None, optimizer=OPTIMIZER, watch=Stopwatch(), ended_at=None, unreported=[])


def _made(action, step, results, state):
    """Does what the loop does after a step."""
    state.unreported.append(results)
    action(step, results, state)


def _lines(caplog):
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith("step ")]


def test_progress_logs_a_line_and_writes_events(tmp_path, caplog, monkeypatch):
    state, progress = _state(monkeypatch), ProgressLog(_run(tmp_path), every=2)
    with caplog.at_level(logging.INFO, logger="absl"):
        for step in range(1, 7):
            _made(progress, step, _results(step / 2, skipped=float(step == 3)), state)
    assert _lines(caplog) == [  # means of the steps 1 and 2, 4, 5 and 6, each with 8 examples; the first is not timed
        "step 2/6  loss 0.7500  2.0 examples/s  10 tokens/s  0:16 left",
        "step 4/6  loss 2.0000  4.0 examples/s  20 tokens/s  0:05 left  1 steps skipped (gradients overflowed)",
        "step 6/6  loss 2.7500  4.0 examples/s  20 tokens/s  0:00 left  1 steps skipped (gradients overflowed)",
    ]
    assert _events(tmp_path / "train") == {
        "loss": {2: 0.75, 4: 2.0, 6: 2.75},
        "gradient_norm": {2: 2.0, 4: 2.0, 6: 2.0},
        "learning_rate": {2: 0.25, 4: 0.25, 6: 0.25},
        "examples_per_second": {2: 2.0, 4: 4.0, 6: 4.0},
        "tokens_per_second": {2: 10.0, 4: 20.0, 6: 20.0},
    }


def test_the_time_left_does_not_leap_with_the_length_of_the_last_rows(tmp_path, caplog, monkeypatch):
    now, run = [0.0], _run(tmp_path, num_train_steps=61)
    monkeypatch.setattr("bert_tf.utils.progress.time.perf_counter", lambda: now[0])
    state, progress = _state(), ProgressLog(run, every=1)
    with caplog.at_level(logging.INFO, logger="absl"):
        for step in range(1, 62):
            now[0] += 30 if step == 1 else (0.5, 3.5)[step % 2]  # the first one builds the graph
            _made(progress, step, _results(1.0), state)
    told = re.findall(r"step (\d+)/61 .* (\d+):(\d\d) left", caplog.text)
    lefts = {int(step): 60 * int(minutes) + int(seconds) for step, minutes, seconds in told}
    assert len(lefts) == 60
    for step in range(11, 62):
        assert abs(lefts[step] - 2 * (61 - step)) <= 0.25 * 2 * (61 - step) + 1, (step, lefts[step])


def test_progress_counts_tokens_and_has_the_means_of_the_parts(tmp_path, caplog, monkeypatch):
    state, progress = _state(monkeypatch), ProgressLog(_run(tmp_path), every=3)
    with caplog.at_level(logging.INFO, logger="absl"):
        for step in range(1, 7):
            parts = {"masked_lm_loss": tf.constant(step / 2), "next_sentence_loss": tf.constant(0.5)}
            _made(progress, step, {**_results(1.0), "tokens": tf.constant(step), **parts}, state)
    events = _events(tmp_path / "train")
    assert events["tokens_per_second"] == {3: (2 + 3) / 4, 6: (4 + 5 + 6) / 4}  # the first step is not timed
    assert events["masked_lm_loss"] == {3: 1.0, 6: 2.5} and not events.keys() & {"tokens", "examples", "skipped"}
    assert "step 6/6  loss 1.0000 (masked_lm_loss 2.5000, next_sentence_loss 0.5000)  6.0 ex" in _lines(caplog)[1]


def test_where_every_step_was_skipped_there_is_no_mean(tmp_path):
    history, state = History(os.fspath(tmp_path), {}), _state()
    history.start(0, None)
    progress = ProgressLog(_run(tmp_path), every=3, history=history)
    for step in range(1, 7):
        _made(progress, step, _results(float("nan") if step < 5 else 1.0, skipped=float(step < 5)), state)
    lines = [line for line in read_history(tmp_path / "history.jsonl") if line["kind"] == "train"]
    assert [(line["loss"], line["skipped"]) for line in lines] == [(None, 3), (1.0, 1)]


def test_rates_are_without_pauses_and_the_time_left_is_with_them(tmp_path, caplog, monkeypatch):
    state, progress = _state(monkeypatch), ProgressLog(_run(tmp_path), every=4)
    with caplog.at_level(logging.INFO, logger="absl"):
        for step in range(1, 5):
            if step % 2 == 0:
                with state.watch.pause(after=tf.constant(1.0)):  # 4 s, as every checkpoint of the run
                    pass
            _made(progress, step, _results(1.0), state)
    # From 4 s to 24 s, less two pauses of 4 s: 3 steps in 12 s. Left: 2 steps, and the checkpoint at step 6.
    assert _lines(caplog) == ["step 4/6  loss 1.0000  2.0 examples/s  10 tokens/s  0:12 left"]


def _events(folder):
    """Returns {name: {step: value}} of all scalars in the event files of a folder."""
    values = {}
    for path in glob.glob(f"{folder}/events.out.tfevents.*"):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                values.setdefault(value.tag, {})[event.step] = float(tf.make_ndarray(value.tensor))
    return values


def test_progress_says_something_some_fifty_times_a_run_and_makes_nothing_before(tmp_path):
    assert ProgressLog(_run(tmp_path, num_train_steps=648)).every == 12
    assert ProgressLog(_run(tmp_path, num_train_steps=10)).every == 1
    assert ProgressLog(_run(tmp_path, num_train_steps=100_000)).every == 100
    assert os.listdir(tmp_path) == []


def _keep_best(folder, metric, values, **changes):
    """Runs 6 steps whose checkpoints 2, 4, 6 score `values`; returns the store."""
    run, store, scores = _run(folder, **changes), CheckpointManager(folder, keep=1), iter(values)
    names = {"loss": 1.0, "accuracy": 0.5}
    keep = KeepBest(lambda step, model: {**names, **next(scores)}, run, store, None, metric, names)
    for step in range(1, 7):
        if run.saves_at(step):
            store.save(step, {"weight": np.float32(step)})
        keep(step, _results(0.0), _state())
    return store


@pytest.mark.parametrize(
    "metric, values, best, stay",
    [
        ("accuracy", (0.5, 0.75, 0.625), 4, [4, 6]),
        ("eval_accuracy", (0.75, 0.75, 0.75), 2, [2, 6]),  # of equal ones the first
        ("loss", (0.5, 0.25, 0.375), 4, [4, 6]),
        ("eval_loss", (0.5, 0.375, 0.25), 6, [4, 6]),  # 4 was the best when 6 was written
    ],
)
def test_the_best_checkpoint_is_marked_and_stays(tmp_path, metric, values, best, stay, caplog):
    name = metric.removeprefix("eval_")
    with caplog.at_level(logging.INFO, logger="absl"):
        store = _keep_best(tmp_path, metric, [{name: value} for value in values])
    assert store.best() == (best, name, values[best // 2 - 1])
    assert store.steps() == stay  # keep=1
    said = [r.getMessage() for r in caplog.records if re.match(r"step \d+  eval_", r.getMessage())]
    assert len(said) == 3
    assert said[best // 2 - 1] == f"step {best}  eval_{name} = {values[best // 2 - 1]:.5f}  (best so far)"
    assert _events(tmp_path / "eval")[name] == dict(zip((2, 4, 6), values, strict=True))


def test_scoring_a_checkpoint_twice_changes_nothing(tmp_path):
    store = _keep_best(tmp_path, "accuracy", [{"accuracy": v} for v in (0.75, 0.5, 0.5)])
    again = KeepBest(lambda step, model: {"accuracy": 0.75}, _run(tmp_path), store, None, "accuracy", ("accuracy",))
    again.resume(2, _state())
    assert store.best() == (2, "accuracy", 0.75)


def test_a_run_goes_on_by_scoring_what_the_history_has_no_scores_of(tmp_path):
    scored, history = [], History(os.fspath(tmp_path), {})
    history.start(4, None)
    history.evaluated(2, {"loss": 1.0})
    action = ScoreCheckpoints(lambda step, model: scored.append(step) or {"loss": 2.0}, _run(tmp_path), None, history)
    for step in (2, 3, 4, 4):  # scored before; saved out of turn, by a run that was told to stop; not scored; now it is
        action.resume(step, _state())
    assert scored == [4] and history.has("eval", 4) and _events(tmp_path / "eval") == {"loss": {4: 2.0}}


@pytest.mark.parametrize("last, saves", [(6, [3, 3, 2, 2, 1, 1, 0]), (5, [3, 3, 2, 2, 1, 0])])
def test_how_many_checkpoints_are_still_to_come(tmp_path, last, saves):
    run = _run(tmp_path, num_train_steps=last)
    assert [run.saves_after(step) for step in range(last + 1)] == saves


def test_an_unknown_metric_is_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"must be one of \['accuracy', 'loss'\]; got 'eval_bleu'"):
        KeepBest(None, _run(tmp_path), CheckpointManager(tmp_path), None, "eval_bleu", ("loss", "accuracy"))
