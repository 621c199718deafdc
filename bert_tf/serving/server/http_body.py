"""Bodies of HTTP requests, read and decompressed within limits of size, time and memory."""

import asyncio
import contextlib
import dataclasses
import threading
import zlib
from collections.abc import Callable, Iterator

import grpc
from aiohttp import http_exceptions, web

from bert_tf.serving.limits import Limits
from bert_tf.serving.server.deadlines import Timeout, timeout_at
from bert_tf.serving.server.request_context import RequestContext

_PACKED_PIECE = 2**16  # bytes passed to zlib at a time, because it copies the rest of them for each member
_PIECE = 2**20  # bytes decompressed at a time
_MEMBERS = 4096  # gzip members per body: each costs as much as thousands of bytes
_SLOW_SECONDS = 5  # that a large body may take while others wait for memory
_SILENT_SECONDS = 10  # in which more of a body must arrive
_GZIP = 16 + zlib.MAX_WBITS
_SMALL = 2**18  # bytes up to which a body counts as small
_LARGE_BODIES = 4  # of the largest size, in memory at once; the small ones may use the space of one more
_SMALL_BODIES = 4  # of their largest size, at least, even if the largest body is small

_CODES = {
    403: grpc.StatusCode.PERMISSION_DENIED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
}


class HttpError(Exception):
    """Error for a request that is rejected before its body is parsed.

    Attributes:
        status: of HTTP.
        message: for the caller.
        code: the canonical code under which metrics count it.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = _CODES.get(status, grpc.StatusCode.INVALID_ARGUMENT)


class BodyMemory:
    """Memory accounting for bodies, in two accounts so that large bodies never block small ones.

    A body is large once it exceeds 256 KiB, counting compressed and decompressed bytes.
    """

    def __init__(self, limits: Limits):
        self._coming: dict[HeldBody, tuple[float, Timeout]] = {}  # since when; used only by the event loop
        self._lock = threading.Lock()
        self._held = {"small": 0, "large": 0}
        most = limits.max_body_bytes
        self._most = {"small": max(most, _SMALL_BODIES * _SMALL), "large": _LARGE_BODIES * most}

    def resize(self, before: int, after: int):
        """Accounts for a body that had `before` bytes and has `after`, which is 0 once it is freed.

        Raises:
            HttpError: 503, there is not enough memory for it; nothing has changed.
        """
        old, new = _account(before), _account(after)
        with self._lock:
            held = self._held[new] + after - (before if new == old else 0)
            if after > before and held > self._most[new]:
                times = "4 times `max_body_bytes`"
                raise HttpError(503, f"The server is at its limit of body memory ({times}); try again later")
            self._held[old] -= before
            self._held[new] = held

    @contextlib.contextmanager
    def receiving(self, held: "HeldBody", limit: Timeout, now: Callable[[], float]) -> Iterator[None]:
        """Context manager for receiving a body.

        If there is no memory for it, it is rejected, and the large body that has been arriving for longest is ended, if
        that is a while: so the next one fits, and slow senders do not block others for long.

        Args:
            held: the body's share.
            limit: its deadline, which can be moved to end it.
            now: the clock of `limit`.
        """
        self._coming[held] = (now(), limit)
        try:
            yield
        except HttpError as error:
            if error.status == 503:
                self._end_longest(now())
            raise
        finally:
            del self._coming[held]

    def _end_longest(self, now):
        for held, (since, limit) in self._coming.items():
            if _account(held.size) == "large":
                if since < now - _SLOW_SECONDS:
                    limit.reschedule(now)
                return


@dataclasses.dataclass(eq=False)
class HeldBody:
    """One body's share of a `BodyMemory`.

    Attributes:
        memory: the `BodyMemory`.
        size: bytes accounted for.
    """

    memory: BodyMemory
    size: int = 0

    def grow(self, size: int):
        """Accounts for `size` more bytes; raises HttpError if they do not fit."""
        self.memory.resize(self.size, self.size + size)
        self.size += size

    def free(self):
        self.memory.resize(self.size, 0)
        self.size = 0


def _account(size):
    return "small" if size <= _SMALL else "large"


async def read_body(request: web.BaseRequest, limits: Limits, seconds: float, held: HeldBody) -> bytes:
    """Reads the body as it was sent.

    Args:
        request: its head.
        limits: limits of a request.
        seconds: in which the whole body must arrive.
        held: the body's share of memory; accounts for each part before the next is read.

    Raises:
        HttpError: 400, 408, 413, 415, 501 or 503.
    """
    _check_head(request, limits)
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the response itself has not started
    if request.content.is_eof() and not request.content.exception():  # as of most small bodies, all has arrived
        whole = request.content.read_nowait()
        _check_size(len(whole), limits)
        held.grow(len(whole))
        return whole
    body = bytearray()
    try:
        now = asyncio.get_running_loop().time
        end = now() + seconds
        async with timeout_at(min(end, now() + _SILENT_SECONDS)) as limit:
            with held.memory.receiving(held, limit, now):
                while part := await request.content.readany():
                    limit.reschedule(min(end, now() + _SILENT_SECONDS))
                    _check_size(len(body) + len(part), limits)
                    held.grow(len(part))
                    body += part
    except asyncio.TimeoutError as error:
        raise HttpError(408, "The body did not arrive in time") from error
    except (web.RequestPayloadError, http_exceptions.HttpProcessingError, OSError) as error:
        raise HttpError(400, "The body is not valid HTTP, or ends too early") from error
    return bytes(body)


def gunzip(body: bytes, call: RequestContext, held: HeldBody) -> bytes:
    """Decompresses a gzip body, in time proportional to its compressed and decompressed size.

    Args:
        body: the body as it was sent.
        call: its caller, who may disconnect or time out, and its limits.
        held: the body's share of memory; accounts for each decompressed part.

    Raises:
        HttpError: 400 for data that is not gzip or has too many members, 413 for exceeding the limit, 503.
        ServingError: the caller no longer waits.
    """
    parts, size, position, members = [], 0, 0, 0
    view = memoryview(body)
    try:
        while position < len(body):  # several consecutive members form one body
            if members == _MEMBERS:
                raise HttpError(400, f"The gzip body may have at most {_MEMBERS} members and has more")
            member, members = zlib.decompressobj(_GZIP), members + 1
            while position < len(body) and not member.eof:
                call.check()
                packed = view[position : position + _PACKED_PIECE]
                part = member.decompress(packed, _PIECE)
                position += len(packed) - len(member.unused_data if member.eof else member.unconsumed_tail)
                size += len(part)
                if size > call.limits.max_body_bytes:
                    most = call.limits.max_body_bytes
                    raise HttpError(413, f"The body may decompress to {most} bytes and has more; send it in parts")
                held.grow(len(part))
                parts.append(part)
            if not member.eof:
                raise HttpError(400, "The gzip body ends too early")
    except zlib.error as error:
        raise HttpError(400, "The body is not gzip, although its Content-Encoding is gzip") from error
    return b"".join(parts)


def encoding_of(request: web.BaseRequest) -> str:
    """Returns the Content-Encoding in lower case, "identity" if there is none; several are separated by commas."""
    return _listed(request, "Content-Encoding") or "identity"


def _listed(request, name):
    """Returns the values of a header that may be a list and may be repeated, in lower case."""
    if name not in request.headers:
        return ""
    values = ",".join(request.headers.getall(name, [])).split(",")
    return ", ".join(value.strip().lower() for value in values if value.strip())


def _check_head(request, limits):
    if _listed(request, "Transfer-Encoding") not in ("", "chunked"):
        raise HttpError(501, "The only supported Transfer-Encoding is chunked")
    if encoding_of(request) not in ("gzip", "identity"):
        found = encoding_of(request)[:100]
        raise HttpError(415, f"The Content-Encoding must be gzip or identity, once; this request has {found}")
    _check_size(request.content_length or 0, limits)


def _check_size(size, limits):
    if size > limits.max_body_bytes:
        most = limits.max_body_bytes
        raise HttpError(413, f"A body may have {most} bytes and this one has more; send it in parts")
