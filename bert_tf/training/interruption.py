"""An orderly end: after SIGTERM or Ctrl-C the running step is finished, and the loop saves and stops."""

import contextlib
import signal
import threading

from bert_tf.training import cluster

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(SystemExit):
    """A run that was asked to stop: ends the program with status 128 + the signal's number, as shells count.

    Attributes:
        signal: the `signal.Signals`.
    """

    def __init__(self, number: int):
        super().__init__(128 + number)
        self.signal = signal.Signals(number)


class Interruption:
    """While it is entered, SIGTERM and Ctrl-C end the block by `Stopped`, but never in the midst of a `held` part.

    Of several workers none can leave alone, for the others would wait for it: there a signal is only noted, and `check`
    makes all of them stop at one step, whichever got it. A second Ctrl-C ends the program at once, without a save;
    a second SIGTERM does nothing, since those who send it often send two.

    In a thread that is not the main one Python knows no signals, and nothing happens.
    """

    def __init__(self):
        self._alone = cluster.num_workers() == 1
        self._noted = self._held = 0
        self._before = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def held(self):
        """Holds a signal back to the end of this block: in it the variables or the checkpoint are half changed."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def check(self):
        """Raises `Stopped` where a signal came, here or at any worker; all must call it at the same step."""
        came = cluster.total([self._noted == number for number in _SIGNALS])
        for number, count in zip(_SIGNALS, came, strict=True):
            if count:
                raise Stopped(number)

    def _note(self, number, frame):
        if self._noted:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self._noted = number
        if self._alone and not self._held:
            raise Stopped(number)
