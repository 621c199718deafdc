"""Signals that come together: one orderly end, whichever and however close they are."""

import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from bert_tf.utils import signals
from tests.conftest import ROOT

BOTH = [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)]
STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130}
_ONE_QUICK = [signal.SIGTERM, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGINT, signal.SIGHUP))]


@pytest.fixture(autouse=True)
def heard():
    """Lets the tests and their children hear signals that nohup, or a shell's background, has had ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _end(*numbers):
    """Sends the signals into a block of `orderly_end`, whose tidying up counts; returns (what ended it, tidied)."""
    tidied = 0
    try:
        with signals.orderly_end():
            try:
                os.kill(os.getpid(), numbers[0])
            finally:
                for number in numbers[1:]:
                    os.kill(os.getpid(), number)
                tidied += 1
    except (KeyboardInterrupt, SystemExit) as end:
        return end.code if isinstance(end, SystemExit) else 130, tidied
    return 0, tidied


@pytest.mark.parametrize("numbers", BOTH)
def test_the_second_of_two_signals_does_not_interrupt_what_the_first_set_off(numbers):
    before = [signal.getsignal(number) for number in numbers]
    assert _end(*numbers) == (STATUS[numbers[0]], 1)
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("numbers", BOTH)
def test_a_later_signal_ends_the_tidying_too(numbers, monkeypatch):
    monkeypatch.setattr(signals, "ONE_WISH", 0.0)
    assert _end(*numbers) == (STATUS[numbers[1]], 0)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_whose_exception_python_drops_comes_again(number, status):
    class Kept:
        pass

    def drop(kept):
        made = weakref.ref(kept.pop(), lambda _: os.kill(os.getpid(), number))  # Python drops what it raises
        assert made() is None
        return True

    hook, dropped = sys.unraisablehook, False
    try:
        with signals.orderly_end():
            dropped = drop([Kept()])
            for _ in range(200):
                time.sleep(0.05)
    except (KeyboardInterrupt, signals.Terminated) as end:
        assert dropped and (end.code if isinstance(end, signals.Terminated) else 130) == status
    else:
        pytest.fail("the signal had no effect")
    assert sys.unraisablehook is hook


STOPS = """
import sys, time
from bert_tf.utils.signals import StopRequest

with StopRequest() as request:
    print("loads", flush=True)
    if "load" in sys.argv:
        time.sleep(600)
    request.ready()
    print("serves", flush=True)
    print(request.wait().name, flush=True)
    time.sleep(600 if "stuck" in sys.argv else 0.2)
print("ended", flush=True)
"""


def _start(line, *arguments):
    """Returns a process of STOPS that has printed `line`."""
    process = subprocess.Popen(
        [sys.executable, "-c", STOPS, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for said in process.stdout:
        if said == f"{line}\n":
            return process
    raise RuntimeError(process.stderr.read())


@pytest.mark.parametrize("numbers", [*BOTH, (signal.SIGHUP,), (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM)])
def test_signals_of_one_moment_are_one_request_to_stop(numbers):
    process = _start("serves")
    for number in numbers:
        process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    first, last = said.split()
    assert (last, process.returncode) == ("ended", 0)
    assert first in {number.name for number in numbers}


@pytest.mark.slow
@pytest.mark.parametrize("number", _ONE_QUICK)
def test_a_later_signal_ends_a_stop_that_takes_long_by_the_kernel(number):
    process = _start("serves", "stuck")
    process.send_signal(signal.SIGTERM)
    time.sleep(signals.ONE_WISH + 0.5)
    assert process.poll() is None
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number


def test_a_signal_before_anything_is_served_ends_at_once():
    process = _start("loads", "load")
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0 and "SIGTERM: stopped before serving started." in log


def test_what_fails_before_a_signal_comes_leaves_signals_as_they_were():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError), signals.StopRequest():
        raise ValueError
    assert signal.getsignal(signal.SIGINT) is before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
