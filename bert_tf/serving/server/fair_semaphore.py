"""Turns: a limited number of threads at a time, the others in order of arrival."""

import collections
import contextlib
import math
import threading
from collections.abc import Iterator

_LOOK_SECONDS = 0.5  # between checks whether a waiting caller is still connected
_SMALL = 2**12  # bytes of a request, or elements of a response, that need not wait for a turn


class FairSemaphore:
    """Limits concurrency; the others wait in order of arrival."""

    def __init__(self, at_a_time: int):
        self._free = at_a_time
        self._waiting: collections.deque[threading.Lock] = collections.deque()  # each held until it is its turn
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return len(self._waiting)

    @contextlib.contextmanager
    def turn(self, call) -> Iterator[None]:
        """Context manager that starts when it is the caller's turn.

        Args:
            call: a `RequestContext`.

        Raises:
            ServingError: the caller gave up before its turn.
        """
        self.take(call)
        try:
            yield
        finally:
            self.give_back()

    def take(self, call):
        """Waits for the caller's turn, which must be released; raises as `turn` does."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Lock()  # a tenth of the cost of an Event
            mine.acquire()
            self._waiting.append(mine)
        try:
            while not mine.acquire(timeout=_seconds_to_look(call)):
                call.check()
        except BaseException:
            with self._lock:
                mine_already = mine not in self._waiting
                if not mine_already:
                    self._waiting.remove(mine)
            if mine_already:
                self.give_back()
            raise

    def give_back(self):
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()  # passes the turn directly to the next one
            else:
                self._free += 1


def _seconds_to_look(call):
    return _LOOK_SECONDS if call.deadline is None else min(_LOOK_SECONDS, call.seconds_left)


_interpreter = FairSemaphore(1)


class InterpreterSlot:
    """Turns for Python's own work: large requests and responses one at a time, small ones at once.

    Python reads and writes a large one in long steps that block all other threads: one does not matter,
    hundreds do. A `size` is the bytes of a request or the elements of a response, of which Python
    processes about as many per second. All methods raise ServingError if the caller of `call` has given up.
    """

    _has_turn = False

    @contextlib.contextmanager
    def begun(self, call, size: int) -> Iterator[None]:
        """Context manager for work on a request of `size`."""
        self.grow(call, size)
        try:
            yield
        finally:
            self._end()

    def grow(self, call, size: float):
        """Waits for the turn of a request or response of `size`."""
        if size > _SMALL and not self._has_turn:
            _interpreter.take(call)
            self._has_turn = True

    @contextlib.contextmanager
    def paused(self, call) -> Iterator[None]:
        """Context manager that lets others have their turn while Python waits in it."""
        had_turn = self._has_turn
        self._end()
        yield
        if had_turn:
            self.grow(call, math.inf)

    def _end(self):
        if self._has_turn:
            self._has_turn = False
            _interpreter.give_back()
