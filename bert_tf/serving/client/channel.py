"""A client's connection to its server: channel, encryption, and retries."""

import dataclasses
import os
import pathlib
import random
import re
from typing import Any

import grpc

from bert_tf.serving.addresses import check_target
from bert_tf.serving.client.settings import TlsFiles
from bert_tf.utils.proxies import is_direct

_PUSHBACK = "grpc-retry-pushback-ms"  # gRPC's name for it
_HINT = re.compile(r"retry after (\d+(?:\.\d+)?) ?s\b")


# No response has come, and none will. CANCELLED, unless the caller cancelled, is sent by a stopping server
# for requests that it has not started.
GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


@dataclasses.dataclass(frozen=True)
class Retry:
    """Retry policy for failed calls, always within the caller's timeout.

    Only the codes in `GONE` are retried: no server is listening, it is stopping, or its queue is full. A
    prediction has no side effects, so it can be repeated even if it was computed and only its response was lost.
    RESOURCE_EXHAUSTED (the message is too large) and INVALID_ARGUMENT would fail again, DEADLINE_EXCEEDED has used
    up the caller's time, and INTERNAL or UNKNOWN are errors that should be visible.

    gRPC's own retries are not used: with waits of a few milliseconds a call that fails for the last time may not return
    before its deadline (grpcio 1.85).

    Attributes:
        attempts: total number of calls; 1 means no retries.
        first_wait: maximum seconds before the second call. Each further wait is twice as long. All are random, between
            half and all of that, so that callers that failed together do not retry together. If the server asks for a
            wait, in words ("retry after 0.2 s") or with `grpc-retry-pushback-ms` in the trailing metadata of its error,
            that one applies; a negative number there forbids a retry.
        longest_wait: maximum seconds of the client's own waits.
    """

    attempts: int = 4
    first_wait: float = 0.1
    longest_wait: float = 2.0

    def __post_init__(self):
        if self.attempts < 1:
            raise ValueError(f"`attempts` must be at least 1; got {self.attempts}. With 1, calls are not retried.")
        if not 0 <= self.first_wait <= self.longest_wait:
            raise ValueError(
                f"`first_wait` must be from 0 to `longest_wait`; got {self.first_wait:g} and "
                f"{self.longest_wait:g} s. Both are in seconds."
            )

    def find_wait(self, error: grpc.RpcError, attempt: int) -> float | None:
        """Returns the seconds until the retry of a call, or None for no retry.

        Args:
            error: the error of the call.
            attempt: number of calls so far, at least 1.
        """
        if error.code() not in GONE or attempt >= self.attempts:
            return None
        hint = _find_hint(error)
        if hint is None:
            return random.uniform(0.5, 1) * min(self.longest_wait, self.first_wait * 2 ** (attempt - 1))
        return None if hint < 0 else random.uniform(1, 1.5) * hint  # not earlier, and not all at once


@dataclasses.dataclass(frozen=True)
class Tls(TlsFiles):
    """TLS settings of a connection; all files are PEM.

    Attributes:
        root_file: certificates of the trusted authorities; None for gRPC's own.
        key_file, certificate_file: the client's identity, for servers that verify clients.
    """

    root_file: str | os.PathLike | None = None
    key_file: str | os.PathLike | None = None
    certificate_file: str | os.PathLike | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files.

        Raises:
            ValueError: there is a key without a certificate, or vice versa.
            OSError: a file cannot be read.
        """
        if (self.key_file is None) != (self.certificate_file is None):
            there, missing = ("key_file", "certificate_file")[:: 1 if self.certificate_file is None else -1]
            raise ValueError(f"`{there}` requires `{missing}`. Pass both, or remove `{there}`.")
        files = (self.root_file, self.key_file, self.certificate_file)
        return grpc.ssl_channel_credentials(*(file and pathlib.Path(file).read_bytes() for file in files))


MAX_RESPONSE_BYTES = 128 * 2**20  # gRPC's default of 4 MiB is less than one batch of token-level hidden states
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    # A server that comes back is found within seconds; by default, gRPC would wait up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 2000),
]


def open_channel(server: str, tls: Tls | None = None, kind=grpc, max_response_bytes: int = MAX_RESPONSE_BYTES):
    """Returns a channel to "host:port" or "unix:PATH".

    gRPC takes a proxy from the environment. It is not used for this machine, and for hosts in `no_proxy`.

    Args:
        server: the address; IPv6 in brackets, "[::1]:8500".
        tls: encryption; None for no encryption.
        kind: `grpc`, or `grpc.aio` for asyncio channels.
        max_response_bytes: maximum size of a response after decompression; a larger one is an error.

    Raises:
        ValueError: `server` is an IPv6 address without brackets, or gRPC does not support `max_response_bytes`.
    """
    check_target(server)
    if not 1 <= max_response_bytes < 2**31:
        raise ValueError(
            f"`max_response_bytes` must be from 1 to {2**31 - 1}; got {max_response_bytes}. The default is "
            f"{MAX_RESPONSE_BYTES}."
        )
    options = [*_OPTIONS, ("grpc.max_receive_message_length", max_response_bytes)]
    if is_direct(server):
        options.append(("grpc.enable_http_proxy", 0))
    if tls is None:
        return kind.insecure_channel(server, options)
    return kind.secure_channel(server, tls.credentials(), options)


def _find_hint(error):
    """Returns the seconds that a server asks its callers to wait, or None."""
    for key, value in error.trailing_metadata() or ():
        if key == _PUSHBACK and re.fullmatch(r"-?\d{1,9}", value):
            return int(value) / 1000
    match = _HINT.search(error.details() or "")
    return float(match[1]) if match else None
