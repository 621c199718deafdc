"""How much is computed at a time: graphs that run side by side, in the order in which they came, and tokens in all."""

import collections
import contextlib
import threading
from collections.abc import Iterator

from bert_tf import processor
from bert_tf.serving.call import Call
from bert_tf.serving.errors import unavailable

_LOOK_SECONDS = 0.5  # after which a request that waits is looked at: is its caller still there?
_SHORT_TOKENS = 2**11  # of a run for which there is always room
_LARGE_TOKENS = 2**15  # of a run that takes so much memory that two are not computed side by side
_SMALL_ANSWER = 2**14  # elements of an answer that is always sent


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
    def turn(self, call: Call) -> Iterator[None]:
        """A block that begins when it is the caller's turn.

        Raises:
            ServingError: before that, nobody waits for the answer any more.
        """
        self._take(call)
        try:
            yield
        finally:
            self._give_back()

    def _take(self, call):
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
                self._give_back()
            raise

    def _give_back(self):
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()  # the turn goes on to the next, and never back in between
            else:
                self._free += 1


class Workload:
    """What a server computes, for all of its models together.

    Args:
        max_concurrent_runs: runs of a graph at a time; 0: two for each core.
        max_pending_tokens: tokens of all requests that run or wait; a single request may have more.
        max_pending_elements: of all answers that are written and sent; a single answer may have more.
    """

    def __init__(
        self, max_concurrent_runs: int = 0, max_pending_tokens: int = 2**20, max_pending_elements: int = 2**26
    ):
        runs = max_concurrent_runs or 2 * processor.cores()
        self._runs, self._long, self._large = Turns(runs), Turns(max(1, runs - 1)), Turns(1)
        self._most_tokens, self._most_elements = max_pending_tokens, max_pending_elements
        self._tokens = self._elements = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def admitted(self, tokens: int) -> Iterator[None]:
        """A block in which a request of `tokens` runs or waits.

        Raises:
            ServingError: the others have so many that this one must come again later.
        """
        with self._lock:
            if self._tokens and self._tokens + tokens > self._most_tokens:
                raise unavailable(
                    f"The server has requests of {self._tokens} tokens to answer, and takes {self._most_tokens} at a "
                    "time; try again later"
                )
            self._tokens += tokens
        try:
            yield
        finally:
            with self._lock:
                self._tokens -= tokens

    @contextlib.contextmanager
    def answer(self, elements: int) -> Iterator[None]:
        """A block in which an answer of so many elements is in memory.

        Raises:
            ServingError: the others have so many that this one must be asked for again later.
        """
        with self._lock:
            if elements > _SMALL_ANSWER and self._elements and self._elements + elements > self._most_elements:
                raise unavailable(
                    f"The server is sending answers of {self._elements} elements, and holds {self._most_elements} at a "
                    "time; try again later"
                )
            self._elements += elements
        try:
            yield
        finally:
            with self._lock:
                self._elements -= elements

    @contextlib.contextmanager
    def turn(self, call: Call, tokens: float) -> Iterator[None]:
        """A block in which a graph computes about so many tokens.

        One of the places is kept for short runs, which wait for each other alone. Of large ones one runs at a time.

        Raises:
            ServingError: before it is the caller's turn, nobody waits for the answer any more.
        """
        with contextlib.ExitStack() as turns:
            if tokens > _LARGE_TOKENS:
                turns.enter_context(self._large.turn(call))
            if tokens > _SHORT_TOKENS:
                turns.enter_context(self._long.turn(call))
            turns.enter_context(self._runs.turn(call))
            yield
