"""Processes that end with the one that started them, and signals that are not lost."""

import os
import signal
import subprocess
import sys
import weakref

import pytest

from bert_tf.utils.workers import Workers
from tests.conftest import ROOT

_KILLED = """
from bert_tf.utils.workers import Workers
from tests.utils.workers_test import Sleeper

with Workers(2, Sleeper, ()) as workers:
    list(workers.map("sleep", [(60,)] * 4))
"""


class Sleeper:
    """Says when it falls asleep and when it wakes up."""

    def sleep(self, seconds):
        import time

        os.write(1, b"asleep\n")
        time.sleep(seconds)
        os.write(1, b"awake\n")


def test_workers_end_when_their_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", _KILLED], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert [process.stdout.readline() for _ in range(2)] == [b"asleep\n"] * 2
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == b""  # which ends when nobody is left who could write


class Interrupted:
    """What is sent SIGTERM in a callback while it is made: Python drops what the handler raises there."""

    made = 0

    def __init__(self):
        referent = Sleeper()
        reference = weakref.ref(referent, lambda _: signal.raise_signal(signal.SIGTERM))
        del referent
        assert reference() is None
        Interrupted.made += 1


def test_a_signal_that_comes_while_tensorflow_is_imported_is_not_lost():
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with pytest.raises(SystemExit, match="143"):
            Workers(1, Interrupted, ())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert Interrupted.made == 1
