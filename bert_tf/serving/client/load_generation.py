"""Load from callers that wait for each response (closed loop), or at a fixed request rate (open loop).

Waiting callers send fewer requests to a slow server, which hides overload. Real users do not wait: at a fixed rate,
requests are sent at random times drawn in advance (a Poisson process), and latency counts from the time at which
a request was due, even if it was sent later.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import numpy as np

from bert_tf.utils.progress import Countdown

OK = "OK"
_PAUSE = 0.01  # seconds after a failure, so that a caller that is rejected at once does not flood the server
Send = Callable[[int], Awaitable[str]]  # the number of a request -> "OK", or an error code


class RequestTiming(NamedTuple):
    """The outcome of one request.

    Attributes:
        due: when it should have been sent, in seconds from the start.
        late: seconds by which it was sent late: the generator's own delay.
        seconds: from the due time to the response.
        code: "OK", or the error code of gRPC or HTTP.
    """

    due: float
    late: float
    seconds: float
    code: str


async def ask_by_callers(send: Send, callers: int, seconds: float) -> list[RequestTiming]:
    """Runs several callers for `seconds`; each sends its next request as soon as it has its response."""
    samples, begin = [], time.perf_counter()

    async def call(first):
        number = first
        while (due := time.perf_counter() - begin) < seconds:
            code = await send(number)
            samples.append(RequestTiming(due, 0.0, time.perf_counter() - begin - due, code))
            count.advance()
            number += callers
            if code != OK:
                await asyncio.sleep(_PAUSE)

    with Countdown("Asking", "requests") as count:
        await asyncio.gather(*map(call, range(callers)))
    return samples


async def ask_at_rate(send: Send, rate: float, seconds: float, seed: int = 0) -> list[RequestTiming]:
    """Sends requests at random times, `rate` per second on average, for `seconds`, and waits for all responses."""
    samples, tasks, begin = [], set(), time.perf_counter()

    async def call(number, due):
        late = time.perf_counter() - begin - due
        code = await send(number)
        samples.append(RequestTiming(due, late, time.perf_counter() - begin - due, code))
        count.advance()

    times = arrivals(rate, seconds, seed)
    with Countdown("Asking", "requests", len(times)) as count:
        for number, due in enumerate(times):
            await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
            task = asyncio.create_task(call(number, due))
            tasks.add(task)  # the event loop itself does not keep tasks alive
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
    return samples


def arrivals(rate: float, seconds: float, seed: int = 0) -> list[float]:
    """Returns the times, in seconds, of a Poisson process of `rate` per second; the same for the same seed."""
    random, times, now = np.random.default_rng(seed), [], 0.0
    while (now := now + random.exponential(1 / rate)) < seconds:
        times.append(now)
    return times
