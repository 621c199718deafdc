"""How a trial of a .tflite file ends: only what came to its end in a child process may be loaded here."""

import subprocess
import sys

import pytest

from bert_tf.utils import litert_trial

DATA = b"\x00\x00\x00\x00TFL3 and more"
SAYS_SO = f"printf '{litert_trial._DONE.decode()}'"


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Returns a function that has a shell script run in place of Python; None: a program that is not there."""
    program = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(litert_trial, "_passed", set())

    def replace(script):
        program.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n", encoding="utf-8")
        program.chmod(0o755)

    return replace


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (None, "no child process could be started for a trial run: .*python: .*No such file"),
        ("exit 0", "python, started for a trial run, did not run it as Python does"),
        ("kill -KILL $$", r"was killed \(SIGKILL\), as systems do when memory runs out; give it more memory"),
        ("kill -TERM $$", "a trial run in a child process ended with SIGTERM$"),
        ("echo 'Traceback\nMemoryError: Unable' >&2; exit 1", r"out of memory \(MemoryError: Unable\); give"),
        ("echo \"what():  std::bad_alloc\" >&2; kill -ABRT $$", r"ran out of memory \(what\(\):  std::bad_alloc\)"),
        (f"{SAYS_SO}; echo 'Traceback\nImportError: no numpy' >&2; exit 1", "with status 1: ImportError: no numpy$"),
        ("exit 3", "ended with status 3$"),
        ("sleep 60", "took longer than 0.5 s"),
    ],
)  # fmt: skip
def test_a_trial_without_an_end_says_why_and_is_not_said_to_be_the_file(child, monkeypatch, script, told):
    monkeypatch.setattr(litert_trial, "_LIMIT_S", 0.5 if script == "sleep 60" else 60)
    if script:
        child(script)
    for _ in range(2):  # nothing is remembered of it
        with pytest.raises(litert_trial.UntriedError, match=told) as refused:
            litert_trial.check_litert(DATA)
        assert "damaged" not in str(refused.value)


def test_a_crash_is_the_file(child):
    child("kill -SEGV $$")
    with pytest.raises(ValueError, match="the file is damaged: a trial run in a child process ended with SIGSEGV"):
        litert_trial.check_litert(DATA)


def test_a_file_that_passed_is_not_tried_again(child):
    child(SAYS_SO)
    litert_trial.check_litert(DATA)
    child("exit 3")
    litert_trial.check_litert(DATA)
    with pytest.raises(litert_trial.UntriedError):
        litert_trial.check_litert(DATA + b"!")


def test_the_child_finds_the_modules_where_this_process_does(child, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", "/a/folder", "/another"])
    child(f'test "$PYTHONPATH" = /a/folder:/another && {SAYS_SO}')
    litert_trial.check_litert(DATA)


def test_the_child_imports_tensorflow_only_for_its_interpreter():
    code = "import sys; from bert_tf.utils import litert_trial; print('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
