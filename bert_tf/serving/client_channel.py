"""How a client reaches its server: encryption, and which calls are repeated."""

import dataclasses
import json
import os
from typing import Any

import grpc

_MIB = 2**20
_MOST_ATTEMPTS = 5  # gRPC goes no higher


@dataclasses.dataclass(frozen=True)
class Retry:
    """When a call that failed is made again: gRPC's own retries, always within the call's timeout.

    Only UNAVAILABLE is tried again: nobody listens, the server stops, or its queue is full, all of which pass. A
    prediction changes nothing, so one that was computed although its answer was lost may be computed once more.
    RESOURCE_EXHAUSTED (the message is too large) and INVALID_ARGUMENT would only fail again, DEADLINE_EXCEEDED has used
    up the caller's time, and INTERNAL or UNKNOWN are faults that somebody should see.

    Attributes:
        attempts: calls altogether, 1 to 5; 1 never repeats.
        first_wait: seconds before the second call. Each further wait is twice as long; all are spread at random, so
            that callers who failed together do not come back together. Where the server says how long to wait, by
            `grpc-retry-pushback-ms` in the metadata behind its refusal, that holds instead.
        longest_wait: seconds beyond which waits do not grow.
    """

    attempts: int = 4
    first_wait: float = 0.1
    longest_wait: float = 2.0

    def __post_init__(self):
        if not 1 <= self.attempts <= _MOST_ATTEMPTS:
            raise ValueError(
                f"`attempts` must be from 1 to {_MOST_ATTEMPTS}. Received: {self.attempts}; ask again later instead."
            )
        if not 0 < self.first_wait <= self.longest_wait:
            raise ValueError(
                f"`first_wait` must be above 0 and at most `longest_wait`. Received: {self.first_wait:g} and "
                f"{self.longest_wait:g} s; give both in seconds."
            )


@dataclasses.dataclass(frozen=True)
class Tls:
    """Encryption of a connection; each file is in PEM.

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
            raise ValueError(f"`{there}` must come with `{missing}`. Received it alone; give both or neither.")
        files = (self.root_file, self.key_file, self.certificate_file)
        return grpc.ssl_channel_credentials(*(file and _read(file) for file in files))


def options(retry: Retry) -> list[tuple[str, Any]]:
    """Returns the settings of a client's channel."""
    policy = {
        "maxAttempts": retry.attempts,
        "initialBackoff": f"{retry.first_wait:.3f}s",
        "maxBackoff": f"{retry.longest_wait:.3f}s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    methods = [{"name": [{}], "retryPolicy": policy}] if retry.attempts > 1 else []
    return [
        ("grpc.max_receive_message_length", -1),  # gRPC's default of 4 MiB is less than one batch of token vectors
        ("grpc.max_send_message_length", -1),
        ("grpc.service_config", json.dumps({"methodConfig": methods})),
        ("grpc.enable_retries", int(retry.attempts > 1)),
        ("grpc.per_rpc_retry_buffer_size", 64 * _MIB),  # a request beyond it could not be sent again
        # A server that comes back is found within seconds; gRPC would wait up to two minutes between looks.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
    ]


def _read(path):
    with open(path, "rb") as file:
        return file.read()
