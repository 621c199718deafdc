"""Proxies from the environment: the one on the way to a server, and connections to this machine, which use none."""

import ipaddress
import os
import re
import urllib.request
from typing import Any

_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")  # gRPC takes the first that is set, even if it is empty
# The first of these lists hosts without a proxy. gRPC knows only lowercase names; curl and Python also take the last.
_EXEMPTIONS = ("no_grpc_proxy", "no_proxy", "NO_PROXY")
_LOCAL_NAMES = re.compile(r"(.+\.)?localhost(4|6|\.localdomain)?|ip6-(localhost|loopback)", re.I)
_LOCAL = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1")  # as in `no_proxy`: urllib does not know networks
_TARGET = re.compile(r"(?:dns:(?://[^/]*/)?|ipv4:|ipv6:)?(.*)", re.I | re.S)


def is_local(host: str) -> bool:
    """Returns whether a host, without brackets, is this machine: localhost, a loopback address, or "0.0.0.0"."""
    if _LOCAL_NAMES.fullmatch(host.rstrip(".")):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def is_direct(target: str) -> bool:
    """Returns whether no proxy may be used for a gRPC address, because it is this machine or exempt in the environment.

    Args:
        target: "host:port", or another address of gRPC.
    """
    exempt = [entry for entry in os.environ.get(_exemption(), "").replace(" ", "").split(",") if entry]
    return all(is_local(host) or _is_in(host, exempt) for host in _hosts(target))


def describe_proxy(target: str) -> str:
    """Returns a sentence, after a space, that names the proxy on the way to a gRPC address; "" if there is none."""
    variable = next((name for name in _PROXIES if name in os.environ), "")
    proxy = os.environ.get(variable, "")
    if is_direct(target) or not proxy.lower().startswith("http://"):  # gRPC reports and ignores others
        return ""
    return (
        f" The connection uses the proxy {_without_password(proxy)} from the environment variable {variable}: if no "
        f"proxy is needed, add {', '.join(_hosts(target))} to {_exemption()}."
    )


def describe_download_proxy() -> str:
    """Returns a sentence, after a space, that names the proxy of HTTPS downloads such as pip's; "" if there is none."""
    proxy = urllib.request.getproxies().get("https")
    return f" The environment sets the proxy {_without_password(proxy)} for downloads." if proxy else ""


def open_local(url: str | urllib.request.Request, data: bytes | None = None, timeout: float | None = None) -> Any:
    """Opens a URL of this machine as `urllib.request.urlopen` does, but never through a proxy."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, data, timeout)


def exempt_local():
    """Makes libraries that open their own connections, such as TensorFlow and Beam, reach this machine without a proxy.

    The variables of the environment are set, which child processes inherit. Call it before the first connection.
    """
    given = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    variables = ["no_proxy", *filter(os.environ.get, ["no_grpc_proxy"])]
    if given.strip() == "*":  # exempts all hosts only if nothing else is listed; gRPC does not know it
        variables = ["no_grpc_proxy"]
    for variable in variables:
        found = os.environ.get(variable, given).split(",")
        os.environ[variable] = ",".join([*filter(None, found), *(host for host in _LOCAL if host not in found)])


def _without_password(proxy):
    """Returns host and port of a proxy's URL."""
    return re.sub(r"^\w+://|[/?#].*$", "", proxy).rpartition("@")[2]


def _exemption():
    """Returns the name of the variable that lists the hosts without a proxy."""
    return next((name for name in _EXEMPTIONS if name in os.environ), "no_proxy")


def _hosts(target):
    """Returns the hosts of a gRPC address, without ports and brackets; those of a Unix socket are none."""
    if re.match(r"(unix|unix-abstract|vsock):", target, re.I):
        return []
    addresses = _TARGET.fullmatch(target)[1].split(",")
    return [re.sub(r"^\[(.*)\](:\d*)?$|^([^:]*):\w*$", r"\1\3", address) for address in addresses]


def _is_in(host, exempt):
    """Returns whether a list of exempt hosts contains a host, by gRPC's rules and with "*" for all hosts."""
    return any(entry == "*" or host.lower().endswith(entry.lower()) or _is_in_network(host, entry) for entry in exempt)


def _is_in_network(host, entry):
    address = _address(host)
    try:
        return address is not None and "/" in entry and address in ipaddress.ip_network(entry, strict=False)
    except ValueError:  # gRPC ignores such an entry, too
        return False


def _address(host):
    """Returns the IP address that a host is, or None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
