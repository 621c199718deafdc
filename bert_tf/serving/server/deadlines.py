"""Deadlines of asyncio code that can be moved while it runs: asyncio's own, or an equivalent on Python 3.10."""

import asyncio
import sys

if sys.version_info >= (3, 11):
    from asyncio import Timeout as Timeout
    from asyncio import timeout_at as timeout_at
else:

    class Timeout:
        """Async context manager that cancels the code inside at a time of the loop's clock.

        Raises asyncio.TimeoutError if it did. `async_timeout` is no substitute: when another task moves its
        deadline, it cancels that task.
        """

        def __init__(self, when: float):
            self._when, self._expired = when, False

        async def __aenter__(self):
            self._task = asyncio.current_task()
            self._schedule(self._when)
            return self

        async def __aexit__(self, kind, error, traceback):
            self._handle.cancel()
            if self._expired and kind is asyncio.CancelledError:
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

    timeout_at = Timeout
