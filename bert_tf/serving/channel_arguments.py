"""How a gRPC server listens: the arguments of its channel, and its addresses."""

import os
import socket
import stat

from bert_tf.serving.limits import Limits

_INT32 = range(-(2**31), 2**31)


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


def bind_socket(server, path: str, tls):
    """Has `server` listen on the Unix socket `path`; a file that a server left behind there is replaced.

    Raises:
        ValueError: something else is there, another server listens, or no socket can be made there.
    """
    if _is_in_use(path):  # gRPC would take the path from a server that listens, and nobody would notice
        raise ValueError(
            f"`grpc_socket_path` must be a path where no server listens. Received {path}, where one does; stop it or "
            "choose another path."
        )
    try:
        _bind(server, f"unix:{path}", tls)
    except RuntimeError as error:
        raise ValueError(
            "`grpc_socket_path` must be a path of at most 107 bytes, in a folder that can be written, with no other "
            f"file there. Received {path}, where no socket can be made; choose another path."
        ) from error


def _bind(server, address, tls):
    if tls:
        return server.add_secure_port(address, tls.grpc_credentials())
    return server.add_insecure_port(address)


def _is_in_use(path):
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
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
