"""Addresses as written in flags and URLs: a name or an IPv4 or IPv6 address, and a port after a colon."""

import ipaddress
import socket


def join_address(host: str, port: int) -> str:
    """Returns "host:port"; an IPv6 address, which contains colons itself, is in brackets: "[::1]:8500"."""
    host = bare(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bare(host: str) -> str:
    """Returns a host without the brackets around an IPv6 address."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def is_ip(host: str) -> bool:
    """Returns whether a host, without brackets, is an IPv4 or IPv6 address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_everywhere(host: str) -> bool:
    """Returns whether listening on a host means all addresses of this machine: 0.0.0.0, "::" or ""."""
    host = bare(host)
    return not host or is_ip(host) and ipaddress.ip_address(host).is_unspecified


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """Returns a socket that listens at the REST address; "::" includes IPv4, as in gRPC.

    Raises:
        ValueError: the address cannot be bound.
    """
    host = bare(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, backlog=backlog, dualstack_ipv6=both)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"Cannot bind the REST address {join_address(host, port)}: {error}. Use another `rest_api_port`, or 0 for "
            "any."
        ) from error


def check_target(server: str):
    """Checks the address that a client connects to.

    Raises:
        ValueError: it is an IPv6 address without brackets, so the start of the port is ambiguous.
    """
    if server.count(":") > 1 and (is_ip(server) or is_ip(server.rpartition(":")[0])):
        raise ValueError(
            f"An IPv6 address in `server` needs brackets, and a port after them; got {server!r}. Write "
            "[::1]:8500 for port 8500 of this machine."
        )
