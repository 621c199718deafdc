"""How a gRPC server listens: the arguments of its channel, and its addresses."""

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
    """Returns {key: value} of "key=value" with commas between; a value that is a number of 32 bits becomes one.

    Raises:
        ValueError: a part is no key with a value.
    """
    arguments: dict[str, int | str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not key.strip() or not equals or "=" in value:
            raise ValueError(
                f"`grpc_channel_arguments` must be key=value with commas between. Received {part!r} in {text!r}; "
                "grpc.max_connection_age_ms=2000 is one."
            )
        arguments[key.strip()] = _number_or_text(value.strip())
    return arguments


def channel_options(limits: Limits, arguments: dict[str, int | str]) -> list[tuple[str, int | str]]:
    """Returns the options of a server's channel; `arguments` take the place of ours."""
    options = {
        "grpc.max_receive_message_length": limits.max_message_bytes,
        "grpc.max_send_message_length": -1,
        "grpc.so_reuseport": 0,  # else a second server would start on the same port and take half of the requests
        "grpc.keepalive_time_ms": 60_000,  # callers whose machine has vanished are found out
        "grpc.keepalive_timeout_ms": 20_000,
        "grpc.http2.min_recv_ping_interval_without_data_ms": 10_000,
        "grpc.keepalive_permit_without_calls": 1,
    }
    return list((options | arguments).items())


def bind_port(server, address: str, tls) -> int:
    """Has `server` listen on "host:port" and returns the port.

    Raises:
        ValueError: the address cannot be had.
    """
    try:
        return _bind(server, address, tls)
    except RuntimeError as error:
        raise ValueError(
            f"The gRPC port must be free and its address this machine's. Received {address}, which cannot be bound; "
            "choose another `port`, or 0 for any."
        ) from error


class UnixSocket:
    """A path in the file system at which a server listens.

    The socket is made beside the path and moved there: so a server that is started while another still listens takes
    its path over in one instant, once it can answer, and the other, when it stops, does not remove what is not its own
    any more.
    """

    def __init__(self, server, path: str, tls):
        """Has `server` listen on a socket; nobody finds it before `take`.

        Raises:
            ValueError: no socket can be made at `path`, or something else is there.
        """
        # Short, as that has a bound too; drawn, as servers in two containers may have the same process id.
        self._path, self._beside = path, os.path.join(os.path.dirname(path), f".{secrets.token_hex(3)}")
        if len(os.fsencode(path)) > _LONGEST:  # it could be moved there, and nobody could connect
            raise _unfit(path, "which is longer")
        if os.path.lexists(path) and not _is_socket(path):
            raise _unfit(path, "which is no socket")
        try:
            _bind(server, f"unix:{self._beside}", tls)
        except RuntimeError as error:
            raise _unfit(path, "where none can be made") from error
        self._inode = os.stat(self._beside).st_ino

    def take(self):
        """Moves the socket to its path, from where callers reach it."""
        if _answers(self._path):
            logging.warning("Took %s from a server that listens there; it gets no new connections.", self._path)
        os.replace(self._beside, self._path)

    def remove(self):
        """Removes the path where it still leads to this server."""
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.remove(self._path)


def _bind(server, address, tls):
    if tls:
        return server.add_secure_port(address, tls.grpc_credentials())
    return server.add_insecure_port(address)


def _unfit(path, why):
    return ValueError(
        f"`grpc_socket_path` must be a path of at most {_LONGEST} bytes, in a folder that can be written, with no file "
        f"there. Received {path}, {why}; choose another path."
    )


def _is_socket(path):
    return stat.S_ISSOCK(os.lstat(path).st_mode)


def _answers(path):
    """Whether a server listens at a path."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            probe.connect(path)
    except OSError:
        return False
    return True


def _number_or_text(value):
    try:
        number = int(value)
    except ValueError:
        return value
    return number if number in _INT32 else value
