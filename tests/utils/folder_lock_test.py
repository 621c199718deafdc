"""Promises of bert_tf.utils.folder_lock: one at a time, to the end of its last child, and nothing is left behind."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from bert_tf.utils import folder_lock
from bert_tf.utils.folder_lock import alone_in


def test_a_second_one_is_refused_and_a_folder_shows_nothing_of_it(tmp_path):
    with alone_in(tmp_path):
        with pytest.raises(ValueError, match=f"Another run is already writing to {tmp_path} .`model_dir`"), alone_in(
            tmp_path, "model_dir"
        ):
            pass
        assert not os.listdir(tmp_path)
    with alone_in(tmp_path):
        pass


def test_it_is_waited_for_the_last_child_that_inherited_the_lock(tmp_path, monkeypatch):
    with alone_in(tmp_path, wait=True) as lock:
        code = "import sys; sys.stdin.read()"
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, pass_fds=(lock,))
    told = []

    def warning(text, *values):
        told.append(text % values)
        child.stdin.close()  # only now does the child end

    monkeypatch.setattr(folder_lock.logging, "warning", warning)
    with alone_in(tmp_path, wait=True):
        assert child.wait() == 0
    assert told == [f"A process of an earlier command is still working in {tmp_path}: waiting for it to end."]


@pytest.mark.parametrize("wait", [False, True])
def test_a_file_system_without_locks_is_told_of(tmp_path, monkeypatch, caplog, wait):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with caplog.at_level("WARNING", "absl"), alone_in(tmp_path, wait=wait):
        assert "cannot be locked (No locks available): make sure" in caplog.text
