"""Progress: lines in a file, a bar on a terminal."""

import io
import logging
import os
import types

import pytest
from absl import logging as absl_logging

from bert_tf.training.callbacks import ProgressLog
from bert_tf.training.run_config import RunConfig
from bert_tf.utils import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def ticks(monkeypatch):
    """Lets each look at the clock be three seconds after the last."""
    now = iter(range(0, 10_000, 3))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(now)))


@pytest.fixture
def use(monkeypatch):
    """Returns a function that makes a stream the log's, and returns it; the log itself, where a test before has set
    absl's up, is left out of it."""
    handlers = [each for each in logging.root.handlers if each is not absl_logging.get_absl_handler()]
    monkeypatch.setattr(logging.root, "handlers", handlers)
    monkeypatch.setattr(progress, "_on_terminal", False)
    monkeypatch.setattr(progress, "_drawn", False)
    monkeypatch.setattr(progress.atexit, "register", lambda function: None)
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda **_: os.terminal_size((60, 24)))

    def use(stream, term="xterm"):
        monkeypatch.setenv("TERM", term)
        monkeypatch.setattr(progress.sys, "stderr", stream)
        progress.use_bars()
        return stream

    return use


def _count(caplog):
    with caplog.at_level(logging.INFO, logger="absl"), progress.Countdown("Answering", "rows", 100) as count:
        for _ in range(20):
            count.advance(5)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("stream, term", [(io.StringIO, "xterm"), (Terminal, "dumb")])
def test_in_a_file_there_are_lines(stream, term, use, ticks, caplog):
    written, lines = use(stream(), term), _count(caplog)
    assert lines[0] == "Answering: 20 of 100 rows, 1.67/s, 0:48 left"
    assert len(lines) == 6 and lines[-1].startswith("Answering: 100 rows in 1:0") and not written.getvalue()


def test_on_a_terminal_there_is_a_bar_and_its_end_is_logged(use, ticks, caplog):
    written, lines = use(Terminal()), _count(caplog)
    assert len(lines) == 1 and lines[0].startswith("Answering: 100 rows in ")
    before, *drawn, after = written.getvalue().split("\r\x1b[K")
    assert before == after == "" and len(drawn) == 20
    assert drawn[9].startswith("[############............] Answering: 50 of 100 rows, ")
    assert all(len(line) < 60 and "\n" not in line for line in drawn)
    assert drawn[-1].startswith("[" + "#" * 24 + "]") and not progress.erased()


def test_a_line_of_the_log_takes_the_bar_s_place(use):
    use(Terminal())
    record = logging.makeLogRecord({"msg": "Saved."})
    formatter = progress.LogFormatter()
    assert "\x1b" not in formatter.format(record)
    progress.ProgressBar().draw(None, "Writing")
    assert formatter.format(record).startswith("\r\x1b[K") and formatter.format(record).endswith(" Saved.")
    assert "\x1b" not in formatter.format(record)


def test_training_is_a_bar_too_and_ends_with_a_line(use, ticks, caplog, tmp_path):
    written = use(Terminal())
    action = ProgressLog(RunConfig(str(tmp_path), 8, 6, save_checkpoints_steps=6), every=2)
    action.events = types.SimpleNamespace(write=lambda *_: None)
    optimizer = types.SimpleNamespace(learning_rate=0.1)
    state = types.SimpleNamespace(optimizer=optimizer, watch=progress.Stopwatch(), unreported=[])
    with caplog.at_level(logging.INFO, logger="absl"):
        for step in range(1, 7):
            state.unreported.append({"loss": step / 2, "skipped": 0.0, "examples": 8, "tokens": 40})
            action(step, state.unreported[-1], state)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("step 6/6  loss 2.7500  ") and line.endswith(" left")
    drawn = written.getvalue().split("\r\x1b[K")[1:]
    assert len(drawn) == 5 and drawn[0] == "[####....................] step 1/6  "
    assert drawn[1].startswith("[########................] step 2/6  loss 0.7500  ")
    assert "step 3/6  loss 0.7500" in drawn[2]
