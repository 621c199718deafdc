"""Settings of a gRPC server's channel, and the addresses at which it listens."""

import contextlib
import os
import secrets
import socket
import stat

from absl import logging

from bert_tf.serving.limits import Limits

_INT32 = range(-(2**31), 2**31)
_LONGEST = 107  # bytes of the path of a Unix socket


def read_arguments(text: str) -> dict[str, int | str]:
    """Returns {key: value} of "key=value" with commas between; 32-bit numbers are converted.

    Raises:
        ValueError: an entry is not a key with a value.
    """
    arguments: dict[str, int | str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not key.strip() or not equals or "=" in value:
            raise ValueError(
                f"`grpc_channel_arguments` must be comma-separated key=value pairs; got {part!r} in {text!r}. Example: "
                "grpc.max_connection_age_ms=2000."
            )
        arguments[key.strip()] = value.strip()
        with contextlib.suppress(ValueError):
            if int(value) in _INT32:
                arguments[key.strip()] = int(value)
    return arguments


def channel_options(limits: Limits, arguments: dict[str, int | str]) -> list[tuple[str, int | str]]:
    """Returns the options of a server's channel; `arguments` override the defaults."""
    options = {
        "grpc.max_receive_message_length": limits.max_message_bytes,
        "grpc.max_send_message_length": -1,
        "grpc.so_reuseport": 0,  # otherwise, a second server could use the same port and receive half of the requests
        "grpc.keepalive_time_ms": 60_000,  # detects callers whose machine is gone
        "grpc.keepalive_timeout_ms": 20_000,
        "grpc.http2.min_recv_ping_interval_without_data_ms": 10_000,
        "grpc.keepalive_permit_without_calls": 1,
    }
    return list((options | arguments).items())


def bind_port(server, address: str, tls) -> int:
    """Makes `server` listen on "host:port" and returns the port.

    Raises:
        ValueError: the address cannot be bound.
    """
    try:
        return _bind(server, address, tls)
    except RuntimeError as error:
        raise ValueError(
            f"Cannot bind the gRPC address {address}: the port may be in use, or the address not of this machine. "
            "Use another `port`, or 0 for any."
        ) from error


class UnixSocket:
    """A Unix socket path at which a server listens.

    The socket is created next to the path and moved there. So a server that starts while another still listens takes
    over the path atomically, once it is ready, and the other one does not remove a socket that is no longer
    its own when it stops.
    """

    def __init__(self, server, path: str, tls):
        """Makes `server` listen on a socket, which is not visible before `take`.

        Raises:
            ValueError: no socket can be created at `path`, or another file exists at it.
        """
        # Short, because its length is limited too; random, because servers in two containers may have the same process
        # id.
        self._path, self._aside = path, os.path.join(os.path.dirname(path), f".{secrets.token_hex(3)}")
        if len(os.fsencode(path)) > _LONGEST:  # it could be moved there, but clients could not connect
            raise _unfit(path, "which is too long")
        if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise _unfit(path, "which is not a socket")
        try:
            _bind(server, f"unix:{self._aside}", tls)
        except RuntimeError as error:
            raise _unfit(path, "where a socket cannot be created") from error
        self._inode = os.stat(self._aside).st_ino

    def take(self):
        """Moves the socket to its path, where callers find it."""
        if _answers(self._path):
            logging.warning("Took over %s from another server, which gets no new connections.", self._path)
        os.replace(self._aside, self._path)

    def remove(self):
        """Removes the path if it still belongs to this server."""
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.remove(self._path)


def _bind(server, address, tls):
    if tls:
        return server.add_secure_port(address, tls.grpc_credentials())
    return server.add_insecure_port(address)


def _unfit(path, why):
    return ValueError(
        f"`grpc_socket_path` must be a path of at most {_LONGEST} bytes in a writable directory, at which no other "
        f"file exists; got {path}, {why}."
    )


def _answers(path):
    """Whether a server listens at a path."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            probe.connect(path)
    except OSError:
        return False
    return True
