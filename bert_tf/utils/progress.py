"""Progress of long work: rate and time left, logged periodically or shown as a progress bar."""

import atexit
import contextlib
import logging as standard_logging
import os
import shutil
import sys
import time
from collections.abc import Callable

from absl import logging

_EVERY = 10  # seconds between two lines
_REDRAW = 0.2  # seconds in which a bar stays as it is, at least
_WIDTH = 24
_ERASE = "\r\x1b[K"  # to the begin of the line, and what is in it away
_on_terminal = _drawn = False


def clock(seconds: float) -> str:
    """Formats seconds: 75.2 as "1:15" and 3675 as "1:01:15"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Stopwatch:
    """Measures working time without pauses; it starts when created.

    Attributes:
        paused: seconds of all pauses so far.
    """

    def __init__(self):
        self.paused = 0.0
        self._begin = time.perf_counter()

    def seconds(self) -> float:
        """Returns the seconds of work so far, without pauses. Must not be called during a pause."""
        return time.perf_counter() - self._begin - self.paused

    @contextlib.contextmanager
    def pause(self, after=None):
        """Excludes the time of a `with` block.

        Args:
            after: a value that a device may still be computing, which is waited for first. If None, nothing is.
        """
        if after is not None:
            float(after)
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.paused += time.perf_counter() - begin


def use_bars(in_notebook: bool = False):
    """Shows progress bars if the log goes to a terminal or a notebook; each log line must then begin with `erased`."""
    global _on_terminal
    is_terminal = bool(sys.stderr and sys.stderr.isatty()) and os.environ.get("TERM", "dumb") != "dumb"
    _on_terminal = is_terminal or in_notebook
    if _on_terminal:
        atexit.register(_erase)


def erased() -> str:
    """Returns the characters to write before other output, which erase the bar until it is drawn again."""
    global _drawn
    was, _drawn = _drawn, False
    return _ERASE if was else ""


class LogFormatter(standard_logging.Formatter):
    """Puts the time before each message of the log, and removes the progress bar before it.

    Args:
        wording: returns a message as it is to be written.
    """

    def __init__(self, wording: Callable[[str], str] = str):
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._wording = wording

    def format(self, record):
        return erased() + self._wording(super().format(record))


class ProgressBar:
    """A progress bar at the bottom of a terminal.

    Attributes:
        is_shown: whether there is a terminal; otherwise nothing is drawn.
    """

    def __init__(self):
        self.is_shown, self._next = _on_terminal, 0.0

    def draw(self, share: float | None, text: str):
        """Draws the bar, unless it was drawn just now.

        Args:
            share: the fraction of the work that is done. If None, it is unknown.
            text: text after the bar, truncated at the edge.
        """
        global _drawn
        now = time.monotonic()
        if not self.is_shown or now < self._next:
            return
        self._next = now + _REDRAW
        full = round(_WIDTH * min(1.0, share or 0.0))
        bar = "" if share is None else f"[{'#' * full}{'.' * (_WIDTH - full)}] "
        sys.stderr.write(f"{_ERASE}{bar}{text}"[: len(_ERASE) + shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()
        _drawn = True


def _erase():
    """Leaves a clean line for the next output."""
    if text := erased():
        sys.stderr.write(text)
        sys.stderr.flush()


class Countdown:
    """Counts progress and logs it every ten seconds, and again at the end of its `with` block.

    On a terminal, it is shown as a bar, and only the end is logged; see `use_bars`.

    Args:
        doing: the beginning of the line, such as "Tokenizing".
        unit: the unit, such as "MB".
        total: the total amount, if known.
    """

    def __init__(self, doing: str, unit: str, total: float | None = None):
        self._doing, self._unit, self._total = doing, unit, total
        self._amount, self._bar = 0.0, ProgressBar()
        self._begin = self._line_time = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        _erase()
        if kind is None:
            seconds = time.monotonic() - self._begin
            unit = self._unit.removesuffix("s") if self._amount == 1 else self._unit
            logging.info("%s: %s %s in %s.", self._doing, f"{self._amount:,.0f}", unit, clock(seconds))

    def advance(self, amount: float = 1.0):
        """Adds to the amount done."""
        self._amount += amount
        now = time.monotonic()
        if now - self._line_time >= (_REDRAW if self._bar.is_shown else _EVERY):
            self._line_time = now
            line = self._line(self._amount / (now - self._begin))
            if self._bar.is_shown:
                self._bar.draw(self._amount / self._total if self._total else None, line)
            else:
                logging.info("%s", line)

    def _line(self, rate):
        of = left = ""
        if self._total:
            of = f" of {self._total:,.0f}"
            left = f", {clock(max(0.0, self._total - self._amount) / rate)} left" if rate else ""
        return f"{self._doing}: {self._amount:,.0f}{of} {self._unit}, {rate:.3g}/s{left}"
