"""Load test of a model server: load generation, latencies, report."""

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

# === Load ===
# Load from callers that wait for each response (closed loop), or at a fixed request rate (open loop).
#
# Waiting callers send fewer requests to a slow server, which hides overload. Real users do not wait: at a fixed rate,
# requests are sent at random times drawn in advance (a Poisson process), and latency counts from the time at which
# a request was due, even if it was sent later.


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


# === Load calls ===
# Requests are serialized before the test starts, and sent over gRPC or REST.


_PREDICT = METHODS["Predict"][0]
_LARGEST = 4 * 2**20  # bytes of a model's description


@contextlib.asynccontextmanager
async def over_grpc(
    server: str, target: ModelTarget, bodies: Sequence[bytes], timeout: float, tls: Tls | None = None
) -> AsyncIterator[Send]:
    """Yields a function that sends one of `bodies`, in turn by number, and returns the code of the response.

    Args:
        server: "host:port".
        target: the model, for error messages.
        bodies: PredictRequests.
        timeout: seconds per request.
        tls: as in `Client`.

    Raises:
        ConnectionError: no server responds.
    """
    async with open_channel(server, tls, grpc.aio) as channel:
        stub = channel.unary_unary(_PREDICT)  # messages are not parsed, so that the time goes to the server

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
    """Same as `over_grpc`, for JSON bodies; codes are "HTTP 503", "no connection", "timeout"."""
    import aiohttp  # here, because nothing else in the client needs it

    check_target(server)
    url = f"http://{server}/v1/models/{target.name}:predict"
    limits = aiohttp.ClientTimeout(total=timeout)
    # A response may be compressed and of any length, so it is discarded as it arrives.
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
            except asyncio.TimeoutError:
                return "timeout"
            except aiohttp.ClientError:
                return "no connection"

        if (code := await send(0)) != OK:
            raise ValueError(f"http://{server} did not respond for model {target.name!r}: {code}. Check both.")
        yield send


def grpc_bodies(
    target: ModelTarget, batches: Sequence[Mapping[str, Sequence[Any]]], signature: str = ""
) -> list[bytes]:
    """Returns the bytes of a PredictRequest for each of `batches`, {input: n values}."""
    return [predict_request(target, even(batch)[0], signature).SerializeToString() for batch in batches]


def rest_bodies(batches: Sequence[Mapping[str, Sequence[Any]]], signature: str = "") -> list[bytes]:
    """Returns the bytes of JSON requests for each of `batches`."""
    return [
        json.dumps({"signature_name": signature or DEFAULT, "inputs": even(batch)[0]}, ensure_ascii=False).encode()
        for batch in batches
    ]


def inputs_over_rest(server: str, name: str, signature: str, timeout: float) -> tuple[str, ...]:
    """Returns the names of a signature's inputs, in their customary order, queried over REST.

    Raises:
        ValueError: there is no such model or signature, `server` is an IPv6 address without brackets, or its response
            does not describe a model.
        ConnectionError: no server responds.
        TimeoutError: it takes longer than `timeout` seconds.
    """
    check_target(server)
    status, data = asyncio.run(_get(server, f"/v1/models/{name}/metadata", timeout))
    if status != 200:
        raise ValueError(f"http://{server} does not serve model {name!r}: HTTP {status}. Check `model_name`.")
    found = _signatures(server, data)
    signature = signature or DEFAULT
    if signature not in found:
        there = join_names(sorted({*found} - {INITIAL}))
        raise ValueError(f"`signature` must be one of {there}. Got {signature!r}.")
    return order_of(found[signature])


async def _get(server, path, timeout):
    """Returns (status, the first bytes of the response, one more than allowed)."""
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
    except asyncio.TimeoutError as error:
        raise TimeoutError(
            f"{server} did not respond completely within {timeout:.3g} s. Increase `timeout`."
        ) from error
    except aiohttp.ClientError as error:
        raise ConnectionError(
            f"No model server responded over HTTP at {server}: {type(error).__name__}. Check that this is its port for "
            "REST rather than for gRPC, and that it is not encrypted."
        ) from error


def _signatures(server, data):
    """Returns {signature: names of its inputs} from the JSON description of a model."""
    try:
        if len(data) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes")
        found = json.loads(data)["metadata"]["signature_def"]["signature_def"]
        return {name: tuple(dict(dict(each).get("inputs", {}))) for name, each in dict(found).items()}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = clean(f"{type(error).__name__}: {error}", 100)
        raise ValueError(
            f"http://{server} did not describe the model in JSON as TensorFlow Serving does "
            f"({reason}). Check that it is a model server."
        ) from error


# === Load report ===
# Throughput, latencies and errors as numbers, text and HTML page.


PERCENTILES = (50, 90, 95, 99, 99.9)
_CURVE = np.concatenate([np.linspace(0, 90, 91), 100 - np.geomspace(10, 0.01, 60)])  # percentiles of the latency curve


def summarize(samples: Sequence[RequestTiming], rows: int) -> dict[str, Any]:
    """Summarizes one run as JSON values.

    Args:
        samples: at least one.
        rows: examples per request.

    Returns:
        `requests`, `answered`, `codes` {code: count}; `seconds` from the first to the last; for successful requests,
        `requests_per_second`, `rows_per_second` and `latency_ms` {"p50": ..., "max": ...}; for failed ones,
        `refusal_ms`, the same; `late_ms`, the generator's own delay.
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
    """Returns {"p50": milliseconds, ..., "max": milliseconds}; {} for no values."""
    if not seconds:
        return {}
    values = np.percentile(seconds, [*PERCENTILES, 100]) * 1e3
    return dict(zip([*(f"p{percent:g}" for percent in PERCENTILES), "max"], values.round(3).tolist(), strict=True))


def report_lines(name: str, summary: dict[str, Any]) -> list[str]:
    """Formats the summary of a run as text lines."""
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
            f"  The generator itself was late by p99 {summary['late_ms']['p99']:.1f} ms: give it its own core."
        )
    return lines


def load_test_json(settings: dict[str, Any], runs: dict[str, Sequence[RequestTiming]], rows: int) -> str:
    """Returns the results file: the settings, and `summarize` of each run by name."""
    found = {name: summarize(samples, rows) for name, samples in runs.items()}
    return json_text({"settings": settings, "runs": found}, indent=2, ensure_ascii=False) + "\n"


def to_page(settings: dict[str, Any], runs: dict[str, Sequence[RequestTiming]], rows: int) -> str:
    """Returns the results as an HTML page with plots."""
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
    """Shows plain numbers on a logarithmic axis, because a page cannot draw powers of ten, which are formulas."""
    from matplotlib import ticker  # slow to import, and only a page needs it

    axis.set_major_locator(ticker.LogLocator(subs=digits))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(ticker.NullFormatter())
