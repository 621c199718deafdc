"""Limits of concurrent computation: graph runs in the order of requests, and tokens of all requests."""

import contextlib
import threading
from collections.abc import Iterator

from bert_tf.serving.errors import unavailable
from bert_tf.serving.server.fair_semaphore import FairSemaphore
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.utils import resources

_SHORT_TOKENS = 2**9  # of a run that is always admitted: one sequence
_LARGE_TOKENS = 2**15  # of a run that is too large to run two at a time
_BEGUN = 2  # concurrent requests of several parts
_SMALL_ANSWER = 2**14  # elements of a response that is always sent


class Budget:
    """A budget shared by all requests of a server; a single request may exceed it.

    Args:
        most: the total budget.
        refusal: message for a rejected request, with {held} and {most}.
        small: an amount that is never rejected.

    Attributes:
        held: the amount currently in use.
    """

    def __init__(self, most: int, refusal: str, small: int = -1):
        self.most, self.held = most, 0
        self._refusal, self._small, self._lock = refusal, small, threading.Lock()

    @contextlib.contextmanager
    def take(self, amount: int) -> Iterator[None]:
        """Context manager that holds an amount of the budget.

        Raises:
            ServingError: the budget is exhausted, and the request must be retried later.
        """
        with self._lock:
            if amount > self._small and self.held and self.held + amount > self.most:
                raise unavailable(self._refusal.format(held=self.held, most=self.most))
            self.held += amount
        try:
            yield
        finally:
            with self._lock:
                self.held -= amount


class Scheduler:
    """Scheduler of a server's requests, across all of its models.

    Args:
        max_concurrent_runs: concurrent graph runs; 0 for two per core.
        max_pending_tokens: tokens tokens of all running and waiting requests.
        max_pending_elements: elements of all responses being written and sent.

    Attributes:
        requests: token budget of running and waiting requests.
        answers: element budget of responses in memory.
    """

    def __init__(
        self, max_concurrent_runs: int = 0, max_pending_tokens: int = 2**20, max_pending_elements: int = 2**26
    ):
        runs = max_concurrent_runs or 2 * resources.cores()
        self._runs, self._long, self._large = FairSemaphore(runs), FairSemaphore(max(1, runs - 1)), FairSemaphore(1)
        self._in_parts = FairSemaphore(_BEGUN)
        self.requests = Budget(
            max_pending_tokens,
            "The server has requests of {held} tokens in progress and accepts {most} at a time "
            "(`max_pending_tokens`); try again later",
        )
        self.answers = Budget(
            max_pending_elements,
            "The server is sending responses of {held} elements and buffers at most {most} at a time (4 times "
            "`max_output_elements`); try again later",
            _SMALL_ANSWER,
        )

    def begun(self, call: RequestContext) -> contextlib.AbstractContextManager[None]:
        """Returns a context for a request of several parts: two at a time, so that the first ones finish soon.

        Raises:
            ServingError: as `turn`.
        """
        return self._in_parts.turn(call)

    @contextlib.contextmanager
    def turn(self, call: RequestContext, tokens: float) -> Iterator[None]:
        """Context manager for a graph run of about this many tokens.

        One turn is reserved for short runs, which only wait for each other. Large ones run one at a time.

        Raises:
            ServingError: the caller gave up before its turn.
        """
        with contextlib.ExitStack() as turns:
            if tokens > _LARGE_TOKENS:
                turns.enter_context(self._large.turn(call))
            if tokens > _SHORT_TOKENS:
                turns.enter_context(self._long.turn(call))
            turns.enter_context(self._runs.turn(call))
            yield
