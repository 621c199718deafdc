"""Deadlines of asyncio code that can be moved while it runs: asyncio's own, or an equivalent on Python 3.10."""

import asyncio
import sys

_COUNTED = hasattr(asyncio.Task, "uncancel")  # since Python 3.11, a task knows how often it was canceled


class _Timeout:
    """Async context manager that cancels the code inside at a time of the loop's clock.

    Raises asyncio.TimeoutError if it did. If the task was also canceled by others, asyncio.CancelledError remains; on
    Python 3.10, where the two cannot be told apart, this holds only before the deadline. `async_timeout` is no
    substitute: when another task moves its deadline, it cancels that task.
    """

    def __init__(self, when: float):
        self._when, self._expired = when, False

    async def __aenter__(self):
        self._task = asyncio.current_task()
        self._canceled_before = self._task.cancelling() if _COUNTED else 0
        self._schedule(self._when)
        return self

    async def __aexit__(self, kind, error, traceback):
        self._handle.cancel()
        if not self._expired:
            return
        by_others = _COUNTED and self._task.uncancel() > self._canceled_before
        if kind is asyncio.CancelledError and not by_others:
            raise asyncio.TimeoutError from error

    def reschedule(self, when: float):
        """Moves the deadline; if it has passed, the code is canceled at the next opportunity."""
        self._handle.cancel()
        self._schedule(when)

    def _schedule(self, when):
        self._handle = self._task.get_loop().call_at(when, self._expire)

    def _expire(self):
        self._expired = True
        self._task.cancel()


if sys.version_info >= (3, 11):
    Timeout = asyncio.Timeout
    timeout_at = asyncio.timeout_at
else:
    Timeout = timeout_at = _Timeout
