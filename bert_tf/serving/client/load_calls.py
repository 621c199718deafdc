"""The calls of a load test: requests serialized before it starts, and sent over gRPC or REST."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import grpc

from bert_tf.serving.addresses import check_target
from bert_tf.serving.client.call_errors import explain
from bert_tf.serving.client.channel import Tls, open_channel
from bert_tf.serving.client.items import even
from bert_tf.serving.client.load_generation import OK, Send
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
from bert_tf.utils.extras import require_packages

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
    require_packages("`rest`", "aiohttp")
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
        raise ValueError(f"`signature` must be one of {there}; got {signature!r}.")
    return order_of(found[signature])


async def _get(server, path, timeout):
    """Returns (status, the first bytes of the response, one more than allowed)."""
    require_packages("`rest`", "aiohttp")
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
