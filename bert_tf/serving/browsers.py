"""What pages in a browser may ask: by which name of this server, and from where.

A browser sends `text/plain` to any server that its user reaches, without asking first, and a name that its owner points
to 127.0.0.1 (DNS rebinding) makes this server part of that owner's site.
"""

import ipaddress
from collections.abc import Sequence

from aiohttp import web

from bert_tf.serving.http_body import HttpError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ALL = "*"


class HostCheck:
    """Refuses requests that a browser was lured into.

    Args:
        host: address that the server listens on; those for all of this machine's take any name where none is given.
        allowed: names by which the server may be asked, without ports, besides addresses, of which none can be pointed
            elsewhere; "*" for any. Empty: those of this machine and `host`.
    """

    def __init__(self, host: str, allowed: Sequence[str] = ()):
        names = {name.strip("[]").lower() for name in allowed or (*_LOOPBACK, host)}
        everywhere = not allowed and host.strip("[]") in ("", "0.0.0.0", "::")
        self._names = None if everywhere or _ALL in names else names

    def check(self, request: web.BaseRequest, cors: bool):
        """Raises HttpError for another name, or for a page from elsewhere that did not have to ask first.

        Args:
            request: its head.
            cors: whether pages from elsewhere may ask.
        """
        hosts = request.headers.getall("Host", [])
        if len(hosts) > 1:
            raise HttpError(400, "A request may name one Host")
        name = _name_of(hosts[0]) if hosts else ""
        if name and self._names is not None and name not in self._names and not _is_address(name):
            raise HttpError(403, f"This server is not asked by the name {name[:100]}; allowed_hosts lists its names")
        origin = request.headers.get("Origin")
        if cors or origin is None or request.method != "POST":
            return
        is_own = hosts and origin.lower().partition("://")[2] == hosts[0].lower()
        if not is_own and request.content_type != "application/json":
            raise HttpError(415, "A page from elsewhere must send its request as application/json")


def _name_of(host):
    """Returns the name in "name:port", without brackets and port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


def _is_address(name):
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
