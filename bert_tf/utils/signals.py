"""Handles SIGTERM, Ctrl-C and SIGHUP without interrupting a program at the wrong place.

Python runs a signal's handler between any two steps of the main thread, also inside another handler, and also while the
thread holds a lock. So these handlers take no lock and log nothing: they raise, or do nothing.
"""

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

from absl import logging

ONE_WISH = 1.0  # seconds in which several signals are one wish: a terminal and a supervisor often send one each
_SENT_AGAIN = 0.05  # seconds after which a signal is sent again whose exception was dropped


class Terminated(SystemExit):
    """Raised by a signal other than Ctrl-C: exits with status 128 + the signal number, as shells do.

    Attributes:
        signal: the `signal.Signals`.
    """

    def __init__(self, number: int):
        super().__init__(128 + number)
        self.signal = signal.Signals(number)


@contextlib.contextmanager
def orderly_end() -> Iterator[None]:
    """In the block, SIGTERM and SIGHUP raise `Terminated` and Ctrl-C KeyboardInterrupt, once per burst of signals.

    A second signal that arrives at the same time thus does not interrupt the reaction to the first: ending child
    processes, removing unfinished files. A later one raises again, if you do not want to wait. Outside the main thread,
    where Python handles no signals, nothing happens. An ignored signal stays ignored.

    Python drops what is raised inside a weak-reference callback or a destructor, of which imports are full. The signal
    is then sent again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised, last, report = -math.inf, None, sys.unraisablehook

    def end(number, frame):
        nonlocal raised, last
        now = time.monotonic()
        if now - raised < ONE_WISH:
            return
        raised, last = now, KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)
        raise last

    def send_again(dropped):
        nonlocal raised
        if dropped.exc_value is None or dropped.exc_value is not last:
            report(dropped)
            return
        raised = -math.inf
        number = last.signal if isinstance(last, Terminated) else signal.SIGINT
        again = threading.Timer(_SENT_AGAIN, signal.pthread_kill, (threading.main_thread().ident, number))
        again.daemon = True
        again.start()

    with contextlib.ExitStack() as before:
        before.callback(setattr, sys, "unraisablehook", report)
        sys.unraisablehook = send_again
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as shells start what is in the background
                before.callback(signal.signal, number, signal.signal(number, end))
        yield


class StopRequest:
    """Waits for a stop signal, for servers; a context manager that must be entered before threads are started.

    SIGTERM, SIGINT and SIGHUP (unless it is ignored, as under nohup) are blocked in every thread, and a thread of this
    object takes them from the kernel: no handler runs, so nothing can be interrupted while it holds a lock.

    Before `ready` a signal ends the process at once, with status 0: there is nothing to finish. After it, the first one
    ends `wait`, those of the same moment are taken as one with it, and a later one ends the process at once, by the
    kernel itself, with the status of that signal.
    """

    def __init__(self):
        hang_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
        self._numbers = {signal.SIGTERM, signal.SIGINT, *hang_up}
        self._ready, self._came, self._over = threading.Event(), threading.Event(), threading.Event()
        self._listener = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._left = contextlib.ExitStack()

    def __enter__(self):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)  # threads and children inherit it
        self._left.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        for number in self._numbers:
            self._left.callback(signal.signal, number, signal.signal(number, signal.SIG_DFL))
        self._listener.start()
        return self

    def __exit__(self, *error):
        if self._came.is_set():
            return  # the process ends, and more signals of the same moment must not change how
        self._over.set()
        signal.pthread_kill(self._listener.ident, signal.SIGTERM)  # it waits for one
        self._listener.join()
        self._left.close()

    def ready(self):
        """Marks that from now on a stop has work to finish."""
        self._ready.set()

    def wait(self) -> signal.Signals:
        """Waits for a stop signal and returns it."""
        self._came.wait()
        return self._first

    def _listen(self):
        self._first = signal.Signals(signal.sigwait(self._numbers))
        if self._over.is_set():
            return
        if not self._ready.is_set():
            logging.warning("%s: stopped before serving started.", self._first.name)
            logging.flush()
            os._exit(0)
        self._came.set()
        time.sleep(ONE_WISH)
        while signal.sigpending() & self._numbers:
            signal.sigwait(self._numbers)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)  # Python has no handler for any of them
        self._over.wait()
