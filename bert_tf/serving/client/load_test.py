"""Load test of a model server: requests at a pace, latencies, report."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np

from bert_tf.serving.addresses import check_target
from bert_tf.serving.client.channel import Tls, open_channel
from bert_tf.serving.client.client_core import even, explain
from bert_tf.serving.client.requests import (
    DEFAULT,
    INITIAL,
    METHODS,
    ModelTarget,
    clean,
    join_names,
    order_of,
    predict_request,
)
from bert_tf.utils.html_report import Page
from bert_tf.utils.json_files import json_text
from bert_tf.utils.progress import Countdown

# === Pace ===
# Requests at a pace: from callers who wait for each answer, or at a rate that nothing slows down.
#
# Callers who wait ask less when the server is slow, and so spare it when it should suffer. Users do not: at a rate,
# requests come at random times that were drawn before (a Poisson process), and a latency counts from the time at which
# its request was due, whether or not it could be sent then.


OK = "OK"
_PAUSE = 0.01  # seconds after a failure, lest a caller who is refused at once does nothing but ask
Send = Callable[[int], Awaitable[str]]  # the number of a request -> "OK", or what came instead


class RequestTiming(NamedTuple):
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


async def ask_by_callers(send: Send, callers: int, seconds: float) -> list[RequestTiming]:
    """Has so many callers ask, each again as soon as it has its answer, until `seconds` are over."""
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
    """Has requests come at random times, `rate` a second on average, for `seconds`, and waits for all answers."""
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


# === Load calls ===
# Requests are bytes that were ready before the test began, sent over gRPC or REST.


_PREDICT = METHODS["Predict"][0]
_LARGEST = 4 * 2**20  # bytes of a model's description


@contextlib.asynccontextmanager
async def over_grpc(
    server: str, target: ModelTarget, bodies: Sequence[bytes], timeout: float, tls: Tls | None = None
) -> AsyncIterator[Send]:
    """Yields what sends one of `bodies`, the next for each number, and returns the code of the answer.

    Args:
        server: "host:port".
        target: the model, for the messages of errors.
        bodies: PredictRequests.
        timeout: seconds for a request.
        tls: as in `Client`.

    Raises:
        ConnectionError: no server is there.
    """
    async with open_channel(server, tls, grpc.aio) as channel:
        stub = channel.unary_unary(_PREDICT)  # neither way is anything read: time goes to the server

        async def send(number):
            try:
                await stub(bodies[number % len(bodies)], timeout=timeout)
            except grpc.RpcError as error:
                return error.code().name
            return OK

        try:
            await stub(bodies[0], timeout=timeout)
        except grpc.RpcError as error:
            raise explain(error, server, target.name, timeout) from error
        yield send


@contextlib.asynccontextmanager
async def over_rest(server: str, target: ModelTarget, bodies: Sequence[bytes], timeout: float) -> AsyncIterator[Send]:
    """Yields what `over_grpc` does, for JSON bodies; codes are "HTTP 503", "no connection", "timeout"."""
    import aiohttp  # here, for nothing else of the client needs it

    check_target(server)
    url = f"http://{server}/v1/models/{target.name}:predict"
    limits = aiohttp.ClientTimeout(total=timeout)
    # An answer may be packed, and as long as the server likes: it is dropped as it comes.
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=limits, auto_decompress=False
    ) as session:

        async def send(number):
            try:
                body = bodies[number % len(bodies)]
                async with session.post(url, data=body, allow_redirects=False) as response:
                    async for _ in response.content.iter_any():
                        pass
                    return OK if response.status == 200 else f"HTTP {response.status}"
            except TimeoutError:
                return "timeout"
            except aiohttp.ClientError:
                return "no connection"

        if (code := await send(0)) != OK:
            raise ValueError(f"http://{server} must answer for model {target.name!r}. Received: {code}; check both.")
        yield send


def grpc_bodies(
    target: ModelTarget, batches: Sequence[Mapping[str, Sequence[Any]]], signature: str = ""
) -> list[bytes]:
    """Returns the bytes of a PredictRequest for each of `batches`, {input: n values}."""
    return [predict_request(target, even(batch)[0], signature).SerializeToString() for batch in batches]


def rest_bodies(batches: Sequence[Mapping[str, Sequence[Any]]], signature: str = "") -> list[bytes]:
    """Returns the same as JSON."""
    return [
        json.dumps({"signature_name": signature or DEFAULT, "inputs": even(batch)[0]}, ensure_ascii=False).encode()
        for batch in batches
    ]


def inputs_over_rest(server: str, name: str, signature: str, timeout: float) -> tuple[str, ...]:
    """Returns the names of a signature's inputs, in the order in which people give them, asked over REST.

    Raises:
        ValueError: there is no such model or signature, `server` is an IPv6 address without brackets, or its answer is
            no model's description.
        ConnectionError: no server answers.
        TimeoutError: it takes longer than `timeout` seconds.
    """
    check_target(server)
    status, data = asyncio.run(_get(server, f"/v1/models/{name}/metadata", timeout))
    if status != 200:
        raise ValueError(f"http://{server} must serve model {name!r}. Received HTTP {status}; check `model_name`.")
    found = _signatures(server, data)
    signature = signature or DEFAULT
    if signature not in found:
        there = join_names(sorted({*found} - {INITIAL}))
        raise ValueError(f"`signature` must be one of {there}. Received: {signature!r}; choose one of them.")
    return order_of(found[signature])


async def _get(server, path, timeout):
    """Returns (status, the first bytes of the answer, one more than are allowed)."""
    import aiohttp

    limits = aiohttp.ClientTimeout(total=timeout)
    headers = {"Accept-Encoding": "identity"}
    try:
        async with (
            aiohttp.ClientSession(timeout=limits, auto_decompress=False) as session,
            session.get(f"http://{server}{path}", headers=headers, allow_redirects=False) as response,
        ):
            data = bytearray()
            while len(data) <= _LARGEST and (part := await response.content.read(_LARGEST + 1 - len(data))):
                data += part
            return response.status, bytes(data)
    except TimeoutError as error:
        raise TimeoutError(
            f"{server} must answer within {timeout:.3g} s. Received no whole answer; allow more with `timeout`."
        ) from error
    except aiohttp.ClientError as error:
        raise ConnectionError(
            f"A model server must answer over HTTP at {server}. Received {type(error).__name__}; is that its port for "
            "REST rather than the one for gRPC, and is it not encrypted?"
        ) from error


def _signatures(server, data):
    """Returns {signature: names of its inputs} of the JSON that describes a model."""
    try:
        if len(data) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes")
        found = json.loads(data)["metadata"]["signature_def"]["signature_def"]
        return {name: tuple(dict(dict(each).get("inputs", {}))) for name, each in dict(found).items()}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = clean(f"{type(error).__name__}: {error}", 100)
        raise ValueError(
            f"http://{server} must describe the model in JSON, as TensorFlow Serving does. Received another answer "
            f"({reason}); is that a model server?"
        ) from error


# === Load report ===
# Throughput, latencies and errors as numbers, as lines and as a page.


PERCENTILES = (50, 90, 95, 99, 99.9)
_CURVE = np.concatenate([np.linspace(0, 90, 91), 100 - np.geomspace(10, 0.01, 60)])  # of the curve of latencies


def summarize(samples: Sequence[RequestTiming], rows: int) -> dict[str, Any]:
    """Returns the numbers of one run as JSON values.

    Args:
        samples: one at least.
        rows: texts, or other examples, of a request.

    Returns:
        `requests`, `answered`, `codes` {code: count}; `seconds` from the first to the last; of what was answered
        `requests_per_second`, `rows_per_second` and `latency_ms` {"p50": ..., "max": ...}; of what was not
        `refusal_ms`, the same; `late_ms`, the delay of the generator itself.
    """
    ends = [sample.due + sample.seconds for sample in samples]
    seconds = max(ends) - min(sample.due for sample in samples)
    answered = [sample.seconds for sample in samples if sample.code == OK]
    refused = [sample.seconds for sample in samples if sample.code != OK]
    return {
        "requests": len(samples),
        "answered": len(answered),
        "codes": dict(sorted(Counter(sample.code for sample in samples).items())),
        "seconds": round(seconds, 3),
        "requests_per_second": round(len(answered) / seconds, 2),
        "rows_per_second": round(len(answered) * rows / seconds, 2),
        "latency_ms": percentiles(answered),
        "refusal_ms": percentiles(refused),
        "late_ms": percentiles([sample.late for sample in samples]),
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Returns {"p50": milliseconds, ..., "max": milliseconds}; {} of nothing."""
    if not seconds:
        return {}
    values = np.percentile(seconds, [*PERCENTILES, 100]) * 1e3
    return dict(zip([*(f"p{percent:g}" for percent in PERCENTILES), "max"], values.round(3).tolist(), strict=True))


def report_lines(name: str, summary: dict[str, Any]) -> list[str]:
    """Returns the summary of a run as lines."""
    lines = [
        f"{name}: {summary['requests_per_second']:.1f} requests/s, {summary['rows_per_second']:.1f} rows/s, "
        f"{summary['answered']} of {summary['requests']} answered in {summary['seconds']:.1f} s"
    ]
    for title, key in (("latency", "latency_ms"), ("refused after", "refusal_ms")):
        if summary[key]:
            lines.append(
                f"  {title}: " + "  ".join(f"{percentile} {value:.1f} ms" for percentile, value in summary[key].items())
            )
    if set(summary["codes"]) != {OK}:
        lines.append("  codes: " + ", ".join(f"{code} {count}" for code, count in summary["codes"].items()))
    if summary["late_ms"].get("p99", 0) > 0.2 * summary["latency_ms"].get("p99", np.inf):
        lines.append(
            f"  The generator itself was late by p99 {summary['late_ms']['p99']:.1f} ms: give it a core of its own."
        )
    return lines


def load_test_json(settings: dict[str, Any], runs: dict[str, Sequence[RequestTiming]], rows: int) -> str:
    """Returns the file of all numbers: what was asked for, and `summarize` of each run by its name."""
    found = {name: summarize(samples, rows) for name, samples in runs.items()}
    return json_text({"settings": settings, "runs": found}, indent=2, ensure_ascii=False) + "\n"


def to_page(settings: dict[str, Any], runs: dict[str, Sequence[RequestTiming]], rows: int) -> str:
    """Returns the same as a page with plots, HTML."""
    page = Page("Load test")
    page.table("Settings", settings.items())
    for name, samples in runs.items():
        found = summarize(samples, rows)
        page.table(name, [
            ("requests/s", f"{found['requests_per_second']:.1f}", f"{found['rows_per_second']:.1f} rows/s"),
            *((f"latency {percentile}", f"{value:.1f} ms") for percentile, value in found["latency_ms"].items()),
            *((f"refused after {percentile}", f"{value:.1f} ms") for percentile, value in found["refusal_ms"].items()),
            *((code, count) for code, count in found["codes"].items()),
        ])  # fmt: skip
    page.figure("Latency by percentile", lambda axes: _draw_curves(axes, runs), 3.0)
    page.figure("Median and 99th percentile per second", lambda axes: _draw_seconds(axes, runs), 3.0)
    return page.html()


def _draw_curves(axes, runs):
    for name, samples in runs.items():
        if answered := [sample.seconds for sample in samples if sample.code == OK]:
            axes.plot(100 / (100 - _CURVE), np.percentile(answered, _CURVE) * 1e3, label=name)
            axes.legend()
    axes.set(xscale="log", xlabel="one request in N takes longer")
    _label(axes.xaxis, (1,))
    axes.set(yscale="log", ylabel="ms")
    _label(axes.yaxis, (1, 2, 5))


def _draw_seconds(axes, runs):
    for name, samples in runs.items():
        each = {}
        for sample in samples:
            if sample.code == OK:
                each.setdefault(int(sample.due), []).append(sample.seconds * 1e3)
        seconds = sorted(each)
        (line,) = axes.plot(seconds, [np.percentile(each[second], 50) for second in seconds], label=name)
        axes.plot(seconds, [np.percentile(each[second], 99) for second in seconds], ":", color=line.get_color())
        axes.legend()
    axes.set(xlabel="seconds")
    axes.set(yscale="log", ylabel="ms")
    _label(axes.yaxis, (1, 2, 5))


def _label(axis, digits):
    """Has a logarithmic axis show plain numbers: powers of ten would be formulas, which a page does not draw."""
    from matplotlib import ticker  # slow to import, and only a page needs it

    axis.set_major_locator(ticker.LogLocator(subs=digits))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(ticker.NullFormatter())
