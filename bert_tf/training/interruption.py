"""Graceful stop: after SIGTERM or Ctrl-C, the current step is finished and the run is saved."""

import contextlib
import os
import signal
import threading
import time

from absl import logging

from bert_tf.training.workers import num_workers, total
from bert_tf.utils.signals import ONE_WISH

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE = 5  # seconds for Python to handle a second Ctrl-C before the watching thread ends the process
_WHAT_FOLLOWS = (
    "finishing the current step and saving its checkpoint, from which the run can be resumed. "
    "Press Ctrl-C again to stop now and lose the steps since the last checkpoint."
)


def _cause(number):
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


class Stopped(SystemExit):
    """Raised when a signal stops a run: exits with status 128 + the signal number, as shells do.

    Attributes:
        signal: the `signal.Signals`.
        cause: its name in the log.
    """

    def __init__(self, number: int):
        super().__init__(128 + number)
        self.signal, self.cause = signal.Signals(number), _cause(number)


class Interruption:
    """A context in which SIGTERM and Ctrl-C raise `Stopped`, but never inside a `held` block.

    With several workers, none may leave alone, because the others would wait for it. A signal is then only recorded,
    and `check` stops all of them at the same step, whichever one received it. A Ctrl-C after the first signal ends the
    process at once, without saving, unless it comes within a second. In that case the two count as one request, since a
    terminal and a supervisor may each send a signal. A second SIGTERM does nothing, since senders often send two.

    A thread acknowledges the first signal in the log at once, because Python handles a signal only when the step is
    done, and the first step may take minutes to compile.

    Python handles signals only in the main thread; in any other thread this does nothing.
    """

    def __init__(self):
        self._alone = num_workers() == 1
        self._noted = self._held = 0
        self._noted_at, self._insisted = 0.0, False
        self._over, self._left = threading.Event(), contextlib.ExitStack()

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._left.callback(signal.signal, number, signal.signal(number, self._note))
            self._listen()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._left.close()

    def _listen(self):
        """Starts a thread that sees signals as they arrive: Python's C code writes their numbers to a pipe."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        thread = threading.Thread(target=self._acknowledge, args=(reading,), daemon=True)
        self._left.callback(thread.join)
        self._left.callback(os.close, writing)
        self._left.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writing, warn_on_full_buffer=False))
        thread.start()

    def _acknowledge(self, reading):
        first = None
        with open(reading, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                if number[0] not in _SIGNALS:
                    continue
                if first is None:
                    first = time.monotonic()
                    logging.warning("%s: %s", _cause(number[0]), _WHAT_FOLLOWS)
                elif number[0] == signal.SIGINT and time.monotonic() - first >= ONE_WISH:
                    self._insisted = True
                    logging.warning("Ctrl-C again: stopping now without saving.")
                    if not self._over.wait(_PATIENCE):
                        logging.flush()
                        os._exit(128 + signal.SIGINT)

    @contextlib.contextmanager
    def held(self):
        """Defers signals to the end of this block, in which variables or the checkpoint are half written."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def check(self):
        """Raises `Stopped` if this or any other worker received a signal; all must call it at the same step."""
        came = total([self._noted == number for number in _SIGNALS])
        for number, count in zip(_SIGNALS, came, strict=True):
            if count:
                raise Stopped(number)

    def _note(self, number, frame):
        if self._noted:
            if number == signal.SIGINT and (self._insisted or time.monotonic() - self._noted_at >= ONE_WISH):
                raise KeyboardInterrupt
            return
        self._noted, self._noted_at = number, time.monotonic()
        if self._alone and not self._held:
            raise Stopped(number)
