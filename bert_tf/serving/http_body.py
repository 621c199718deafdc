"""Bodies of HTTP requests: taken in while they are small enough, and unpacked as far as they may grow."""

import asyncio
import zlib
from collections.abc import Callable

from aiohttp import http_exceptions, web

from bert_tf.serving.limits import Limits

_PIECE = 2**20  # bytes unpacked at a time
_SILENT_SECONDS = 10  # in which something more of a body must come
_GZIP = 16 + zlib.MAX_WBITS


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


async def read_body(request: web.BaseRequest, limits: Limits, seconds: float, hold: Callable[[int], None]) -> bytes:
    """Returns the body as it was sent.

    Args:
        request: its head.
        limits: what a request may cost.
        seconds: in which the whole body must have come.
        hold: called with the size of each piece before the next is asked for; may raise HttpError.

    Raises:
        HttpError: 400, 408, 413, 415 or 501.
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
            while part := await request.content.readany():
                limit.reschedule(min(end, now() + _SILENT_SECONDS))
                if len(body) + len(part) > limits.max_body_bytes:
                    raise _too_large(limits.max_body_bytes)
                hold(len(part))
                body += part
    except TimeoutError as error:
        raise HttpError(408, "The body did not come in time") from error
    except (web.RequestPayloadError, http_exceptions.HttpProcessingError, OSError) as error:
        raise HttpError(400, "The body is no valid HTTP, or ends too early") from error
    return bytes(body)


def unpack(body: bytes, encoding: str, limits: Limits) -> bytes:
    """Returns the body without its Content-Encoding, "gzip" or "identity", already found to be one of them.

    Raises:
        HttpError: 400 for what is no gzip, 413 for what grows beyond the limit.
    """
    if encoding != "gzip":
        return body
    parts, size = [], 0
    try:
        while body:  # several members, one after the other, are one body
            member = zlib.decompressobj(_GZIP)
            while body and not member.eof:
                parts.append(member.decompress(body, _PIECE))
                size += len(parts[-1])
                if size > limits.max_inflated_bytes:
                    raise HttpError(413, f"The body may unpack to {limits.max_inflated_bytes} bytes and does to more")
                body = member.unconsumed_tail
            if not member.eof:
                raise HttpError(400, "The body's gzip ends too early")
            body = member.unused_data
    except zlib.error as error:
        raise HttpError(400, "The body is no gzip, though its Content-Encoding says so") from error
    return b"".join(parts)


def encoding_of(request: web.BaseRequest) -> str:
    """Returns the Content-Encoding in small letters, "identity" where there is none."""
    return request.headers.get("Content-Encoding", "identity").strip().lower() or "identity"


def _check_head(request, limits):
    transfer = request.headers.get("Transfer-Encoding", "chunked").strip().lower()
    if transfer != "chunked":
        raise HttpError(501, "The only Transfer-Encoding that this server reads is chunked")
    if encoding_of(request) not in ("gzip", "identity"):
        raise HttpError(415, "The Content-Encoding must be gzip or identity")
    if (request.content_length or 0) > limits.max_body_bytes:
        raise _too_large(limits.max_body_bytes)


def _too_large(most):
    return HttpError(413, f"A body may have {most} bytes and this one has more")
