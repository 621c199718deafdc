"""Checks of HTTP requests' heads, and their bodies: read and unpacked within limits of size, time and memory."""

import asyncio
import contextlib
import dataclasses
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence

from aiohttp import http_exceptions, web

from bert_tf.serving.addresses import bare, is_everywhere, is_ip
from bert_tf.serving.limits import Limits
from bert_tf.serving.server.predict import Call

# === Callers ===
# A browser runs pages from anywhere, and whoever made one may have it ask servers that only this machine or network can
# reach. Two headers, which no page can forge, tell: Host, the name in the address that was asked, and Origin, from
# where the page came. Programs that are no browsers send no Origin and any Host.


_ANY = "*"
_LOOPBACK = frozenset({"localhost"})  # its addresses are addresses, which pass anyway
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s,]+)(?::\d*)?")
_NAME = re.compile(r"[^\[\]:/?#@\s,*]+")
_OWN = ("same-origin", "none")  # what Sec-Fetch-Site says where the page is ours, or there is none
_MOST_KNOWN = 100  # Hosts that are not looked at again
_QUOTED = 100  # characters of a header in a message


class CallersAllowed:
    """Checks the heads of requests.

    A page whose author controls its own name can point that name at this machine, once it is loaded, and would then be
    of one origin with the server (DNS rebinding): so a Host must be a name by which the server is meant to be asked. An
    address is one always, since no name leads to it.
    """

    def __init__(self, host: str, allowed_hosts: Sequence[str], cors: bool):
        """Takes the names.

        Args:
            host: where the server listens; where that is everywhere and no names are given, any name will do.
            allowed_hosts: names besides "localhost" and `host`; "*" stands for any.
            cors: whether pages of other origins may ask.

        Raises:
            ValueError: a name is none.
        """
        for name in allowed_hosts:
            if name != _ANY and not is_ip(bare(name)) and not _NAME.fullmatch(name):
                raise ValueError(
                    "`allowed_hosts` must be names of this server, as they stand in its URLs without https:// and "
                    f"port, or * for any. Received: {name!r}; models.example.com is one."
                )
        self._any = _ANY in allowed_hosts or not allowed_hosts and is_everywhere(host)
        self._names = _LOOPBACK | {_plain(name) for name in (host, *allowed_hosts)}
        self._cors = cors
        self._known: set[str] = set()  # Hosts that have passed: clients send the same with each request

    def check_host(self, request: web.BaseRequest):
        """Raises HttpError, 400 or 421, where a request is for another server."""
        values = request.headers.getall("Host", [])
        if len(values) == 1 and values[0] in self._known:
            return
        if not values and request.version < (1, 1):
            return
        match = _HOST.fullmatch(values[0]) if len(values) == 1 else None
        if not match:
            raise HttpError(400, "A request must have one Host, which is a name or an address")
        name = _plain(match[1])
        if not self._any and name not in self._names and not is_ip(name):
            raise HttpError(
                421,
                f"This server must be asked by an address, as localhost, or by a name in its allowed_hosts; it was "
                f"asked as {name[:_QUOTED]}",
            )
        if len(self._known) < _MOST_KNOWN:
            self._known.add(values[0])

    def check_origin(self, request: web.BaseRequest):
        """Raises HttpError, 403 or 415, where a page of another origin asks for a prediction and may not.

        With `application/json` a browser asks the server first whether the page may; with what forms send it does not.
        """
        site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
        if site is not None:  # a proxy may have put another Host in place of the page's
            is_foreign = site.lower() not in _OWN
        else:
            host = request.headers.get("Host", "").lower()
            is_foreign = origin is not None and origin.partition("://")[2].lower() != host
        if not is_foreign:
            return
        if not self._cors:
            raise HttpError(
                403,
                "A page of another origin may ask this server only if it runs with rest_api_enable_cors_support; "
                f"the Origin is {request.headers.get('Origin', 'not said')[:_QUOTED]}",
            )
        if request.content_type != "application/json":
            raise HttpError(
                415,
                "A page of another origin must send its question with Content-Type: application/json; it sent "
                f"{request.content_type[:_QUOTED]}",
            )


def _plain(host):
    return bare(host).lower().removesuffix(".")


# === Bodies ===


_PACKED_PIECE = 2**16  # bytes given to zlib at a time: it copies what it leaves of them, once for each member
_PIECE = 2**20  # bytes unpacked at a time
_MEMBERS = 4096  # of one body: each costs as much as thousands of bytes
_SLOW_SECONDS = 5  # that a large body may take while others find no room
_SILENT_SECONDS = 10  # in which something more of a body must come
_GZIP = 16 + zlib.MAX_WBITS
_SMALL = 2**18  # bytes up to which a body is a small one
_LARGE_BODIES = 4  # of the largest size, that are in memory at once; the small ones may fill one more
_SMALL_BODIES = 4  # of their largest size, at least, however small the largest body may be


class HttpError(Exception):
    """A request that is refused before anybody has looked into its body.

    Attributes:
        status: of HTTP.
        message: what the caller reads.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = message


class BodyMemory:
    """Bytes of bodies in memory, in two accounts: large bodies never keep small ones out.

    A body is large once more than 256 KiB of it are there, packed and unpacked bytes together.
    """

    def __init__(self, limits: Limits):
        self._coming: dict[HeldBody, tuple[float, asyncio.Timeout]] = {}  # since when; of the event loop alone
        self._lock = threading.Lock()
        self._held = {"small": 0, "large": 0}
        most = limits.max_body_bytes
        self._most = {"small": max(most, _SMALL_BODIES * _SMALL), "large": _LARGE_BODIES * most}

    def resize(self, before: int, after: int):
        """Accounts for a body that had `before` bytes and has `after`, which is 0 once it is freed.

        Raises:
            HttpError: 503, there is no room for it; nothing has changed.
        """
        old, new = _account(before), _account(after)
        with self._lock:
            held = self._held[new] + after - (before if new == old else 0)
            if after > before and held > self._most[new]:
                raise HttpError(503, "The server holds as many bodies as it may; try again later")
            self._held[old] -= before
            self._held[new] = held

    @contextlib.contextmanager
    def receiving(self, held: "HeldBody", limit: asyncio.Timeout, now: Callable[[], float]) -> Iterator[None]:
        """A block in which a body comes.

        Where there is no room for it, it is refused, and the large body that has been coming for longest is ended, if
        that is a while: so the next one finds room, and who sends slowly keeps nobody out for long.

        Args:
            held: the body's share.
            limit: until when it may come; ended by a change of that.
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
        memory: of which.
        size: bytes that are accounted for.
    """

    memory: BodyMemory
    size: int = 0

    def grow(self, size: int):
        """Accounts for `size` bytes more; raises HttpError if they do not fit."""
        self.memory.resize(self.size, self.size + size)
        self.size += size

    def free(self):
        self.memory.resize(self.size, 0)
        self.size = 0


def _account(size):
    return "small" if size <= _SMALL else "large"


async def read_body(request: web.BaseRequest, limits: Limits, seconds: float, held: HeldBody) -> bytes:
    """Returns the body as it was sent.

    Args:
        request: its head.
        limits: what a request may cost.
        seconds: in which the whole body must have come.
        held: the body's share of memory; takes in each part before the next is asked for.

    Raises:
        HttpError: 400, 408, 413, 415, 501 or 503.
    """
    _check_head(request, limits)
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun
    body = bytearray()
    try:
        now = asyncio.get_running_loop().time
        end = now() + seconds
        async with asyncio.timeout_at(min(end, now() + _SILENT_SECONDS)) as limit:
            with held.memory.receiving(held, limit, now):
                while part := await request.content.readany():
                    limit.reschedule(min(end, now() + _SILENT_SECONDS))
                    _check_size(len(body) + len(part), limits)
                    held.grow(len(part))
                    body += part
    except TimeoutError as error:
        raise HttpError(408, "The body did not come in time") from error
    except (web.RequestPayloadError, http_exceptions.HttpProcessingError, OSError) as error:
        raise HttpError(400, "The body is not valid HTTP, or ends too early") from error
    return bytes(body)


def gunzip(body: bytes, call: Call, held: HeldBody) -> bytes:
    """Returns a body of gzip unpacked, in time proportional to its packed and its unpacked size.

    Args:
        body: as it was sent.
        call: its caller, who may leave or have no more time, and what it may cost.
        held: the body's share of memory; takes in each part that is unpacked.

    Raises:
        HttpError: 400 for what is no gzip or has too many members, 413 for what grows beyond the limit, 503.
        ServingError: nobody waits for it any more.
    """
    parts, size, position, members = [], 0, 0, 0
    view = memoryview(body)
    try:
        while position < len(body):  # several members, one after the other, are one body
            if members == _MEMBERS:
                raise HttpError(400, f"The body's gzip may have {_MEMBERS} members and has more")
            member, members = zlib.decompressobj(_GZIP), members + 1
            while position < len(body) and not member.eof:
                call.check()
                packed = view[position : position + _PACKED_PIECE]
                part = member.decompress(packed, _PIECE)
                position += len(packed) - len(member.unused_data if member.eof else member.unconsumed_tail)
                size += len(part)
                if size > call.limits.max_body_bytes:
                    most = call.limits.max_body_bytes
                    raise HttpError(413, f"The body may unpack to {most} bytes and does to more; send it in parts")
                held.grow(len(part))
                parts.append(part)
            if not member.eof:
                raise HttpError(400, "The body's gzip ends too early")
    except zlib.error as error:
        raise HttpError(400, "The body is not gzip, although its Content-Encoding says so") from error
    return b"".join(parts)


def encoding_of(request: web.BaseRequest) -> str:
    """Returns the Content-Encoding in small letters, "identity" where there is none; several with commas between."""
    return _listed(request, "Content-Encoding") or "identity"


def _listed(request, name):
    """Returns the values of a header that may be a list, and may be there more than once, in small letters."""
    if name not in request.headers:
        return ""
    values = ",".join(request.headers.getall(name, [])).split(",")
    return ", ".join(value.strip().lower() for value in values if value.strip())


def _check_head(request, limits):
    if _listed(request, "Transfer-Encoding") not in ("", "chunked"):
        raise HttpError(501, "The only Transfer-Encoding that this server reads is chunked")
    if encoding_of(request) not in ("gzip", "identity"):
        found = encoding_of(request)[:100]
        raise HttpError(415, f"The Content-Encoding must be gzip or identity, once; this request has {found}")
    _check_size(request.content_length or 0, limits)


def _check_size(size, limits):
    if size > limits.max_body_bytes:
        most = limits.max_body_bytes
        raise HttpError(413, f"A body may have {most} bytes and this one has more; send it in parts")
