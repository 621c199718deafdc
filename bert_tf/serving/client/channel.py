"""A client's connection to its server: channel, encryption, and which failed calls are made again."""

import dataclasses
import os
import pathlib
import random
import re
from typing import Any

import grpc

from bert_tf.serving.addresses import check_target

_PUSHBACK = "grpc-retry-pushback-ms"  # gRPC's name for it
_HINT = re.compile(r"retry after (\d+(?:\.\d+)?) ?s\b")


# Nobody has answered and nobody will. CANCELLED, where the caller has not cancelled, is what a server that stops says
# of requests that it had not begun.
GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


@dataclasses.dataclass(frozen=True)
class Retry:
    """Retry policy for failed calls, always within the caller's timeout.

    Only `GONE` is tried again: nobody listens, the server stops, or its queue is full, all of which pass. A
    prediction changes nothing, so one that was computed although its answer was lost may be computed once more.
    RESOURCE_EXHAUSTED (the message is too large) and INVALID_ARGUMENT would only fail again, DEADLINE_EXCEEDED has used
    up the caller's time, and INTERNAL or UNKNOWN are faults that somebody should see.

    gRPC's own retries are not used: with waits of a few milliseconds a call that fails for the last time may not return
    before its deadline (grpcio 1.85).

    Attributes:
        attempts: calls altogether; 1 never repeats.
        first_wait: seconds before the second call at most. Each further wait is twice as long; all are between half and
            the whole of that, at random, so that callers who failed together do not come back together. Where the
            server says how long to wait, in words ("retry after 0.2 s") or by `grpc-retry-pushback-ms` in the metadata
            behind its refusal, that holds instead; a negative number there forbids it.
        longest_wait: seconds beyond which waits of our own do not grow.
    """

    attempts: int = 4
    first_wait: float = 0.1
    longest_wait: float = 2.0

    def __post_init__(self):
        if self.attempts < 1:
            raise ValueError(f"`attempts` must be at least 1. Received: {self.attempts}; 1 never repeats a call.")
        if not 0 <= self.first_wait <= self.longest_wait:
            raise ValueError(
                f"`first_wait` must be from 0 to `longest_wait`. Received: {self.first_wait:g} and "
                f"{self.longest_wait:g} s; give both in seconds."
            )

    def find_wait(self, error: grpc.RpcError, attempt: int) -> float | None:
        """Returns the seconds after which a call is to be made again, None where it is not.

        Args:
            error: with which the call failed.
            attempt: how many calls there were, 1 or more.
        """
        if error.code() not in GONE or attempt >= self.attempts:
            return None
        hint = _find_hint(error)
        if hint is None:
            return random.uniform(0.5, 1) * min(self.longest_wait, self.first_wait * 2 ** (attempt - 1))
        return None if hint < 0 else random.uniform(1, 1.5) * hint  # no earlier, and not all at once


@dataclasses.dataclass(frozen=True)
class Tls:
    """TLS settings of a connection; all files are PEM.

    Attributes:
        root_file: certificates of the authorities that are trusted; None: those that gRPC brings.
        key_file, certificate_file: by which the client proves who it is, to a server that wants to know.
    """

    root_file: str | os.PathLike | None = None
    key_file: str | os.PathLike | None = None
    certificate_file: str | os.PathLike | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files.

        Raises:
            ValueError: there is a key without a certificate, or the other way round.
            OSError: a file cannot be read.
        """
        if (self.key_file is None) != (self.certificate_file is None):
            there, missing = ("key_file", "certificate_file")[:: 1 if self.certificate_file is None else -1]
            raise ValueError(f"`{there}` requires `{missing}`. Pass both or neither.")
        files = (self.root_file, self.key_file, self.certificate_file)
        return grpc.ssl_channel_credentials(*(file and pathlib.Path(file).read_bytes() for file in files))


MAX_ANSWER_BYTES = 128 * 2**20  # gRPC's default of 4 MiB is less than one batch of token vectors
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    # A server that comes back is found within seconds; gRPC would wait up to two minutes between looks.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 2000),
]


def open_channel(server: str, tls: Tls | None = None, kind=grpc, max_answer_bytes: int = MAX_ANSWER_BYTES):
    """Returns a channel to "host:port" or "unix:PATH".

    Args:
        server: the address; one of IPv6 in brackets, "[::1]:8500".
        tls: how it is encrypted; None: it is not.
        kind: `grpc`, or `grpc.aio` for channels of asyncio.
        max_answer_bytes: of an answer, once it is unpacked; a longer one is an error.

    Raises:
        ValueError: `server` is an IPv6 address without brackets, or `max_answer_bytes` is none that gRPC knows.
    """
    check_target(server)
    if not 1 <= max_answer_bytes < 2**31:
        raise ValueError(
            f"`max_answer_bytes` must be from 1 to {2**31 - 1}. Received: {max_answer_bytes}; leave it out for "
            f"{MAX_ANSWER_BYTES}."
        )
    options = [*_OPTIONS, ("grpc.max_receive_message_length", max_answer_bytes)]
    if tls is None:
        return kind.insecure_channel(server, options)
    return kind.secure_channel(server, tls.credentials(), options)


def _find_hint(error):
    """Returns the seconds that a server wants its callers to wait, None where it does not say."""
    for key, value in error.trailing_metadata() or ():
        if key == _PUSHBACK and re.fullmatch(r"-?\d{1,9}", value):
            return int(value) / 1000
    match = _HINT.search(error.details() or "")
    return float(match[1]) if match else None
