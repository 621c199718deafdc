"""Turns: so many threads at a time, the others in the order in which they came."""

import collections
import contextlib
import math
import threading
from collections.abc import Iterator

_LOOK_SECONDS = 0.5  # after which a request that waits is looked at: is its caller still there?
_SMALL = 2**12  # bytes of a request or an answer that waits for no turn


class Turns:
    """So many at a time; the others wait in the order in which they came."""

    def __init__(self, at_a_time: int):
        self._free = at_a_time
        self._waiting: collections.deque[threading.Event] = collections.deque()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @contextlib.contextmanager
    def turn(self, call) -> Iterator[None]:
        """A block that begins when it is the caller's turn.

        Args:
            call: a `Call`.

        Raises:
            ServingError: before that, nobody waits for the answer any more.
        """
        self.take(call)
        try:
            yield
        finally:
            self.give_back()

    def take(self, call):
        """Returns when it is the caller's turn, who must give it back; raises as `turn` does."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        try:
            while not mine.wait(_LOOK_SECONDS if call.deadline is None else min(_LOOK_SECONDS, call.seconds_left)):
                call.check()
        except BaseException:
            with self._lock:
                mine_already = mine.is_set()
                if not mine_already:
                    self._waiting.remove(mine)
            if mine_already:
                self.give_back()
            raise

    def give_back(self):
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # the turn goes on to the next, and never back in between
            else:
                self._free += 1


_interpreter = Turns(1)


class Work:
    """What Python does for a request: of large ones, for one at a time; of small ones at once.

    Python reads and writes a large one in steps that last, in which no other thread moves: one of them is not felt,
    hundreds are. All methods raise ServingError where nobody waits for the answer of `call` any more.
    """

    def __init__(self):
        self._has_turn = False

    @contextlib.contextmanager
    def begun(self, call, size: int) -> Iterator[None]:
        """A block in which a request of `size` bytes is worked at."""
        self.grow(call, size)
        try:
            yield
        finally:
            self._end()

    def grow(self, call, size: float):
        """Goes on when it is the turn of a request that has, or is answered with, `size` bytes."""
        if size > _SMALL and not self._has_turn:
            _interpreter.take(call)
            self._has_turn = True

    @contextlib.contextmanager
    def paused(self, call) -> Iterator[None]:
        """A block in which others may have their turn: Python waits in it. After an error little is left to do."""
        had_turn = self._has_turn
        self._end()
        yield
        if had_turn:
            self.grow(call, math.inf)

    def _end(self):
        if self._has_turn:
            self._has_turn = False
            _interpreter.give_back()
