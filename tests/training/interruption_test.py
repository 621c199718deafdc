"""SIGTERM and Ctrl-C: the running step is finished and saved, and the run goes on from it to the bit."""

import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training import interruption
from bert_tf.training.interruption import Interruption, Stopped
from bert_tf.training.run_config import RunConfig
from tests import tiny
from tests.conftest import ROOT
from tests.training import runs
from tests.training.runs import assert_equal, saved

TASK = tiny.shallow(ClassificationTask)(tiny.config(dropout=0.2), 2)
STEP = re.compile(r"step (\d+)/\d+  loss")


def _send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_block_with_the_shell_s_status(number, status):
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped, Interruption():
        _send(number)
    assert stopped.value.code == status and stopped.value.signal == number
    assert signal.getsignal(number) is before


def test_what_is_held_is_finished_first():
    done = []
    with pytest.raises(Stopped), Interruption() as interruption:
        with interruption.held():
            _send(signal.SIGTERM)
            done.append("held")
        interruption.check()
        done.append("after")
    assert done == ["held"]


def test_a_second_sigterm_does_not_disturb_the_save_but_a_later_ctrl_c_ends_at_once(monkeypatch):
    monkeypatch.setattr(interruption, "ONE_WISH", 0.0)
    with Interruption() as entered, entered.held():
        for _ in range(3):
            _send(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            _send(signal.SIGINT)


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)])
def test_two_signals_of_one_moment_are_one_wish_to_save_and_stop(monkeypatch, numbers):
    monkeypatch.setattr(interruption, "ONE_WISH", 1e6)
    with pytest.raises(Stopped) as stopped, Interruption() as entered:
        with entered.held():
            for number in (*numbers, signal.SIGINT):
                _send(number)
        entered.check()
    assert stopped.value.signal == numbers[0]


def test_a_signal_is_acknowledged_while_the_step_is_still_made(monkeypatch):
    said, heard = [], threading.Event()

    def log(form, *values):
        said.append(form % values)
        heard.set()

    monkeypatch.setattr(interruption.logging, "warning", log)
    wakeup = signal.set_wakeup_fd(-1)
    with pytest.raises(Stopped), Interruption() as entered:
        with entered.held():
            _send(signal.SIGINT)
            assert heard.wait(60)  # of the thread that hears of it
        entered.check()
    assert len(said) == 1 and said[0].startswith("Ctrl-C: finishing the current step and saving its checkpoint,")
    assert signal.set_wakeup_fd(wakeup) == -1


def test_in_another_thread_there_are_no_signals():
    entered = []

    def enter():
        with Interruption() as interruption:
            interruption.check()
            entered.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered


def _fit(folder, signal_at=None):
    """Returns the steps whose actions were called; after those of step `signal_at` comes SIGTERM."""
    run = RunConfig(os.fspath(folder), 8, 8, 2, 1e-3, save_checkpoints_steps=3, keep_optimizer=True)
    steps = []

    def watch(step, results, state):
        steps.append(step)
        if step == signal_at:
            _send(signal.SIGTERM)

    runs.fit(TASK, run, watch=watch)
    return steps


def test_the_loop_saves_the_step_at_which_it_was_stopped_and_goes_on_there(tmp_path):
    assert _fit(tmp_path / "whole") == list(range(1, 9))
    with pytest.raises(Stopped):
        _fit(tmp_path / "parts", signal_at=5)
    assert CheckpointManager(tmp_path / "parts").steps() == [3, 5]
    assert _fit(tmp_path / "parts") == [6, 7, 8]
    assert_equal(saved(tmp_path / "whole", 8), saved(tmp_path / "parts", 8))


def _start(arguments):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "run_classifier.py", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_program_in_mid_run_saves_ends_with_143_and_goes_on(tmp_path):
    init, train = tiny.checkpoint(tmp_path / "init"), tiny.write_tsv(tmp_path / "train.tsv", tiny.texts(64))
    common = [f"--init_checkpoint={init}", f"--train_file={train}", "--do_train", "--train_batch_size=16",
              "--num_train_epochs=100", "--max_seq_length=16", "--deterministic"]  # fmt: skip
    whole = _start([*common, f"--output_dir={tmp_path / 'whole'}"])  # beside the other one
    parts = [*common, f"--output_dir={tmp_path / 'parts'}"]
    log = ""
    with _start(parts) as process:
        for line in process.stderr:
            log += line
            if (match := STEP.search(line)) and int(match[1]) in (40, 48, 56):  # three: those who send it may send two
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 143, log
    assert log.count("SIGTERM: finishing the current step and saving its checkpoint,") == 1
    (stopped,) = map(int, re.findall(r"SIGTERM: stopped after step (\d+)\. Run the same command again", log))
    assert 40 <= stopped < 400 and CheckpointManager(tmp_path / "parts").steps() == [stopped]
    with _start(parts) as process:
        log = process.stderr.read()
    assert process.returncode == 0 and f"Continuing this run from step {stopped}: " in log
    with whole:
        log = whole.stderr.read()
    assert whole.returncode == 0, log
    assert_equal(saved(tmp_path / "whole", 400), saved(tmp_path / "parts", 400))
