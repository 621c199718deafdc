"""How far a long piece of work has come: rate and time left, a line in the log now and then."""

import contextlib
import time

from absl import logging

_EVERY = 10  # seconds between two lines


def clock(seconds: float) -> str:
    """Returns 75.2 as "1:15" and 3675 as "1:01:15"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Stopwatch:
    """Measures work without its pauses; it runs as soon as it is made.

    Attributes:
        paused: seconds of all pauses so far.
    """

    def __init__(self):
        self.paused = 0.0
        self._begin = time.perf_counter()

    def seconds(self) -> float:
        """Returns the seconds of work so far, pauses left out. Not to be called in a pause."""
        return time.perf_counter() - self._begin - self.paused

    @contextlib.contextmanager
    def pause(self, after=None):
        """Lets the seconds of a `with` block not count.

        Args:
            after: a number that a device may still compute, as part of the work: it is waited for; None: nothing is.
        """
        if after is not None:
            float(after)
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.paused += time.perf_counter() - begin


class Countdown:
    """Counts what is done and logs it every ten seconds, and once more at the end of its `with` block.

    Args:
        doing: what the line begins with, such as "Tokenizing".
        unit: what is counted, such as "MB".
        total: how much there is, where that is known.
    """

    def __init__(self, doing: str, unit: str, total: float | None = None):
        self._doing, self._unit, self._total = doing, unit, total
        self._amount = 0.0
        self._begin = self._line_time = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        if kind is None:
            seconds = time.monotonic() - self._begin
            logging.info("%s: %s %s in %s.", self._doing, f"{self._amount:,.0f}", self._unit, clock(seconds))

    def advance(self, amount: float = 1.0):
        """Adds to what is done."""
        self._amount += amount
        now = time.monotonic()
        if now - self._line_time >= _EVERY:
            self._line_time = now
            rate = self._amount / (now - self._begin)
            of = left = ""
            if self._total:
                of = f" of {self._total:,.0f}"
                left = f", {clock(max(0.0, self._total - self._amount) / rate)} left" if rate else ""
            logging.info("%s: %s%s %s, %.3g/s%s", self._doing, f"{self._amount:,.0f}", of, self._unit, rate, left)
