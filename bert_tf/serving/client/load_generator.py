"""Requests at a pace: from callers who wait for each answer, or at a rate that nothing slows down.

Callers who wait ask less when the server is slow, and so spare it when it should suffer. Users do not: at a rate,
requests come at random times that were drawn before (a Poisson process), and a latency counts from the time at which
its request was due, whether or not it could be sent then.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import numpy as np

from bert_tf.utils.progress import Countdown

OK = "OK"
_PAUSE = 0.01  # seconds after a failure, lest a caller who is refused at once does nothing but ask
Send = Callable[[int], Awaitable[str]]  # the number of a request -> "OK", or what came instead


class Sample(NamedTuple):
    """One request.

    Attributes:
        due: when it should have been sent, in seconds from the start.
        late: seconds after that at which it was sent: the generator's own delay.
        seconds: from the time at which it was due to its answer.
        code: "OK", or gRPC's or HTTP's name for what came instead.
    """

    due: float
    late: float
    seconds: float
    code: str


async def ask_by_callers(send: Send, callers: int, seconds: float) -> list[Sample]:
    """Has so many callers ask, each again as soon as it has its answer, until `seconds` are over."""
    samples, begin = [], time.perf_counter()

    async def call(first):
        number = first
        while (due := time.perf_counter() - begin) < seconds:
            code = await send(number)
            samples.append(Sample(due, 0.0, time.perf_counter() - begin - due, code))
            count.advance()
            number += callers
            if code != OK:
                await asyncio.sleep(_PAUSE)

    with Countdown("Asking", "requests") as count:
        await asyncio.gather(*map(call, range(callers)))
    return samples


async def ask_at_rate(send: Send, rate: float, seconds: float, seed: int = 0) -> list[Sample]:
    """Has requests come at random times, `rate` a second on average, for `seconds`, and waits for all answers."""
    samples, tasks, begin = [], set(), time.perf_counter()

    async def call(number, due):
        late = time.perf_counter() - begin - due
        code = await send(number)
        samples.append(Sample(due, late, time.perf_counter() - begin - due, code))
        count.advance()

    times = arrivals(rate, seconds, seed)
    with Countdown("Asking", "requests", len(times)) as count:
        for number, due in enumerate(times):
            await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
            task = asyncio.create_task(call(number, due))
            tasks.add(task)  # the loop itself keeps no task alive
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
    return samples


def arrivals(rate: float, seconds: float, seed: int = 0) -> list[float]:
    """Returns the times, in seconds, of a Poisson process of `rate` a second; the same for the same seed."""
    random, times, now = np.random.default_rng(seed), [], 0.0
    while (now := now + random.exponential(1 / rate)) < seconds:
        times.append(now)
    return times
