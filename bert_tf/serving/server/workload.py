"""How much is computed at a time: graphs that run side by side, in the order in which they came, and tokens in all."""

import contextlib
import threading
from collections.abc import Iterator

from bert_tf.serving.errors import unavailable
from bert_tf.serving.server.call import Call
from bert_tf.serving.server.turns import Turns
from bert_tf.utils import processor

_SHORT_TOKENS = 2**9  # of a run for which there is always room: a sequence
_LARGE_TOKENS = 2**15  # of a run that takes so much memory that two are not computed side by side
_BEGUN = 2  # requests of several parts that run at a time
_SMALL_ANSWER = 2**14  # elements of an answer that is always sent


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
        self._in_parts = Turns(_BEGUN)
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

    def begun(self, call: Call) -> contextlib.AbstractContextManager[None]:
        """Returns a block in which a request of several parts runs: two at a time, so that the first are soon answered.

        Raises:
            ServingError: as `turn`.
        """
        return self._in_parts.turn(call)

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
