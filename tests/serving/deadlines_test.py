"""Deadlines of asyncio code: the one for Python 3.10 behaves as asyncio's own."""

import asyncio
import sys

import pytest

from bert_tf.serving.server import deadlines

PAST, FUTURE = -3600, 3600  # seconds from now
LONG = 60  # seconds that code inside waits for a deadline or for being canceled


@pytest.fixture(params=[deadlines._Timeout, deadlines.timeout_at], ids=["own", "chosen"])
def timeout(request):
    """A function of the seconds from now that returns the context manager."""
    return lambda seconds: request.param(asyncio.get_running_loop().time() + seconds)


async def started(timeout, seconds):
    """Returns a task that waits inside a timeout, and this timeout."""
    entered = asyncio.get_running_loop().create_future()

    async def wait():
        async with timeout(seconds) as limit:
            entered.set_result(limit)
            await asyncio.sleep(LONG)

    task = asyncio.create_task(wait())
    return task, await entered


def test_a_deadline_that_has_passed_raises_timeout_error(timeout):
    async def wait():
        with pytest.raises(asyncio.TimeoutError):
            async with timeout(PAST):
                await asyncio.sleep(LONG)
        await asyncio.sleep(0)  # the task itself goes on

    asyncio.run(wait())


def test_another_task_moves_the_deadline(timeout):
    async def move():
        task, limit = await started(timeout, FUTURE)
        limit.reschedule(asyncio.get_running_loop().time() + PAST)
        with pytest.raises(asyncio.TimeoutError):
            await task

    asyncio.run(move())


def test_a_deadline_that_was_moved_in_time_does_not_expire(timeout):
    async def move():
        async with timeout(PAST) as limit:
            limit.reschedule(asyncio.get_running_loop().time() + FUTURE)
            for _ in range(3):  # each lets the loop run what is due
                await asyncio.sleep(0)
        return "done"

    assert asyncio.run(move()) == "done"


def test_a_cancellation_before_the_deadline_stays_one(timeout):
    async def cancel():
        task, _ = await started(timeout, FUTURE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks of Python 3.10 do not count cancellations")
def test_a_cancellation_after_the_deadline_stays_one(timeout):
    async def cancel():
        expired = asyncio.Event()

        async def wait():
            async with timeout(PAST):
                try:
                    await asyncio.sleep(LONG)
                finally:
                    expired.set()
                    await asyncio.sleep(LONG)

        task = asyncio.create_task(wait())
        await expired.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
