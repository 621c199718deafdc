"""Programs that a program starts: how they are shown, how they end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bert_tf.utils import subprocesses
from tests.conftest import ROOT


def test_commands_are_shown_as_one_types_them(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert subprocesses.display_path(tmp_path / "bin" / "python") == "bin/python"
    assert subprocesses.display_path("/somewhere/python") == "/somewhere/python"
    command = ["python", "-m", "bert_tf", "embed", "--model=a b", "--do_train", "text"]
    lines = ["python -m bert_tf embed", "'--model=a b'", "--do_train", "text"]
    assert subprocesses.format_command(command) == " \\\n    ".join(lines)


def test_a_child_that_fails_is_told_by_its_status(capsys):
    with pytest.raises(ValueError, match="failed with status 3; "):
        subprocesses.execute_command([sys.executable, "-c", "import sys; sys.exit(3)"])
    assert "import sys; sys.exit(3)" in capsys.readouterr().out


def test_a_child_knows_that_it_is_one(capfd):
    assert not subprocesses.is_child()
    subprocesses.execute_command(
        [sys.executable, "-c", "from bert_tf.utils import subprocesses as c; print(c.is_child())"]
    )
    assert "\nTrue\n" in capfd.readouterr().out


def test_a_child_is_stopped_at_its_limit_and_waited_for(monkeypatch):
    started = []

    class Noted(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    with pytest.raises(subprocess.TimeoutExpired):
        subprocesses.execute_command([sys.executable, "-c", "import time; time.sleep(600)"], limit=0.05)
    assert [process.returncode for process in started] == [-signal.SIGTERM]


CHILD = """
import pathlib, signal, sys, time

def save(*_):
    pathlib.Path(sys.argv[1], "saved").touch()
    sys.exit(143)

signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGINT, save)
pathlib.Path(sys.argv[1], "ready").touch()
time.sleep(600)
"""
PARENT = """
import pathlib, signal, subprocess, sys
from bert_tf.utils import subprocesses

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start what is in the background without it

class Parent(subprocess.Popen):
    def wait(self, timeout=None):
        pathlib.Path(sys.argv[2], "waits").touch()
        return super().wait(timeout)

subprocess.Popen = Parent
with subprocesses.resumable():
    subprocesses.execute_command([sys.executable, "-c", sys.argv[1], sys.argv[2]])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_reaches_the_child_and_ends_in_one_message(tmp_path, number):
    command = [sys.executable, "-c", PARENT, CHILD, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while not ((tmp_path / "ready").exists() and (tmp_path / "waits").exists()):
            assert process.poll() is None
            time.sleep(0.01)
        # A terminal sends Ctrl-C to all of them; a scheduler's SIGTERM goes to the first.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        said = process.stderr.read()
    assert process.returncode == 128 + number and (tmp_path / "saved").exists()
    assert said.count("Stopped. Run the same command again to resume.") == 1 and "Traceback" not in said
