"""The history of a run that is killed and taken up again, and when its page is drawn."""

import json
import logging
import math
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.training.callbacks import KeepBest, ProgressLog
from bert_tf.training.history import History, first_start, read_history
from bert_tf.training.run_config import RunConfig
from bert_tf.training.run_record import commit
from bert_tf.utils.html_report import Page, kept
from bert_tf.utils.progress import Stopwatch

OPTIMIZER = types.SimpleNamespace(learning_rate=tf.constant(0.25))


def _train(folder, first, last, loss, skipped=(), **given_flags):
    """Does what a run of 12 steps does after each, checkpoints at the even ones; returns its `History`."""
    run, store = RunConfig(os.fspath(folder), 8, 12, save_checkpoints_steps=2), CheckpointManager(folder)
    history = History(run.output_dir, given_flags)
    keep = KeepBest(lambda step, model: {"loss": 2 * loss, "accuracy": 0.5}, run, store, history, "loss", ("loss",))
    progress = ProgressLog(run, every=2, history=history)
    state = types.SimpleNamespace(model=None, optimizer=OPTIMIZER, watch=Stopwatch(), unreported=[])
    history.start(first - 1, store.prefix(first - 1) if first > 1 else None)
    for step in range(first, last + 1):
        results = {"loss": loss, "gradient_norm": 2.0, "skipped": float(step in skipped), "tokens": 96, "examples": 8}
        if run.saves_at(step):
            store.save(step, {"weight": np.float32(step)})
        results = {name: tf.constant(value) for name, value in results.items()}
        state.unreported.append(results)
        for action in (progress, keep, history):
            action(step, results, state)
    return history


def _of(lines, kind, *names):
    return [tuple(line[name] for name in names) for line in lines if line["kind"] == kind]


def test_a_run_writes_what_it_does(tmp_path):
    _train(tmp_path, 1, 12, 3.0, skipped=(1, 2, 7), learning_rate=5e-5, input_file=["a", "b"])
    lines = read_history(tmp_path / "history.jsonl")
    assert _of(lines, "start", "step", "from", "flags") == [(0, None, {"learning_rate": "5e-05", "input_file": "a,b"})]
    assert {"python", "tensorflow", "keras", "numpy", "bert_tf"} == lines[0]["versions"].keys()
    assert lines[0]["git"] == commit()
    trained = _of(lines, "train", "step", "loss", "skipped", "gradient_norm", "learning_rate")
    means = [(None, 2, None), (3.0, 0, 2.0), (3.0, 0, 2.0), (3.0, 1, 2.0), (3.0, 0, 2.0), (3.0, 0, 2.0)]
    assert trained == [(2 * n, *values, 0.25) for n, values in enumerate(means, 1)]  # steps 1 and 2 were both skipped
    for examples, tokens in _of(lines, "train", "examples_per_second", "tokens_per_second"):
        assert tokens == pytest.approx(12 * examples) and tokens > 0  # 8 examples a step, 96 tokens
    assert _of(lines, "eval", "step", "loss", "accuracy") == [(step, 6.0, 0.5) for step in range(2, 13, 2)]
    assert all(line["time"].endswith("+00:00") for line in lines)


def test_a_start_says_what_is_read(tmp_path):
    data = {"train": {"file": "train.tsv", "rows": 6920}}
    history = History(os.fspath(tmp_path), {}, data)
    history.start(0, None)
    assert [line["data"] for line in read_history(tmp_path / "history.jsonl")] == [data]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Training data" in page and "6,920 examples" in page and "train.tsv" in page


@pytest.mark.slow
def test_a_resumed_run_has_every_step_once(tmp_path):
    _train(tmp_path, 1, 7, 3.0, seed=1)
    with open(tmp_path / "history.jsonl", "a") as file:
        file.write('{"kind": "train", "step": 8, "lo')  # killed while it wrote; and say that checkpoint 6 is not whole
    history = _train(tmp_path, 5, 12, 1.0, seed=2)
    history.write_page()
    lines = read_history(tmp_path / "history.jsonl")
    losses = [(2, 3.0), (4, 3.0), (6, 1.0), (8, 1.0), (10, 1.0), (12, 1.0)]
    assert _of(lines, "train", "step", "loss") == losses
    assert _of(lines, "eval", "step", "loss") == [(step, 2 * loss) for step, loss in losses]
    assert _of(lines, "start", "step", "from") == [(0, None), (4, f"{tmp_path}/model.ckpt-4")]
    assert [start["seed"] for (start,) in _of(lines, "start", "flags")] == ["1", "2"]
    assert (tmp_path / "history.jsonl").read_bytes().endswith(b"}\n")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "from step 4" in page and f"{tmp_path}/model.ckpt-4" in page and "Gradient norm" in page


def test_a_run_killed_before_its_first_checkpoint_begins_the_curves_again(tmp_path):
    _train(tmp_path, 1, 7, 3.0)
    _train(tmp_path, 1, 2, 1.0)
    lines = read_history(tmp_path / "history.jsonl")
    assert _of(lines, "train", "step", "loss") == [(2, 1.0)] and _of(lines, "start", "step") == [(0,), (0,)]


def test_every_prefix_of_a_history_is_readable(tmp_path):
    _train(tmp_path, 1, 3, 3.0)
    whole, path = (tmp_path / "history.jsonl").read_bytes(), tmp_path / "cut.jsonl"
    lines = read_history(tmp_path / "history.jsonl")
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        assert read_history(path) == lines[: whole[:size].count(b"\n")]


@pytest.mark.parametrize("line", ["{", "7", "{}", '{"kind": "end", "step": 1}', '{"kind": "train", "step": "1"}', ""])
def test_a_broken_line_before_the_last_is_named(tmp_path, line):
    path = tmp_path / "history.jsonl"
    path.write_text(f'{{"kind": "train", "step": 1}}\n{line}\n{{"kind": "train", "step": 2}}\n')
    with pytest.raises(ValueError, match=r"history\.jsonl, line 2: expected a JSON object .* Delete the line"):
        History(os.fspath(tmp_path), {}).start(1, None)
    assert path.read_text().count("\n") == 3


def test_numbers_that_are_not_finite_are_null(tmp_path):
    history = History(os.fspath(tmp_path), {})
    history.start(0, None)
    history.trained(1, {"loss": math.nan, "gradient_norm": np.float32("inf")})

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    line = json.loads((tmp_path / "history.jsonl").read_text().splitlines()[1], parse_constant=refuse)
    assert line["loss"] is None and line["gradient_norm"] is None


def test_pages_take_less_than_a_thousandth_of_the_time(tmp_path, monkeypatch):
    now, drawn = [0.0], []

    def draw(lines, title, shown):
        drawn.append(now[0])
        now[0] += 0.9  # seconds that it takes
        return ""

    monkeypatch.setattr("bert_tf.training.history.time.monotonic", lambda: now[0])
    monkeypatch.setattr("bert_tf.training.history.build_history_page", draw)
    history = History(os.fspath(tmp_path), {})
    history(0, None, None)
    assert drawn == []  # the run has not started
    history.start(0, None)
    for step in range(10_000):
        now[0] += 1.0
        history(step, None, None)
    assert drawn[0] == 0 and len(drawn) > 10
    assert all(900 <= b - a <= 903 for a, b in zip(drawn, drawn[1:], strict=False))
    history.write_page()
    assert drawn[-1] == pytest.approx(now[0] - 0.9)  # the end does not wait


def test_a_page_that_cannot_be_drawn_ends_nothing_and_is_no_secret(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("bert_tf.training.history.build_history_page", lambda *what: 1 / 0)
    with caplog.at_level(logging.ERROR, logger="absl"):
        _train(tmp_path, 1, 2, 3.0)
    assert "report.html. Training continues" in caplog.text and "ZeroDivisionError" in caplog.text
    assert not (tmp_path / "report.html").exists() and len(read_history(tmp_path / "history.jsonl")) == 3


def _part(text):
    page = Page("", salt=text)
    page.text(text)
    return page.fragment()


def _shown(folder):
    return kept((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_what_was_scored_stays_on_the_page_and_is_put_in_its_own_place(tmp_path):
    history = _train(tmp_path, 1, 6, 3.0)
    history.show("eval", lambda: _part("scored once"))
    history.show("more", lambda: _part("more"))
    history.concluded(6, {"loss": 1.0})
    assert _shown(tmp_path) == {"eval": "<p>scored once</p>", "more": "<p>more</p>"}
    _train(tmp_path, 7, 12, 3.0).write_page()  # the run goes on
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "scored once" in page and "from step 6" in page
    again = History(os.fspath(tmp_path), {})  # scored in another process, which does not train
    again.show("eval", lambda: _part("scored twice"))
    again.concluded(12, {"loss": 1.0})
    assert _shown(tmp_path) == {"eval": "<p>scored twice</p>", "more": "<p>more</p>"}
    assert "Gradient norm" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(_of(read_history(tmp_path / "history.jsonl"), "eval", "step")) == 6  # one a step, and no more of it


def test_a_model_that_was_trained_elsewhere_is_shown_alone(tmp_path):
    history = History(os.fspath(tmp_path), {})
    history.show("eval", lambda: _part("scored"))
    history.concluded(0, {"loss": 1.0})
    assert _shown(tmp_path) == {"eval": "<p>scored</p>"} and os.listdir(tmp_path) == ["report.html"]


def test_a_part_that_cannot_be_drawn_ends_nothing_and_is_no_secret(tmp_path, caplog):
    history = _train(tmp_path, 1, 2, 3.0)
    with caplog.at_level(logging.ERROR, logger="absl"):
        history.show("eval", lambda: 1 / 0)
        history.concluded(2, {"loss": 1.0})
    assert "is missing its section 'eval'" in caplog.text and "ZeroDivisionError" in caplog.text
    assert (tmp_path / "report.html").exists()


def test_a_history_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OSError, match="out"):
        History(os.fspath(tmp_path / "out"), {}).start(0, None)  # nobody made the directory


def test_a_history_that_was_not_started_does_nothing(tmp_path):
    history = History(os.fspath(tmp_path), {})
    history.trained(1, {"loss": 1.0})
    history.evaluated(1, {"loss": 1.0})
    history(1, None, None)
    history.write_page()
    assert os.listdir(tmp_path) == []


def test_a_run_began_with_the_last_start_before_its_first_step():
    """The one before it ended without a checkpoint."""
    lines = [{"kind": "start", "step": step, "from": name} for step, name in ((0, "a"), (0, "b"), (4, "c"))]
    assert first_start(lines)["from"] == "b" and first_start(lines[2:])["from"] == "c" and first_start([]) == {}
