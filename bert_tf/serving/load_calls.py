"""How the requests of a load test are made and sent, over gRPC or REST: as bytes that were ready before it began."""

import contextlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import grpc

from bert_tf.serving.addresses import check_target
from bert_tf.serving.client_channel import Tls, open_channel
from bert_tf.serving.client_errors import explain
from bert_tf.serving.client_items import even
from bert_tf.serving.client_requests import DEFAULT, INITIAL, METHODS, Target, order_of, predict_request
from bert_tf.serving.load_generator import OK, Send

_PREDICT = METHODS["Predict"][0]


@contextlib.asynccontextmanager
async def over_grpc(
    server: str, target: Target, bodies: Sequence[bytes], timeout: float, tls: Tls | None = None
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
async def over_rest(
    server: str, target: Target, bodies: Sequence[bytes], timeout: float
) -> AsyncIterator[Send]:
    """Yields what `over_grpc` does, for JSON bodies; codes are "HTTP 503", "no connection", "timeout"."""
    import aiohttp  # here, for nothing else of the client needs it

    check_target(server)
    url = f"http://{server}/v1/models/{target.name}:predict"
    limits = aiohttp.ClientTimeout(total=timeout)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limits) as session:

        async def send(number):
            try:
                async with session.post(url, data=bodies[number % len(bodies)]) as response:
                    await response.read()
                    return OK if response.status == 200 else f"HTTP {response.status}"
            except TimeoutError:
                return "timeout"
            except aiohttp.ClientError:
                return "no connection"

        if (code := await send(0)) != OK:
            raise ValueError(f"http://{server} must answer for model {target.name!r}. Received: {code}; check both.")
        yield send


def grpc_bodies(target: Target, batches: Sequence[Mapping[str, Sequence[Any]]], signature: str = "") -> list[bytes]:
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
        ValueError: there is no such model or signature, or `server` is an IPv6 address without brackets.
        OSError: no server answers.
    """
    check_target(server)
    try:
        with urllib.request.urlopen(f"http://{server}/v1/models/{name}/metadata", timeout=timeout) as response:
            found = json.loads(response.read())["metadata"]["signature_def"]["signature_def"]
    except urllib.error.HTTPError as error:
        raise ValueError(
            f"http://{server} must serve model {name!r}. Received HTTP {error.code}; check `model_name`."
        ) from error
    except http.client.HTTPException as error:
        raise ConnectionError(
            f"A model server must answer over HTTP at {server}. Received {type(error).__name__}; is that its port for "
            "REST rather than the one for gRPC, and is it not encrypted?"
        ) from error
    signature = signature or DEFAULT
    if signature not in found:
        there = ", ".join(sorted({*found} - {INITIAL}))
        raise ValueError(f"`signature` must be one of {there}. Received: {signature!r}; choose one of them.")
    return order_of(found[signature]["inputs"])
