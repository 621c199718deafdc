"""The REST server, over aiohttp: its loop runs in one thread, the computation in a pool of threads."""

import asyncio
import contextlib
import dataclasses
import errno
import functools
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures

from absl import logging
from aiohttp import http_exceptions, web, web_protocol

from bert_tf.serving import addresses
from bert_tf.serving.errors import from_fault
from bert_tf.serving.server import json_responses
from bert_tf.serving.server.deadlines import timeout_at
from bert_tf.serving.server.http_body import BodyMemory, HeldBody, HttpError, encoding_of, gunzip, read_body
from bert_tf.serving.server.http_callers import CallersAllowed
from bert_tf.serving.server.options import ServerOptions
from bert_tf.serving.server.protocols.adapter import BinaryResponse
from bert_tf.serving.server.protocols.kserve_binary import HEADER as BINARY_HEADER
from bert_tf.serving.server.request_context import RequestContext

_IDLE_SECONDS = 120  # a connection is closed after this much silence
# Per request: the future of its response, and what to close after sending it.
_SENDING = web.RequestKey("sending", tuple)
_SENDING_SECONDS = 60  # in which a caller must have read the response
_UNSENT = 2**15  # bytes of responses that a connection buffers without waiting for its caller, with their heads
_DRAIN_SECONDS = 0.5  # during a stop, in which requests on open connections are still accepted
_LATE_SECONDS = 0.25  # by which a response may be late, because the model's own deadline error is more precise
_FULL = "The server is at its limit of {} concurrent requests (`rest_api_num_threads`); try again later"
_LATE = "The server did not respond in time (`rest_api_timeout_in_ms`)"
_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 16  # connections, before open ones get their turn
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # why no connection can be accepted
_SPARED_SECONDS = 5  # that a connection may be idle even while descriptors for new ones are scarce
_JSON = "application/json"
_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": f"Content-Type, Content-Encoding, {BINARY_HEADER}",
    "Access-Control-Expose-Headers": BINARY_HEADER,
}


@dataclasses.dataclass(frozen=True)
class StaticPage:
    """The response to a GET that is not for a model.

    Attributes:
        status: of HTTP.
        data: the body.
        kind: its Content-Type.
        headers: additional headers.
    """

    status: int
    data: bytes
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class RestServer:
    """Hands each request to `answer(method, path, body, call, unpack) -> (status, JSON or BinaryResponse)`, at most one
    per thread.

    GET requests, such as a model's status, have a separate thread, because probes arrive while all others
    are busy.

    Attributes:
        port: its port.
        running: number of predictions in a thread.
    """

    def __init__(
        self,
        answer: Callable,
        pages: Mapping[str, Callable],
        options: ServerOptions,
        count: Callable,
        write_error: Callable,
    ):
        """Binds the port; no request is processed before `start`.

        Args:
            answer: called in a pool thread, like `rest_api.answer`.
            pages: {path: function} for pages without a model, which are served at once.
            options: address and limits.
            count: count(method, path, error) of a request that is rejected before `answer`, an HttpError.
            write_error: write_error(path, HTTP status, message) -> (HTTP status, JSON) of such an error.

        Raises:
            ValueError: the address cannot be bound, or a name in `allowed_hosts` is invalid.
        """
        self._answer, self._pages, self._options = answer, pages, options
        self._count, self._write_error = count, write_error
        cors = options.rest_api_enable_cors_support
        self._callers = CallersAllowed(options.host, options.allowed_hosts, cors)
        self._socket = addresses.listen(options.host, options.rest_api_port, _BACKLOG)
        self.port = self._socket.getsockname()[1]
        self._tls: ssl.SSLContext | None = options.tls and options.tls.context()
        self._pool = futures.ThreadPoolExecutor(options.rest_api_num_threads, "rest")
        self._status_pool = futures.ThreadPoolExecutor(1, "rest status")  # a GET computes nothing, so it never waits
        self.running = 0
        self._bodies = BodyMemory(options.limits)
        self._busy: dict[web_protocol.RequestHandler, int] = {}  # connections with a request in progress
        self._stopping = self._over = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)
        self._started: futures.Future = futures.Future()

    def start(self):
        self._thread.start()
        self._started.result()

    def stop(self, grace: float):
        """Accepts no more connections, finishes requests for up to `grace` seconds, and closes all connections."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(grace), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._socket.close()
        for pool in (self._pool, self._status_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(self._fail)
        try:
            self._loop.run_until_complete(self._listen())
        except BaseException as error:
            self._started.set_exception(error)
            raise
        self._started.set_result(None)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _listen(self):
        self._server = _Connections(self._handle, access_log=None, auto_decompress=False,
                                    keepalive_timeout=_IDLE_SECONDS)  # fmt: skip
        # asyncio's backlog is also how often it tries to accept a connection, and logs errors, in one round.
        self._listener = await self._loop.create_server(
            self._server, sock=self._socket, ssl=self._tls, backlog=_ACCEPTED_AT_ONCE
        )
        self._socket.listen(_BACKLOG)

    def _fail(self, loop, context):
        """Handles errors outside of requests; closes idle connections if no more can be accepted."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
            return
        logging.log_every_n_seconds(logging.WARNING, "Cannot accept more REST connections (%s): closing idle ones.", 10,
                                    error.strerror)  # fmt: skip
        late = loop.time() - _SPARED_SECONDS
        for connection in self._server.connections:
            if connection not in self._busy and connection.idle_since < late:
                connection.force_close()

    async def _end(self, grace):
        end = time.monotonic() + grace
        self._stopping = True  # from now on, each response announces that the connection closes
        self._listener.close()
        await self._until(lambda: not self._server.connections, min(end, time.monotonic() + _DRAIN_SECONDS))
        for connection in self._server.connections:
            if connection not in self._busy:
                connection.close()
        await self._until(lambda: not self._busy, end)
        self._over = True  # results still being computed are discarded
        for connection in self._server.connections:
            connection.force_close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @staticmethod
    async def _until(condition, end):
        while not condition() and time.monotonic() < end:
            await asyncio.sleep(0.01)

    async def _handle(self, request):
        """Handles one request, from its head to the last byte of the response."""
        connection = request.protocol
        self._busy[connection] = self._busy.get(connection, 0) + 1
        try:
            response = await self._respond(request)
            if self._stopping:
                response.force_close()
            buffered = request.transport.get_write_buffer_size() if request.transport is not None else 0
            if buffered + len(response.body) <= _UNSENT:
                await self._send(request, response)
            else:
                async with timeout_at(self._loop.time() + _SENDING_SECONDS):
                    await self._send(request, response)
            return response
        except asyncio.TimeoutError as error:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionError("The caller does not read the response") from error
        finally:
            if _SENDING in request:
                future, until_sent = request[_SENDING]
                future.add_done_callback(lambda _: until_sent.close())  # it may arrive late
            connection.idle_since = self._loop.time()
            self._busy[connection] -= 1
            if not self._busy[connection]:
                del self._busy[connection]

    @staticmethod
    async def _send(request, response):
        await response.prepare(request)
        await response.write_eof()

    async def _respond(self, request):
        """Returns the response: at once if it needs no model, otherwise when a pool thread has computed it."""
        deadline = time.monotonic() + self._options.rest_api_timeout_ms / 1000
        path, held = _path(request), HeldBody(self._bodies)
        method = "GET" if request.method == "HEAD" else request.method  # aiohttp drops the body of its response
        try:
            if reply := self._reply_without_model(request, path):
                return reply
            try:
                body = await read_body(request, self._options.limits, deadline - time.monotonic(), held)
                call, predicts = self._call(request, deadline), method != "GET"
                if predicts and self.running >= self._options.rest_api_num_threads:
                    raise HttpError(503, _FULL.format(self._options.rest_api_num_threads))
                packed = predicts and encoding_of(request) == "gzip"  # the body of a GET is not read
                unpack = functools.partial(gunzip, held=held) if packed else None
                pool = self._pool if predicts else self._status_pool
                future = self._loop.run_in_executor(pool, self._answer, method, path, body, call, unpack)
            except BaseException:
                held.free()
                raise
            del body  # the thread owns it
            request[_SENDING] = future, call.until_sent
            self.running += predicts
            future.add_done_callback(functools.partial(self._end_work, predicts, held))
            await asyncio.wait({future}, timeout=deadline - time.monotonic() + _LATE_SECONDS)
            if not future.done():
                return self._reply_error(path, 504, _LATE)
            status, text = future.result()
            if isinstance(text, BinaryResponse):
                return self._reply(status, text.data, "application/octet-stream", text.headers)
            return self._reply(status, text.encode("utf-8", "replace"), _JSON if text else "text/plain")
        except HttpError as error:
            self._count(method, path, error)
            response = self._reply_error(path, error.status, error.message)
            if error.status != 503 or not request.content.is_eof():
                response.force_close()  # the start of the next request is unknown, or not worth reading for
            return response

    def _reply_without_model(self, request, path):
        """Returns the response to a request that needs no model, or None; raises HttpError if it is not allowed."""
        self._callers.check_host(request)
        if request.method in ("TRACE", "CONNECT"):
            raise HttpError(405, f"The method {request.method} is not allowed")
        if request.method == "OPTIONS" and self._options.rest_api_enable_cors_support:
            return self._reply(200, b"", _JSON)
        if request.method in ("GET", "HEAD") and path in self._pages:
            page = self._pages[path]()
            return self._reply(page.status, page.data, page.kind, page.headers)
        if request.method not in ("GET", "HEAD"):
            self._callers.check_origin(request)
        return None

    def _call(self, request, deadline):
        def is_gone():
            return self._over or request.transport is None

        until_sent = contextlib.ExitStack()
        return RequestContext(
            deadline, is_gone, self._options.limits, "REST", headers=request.headers, until_sent=until_sent
        )

    def _end_work(self, predicts, held, future):
        held.free()
        self.running -= predicts
        if not future.cancelled():
            future.exception()  # a late result may have failed, which is ignored

    def _reply_error(self, path, status, message):
        status, text = self._write_error(path, status, message)
        return self._reply(status, text.encode("utf-8", "replace"), _JSON)

    def _reply(self, status, data, kind, more=None):
        headers = {"Content-Type": kind, "Server": "bert_tf", **(more or {})}
        if self._options.rest_api_enable_cors_support:
            headers |= _CORS
        if status in (429, 503):
            headers["Retry-After"] = "1"
        if status == 405:
            headers["Allow"] = "GET, HEAD, POST"
        return web.Response(status=status, body=data, headers=headers)


class _Connections(web.Server):
    def __call__(self):
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web_protocol.RequestHandler):
    """A connection that also reports errors as JSON.

    Attributes:
        idle_since: when it was opened, or its last request ended, on the loop's clock.
    """

    __slots__ = ("idle_since",)

    def connection_made(self, transport):
        self.idle_since = asyncio.get_running_loop().time()
        super().connection_made(transport)

    def handle_error(self, request, status=500, exc=None, message=None):
        if request.writer.output_size > 0:
            raise ConnectionError("The response has already started")
        if isinstance(exc, http_exceptions.LineTooLong):
            status, message = 431, "The head of the request is too long"
        elif isinstance(exc, http_exceptions.HttpProcessingError):
            message = f"Malformed HTTP: {(message or '').split(chr(10))[0].strip(' :')[:200]}"
        elif exc is not None:
            message = from_fault(exc, "HTTP").message
        response = web.Response(
            status=status,
            body=json_responses.error(message or "The request failed").encode("utf-8", "replace"),
            headers={"Content-Type": _JSON, "Server": "bert_tf"},
        )
        response.force_close()
        return response


def _path(request):
    """Returns the path without its query, still percent-encoded; bytes that are not UTF-8 become U+FFFD."""
    path = request.raw_path.partition("?")[0]
    if not path.startswith("/"):  # a proxy's whole URL
        path = request.rel_url.raw_path
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
