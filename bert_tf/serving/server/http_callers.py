"""Callers that the REST server accepts.

A browser runs pages from anywhere, and a page can make it send requests to servers that only this machine or network
can reach. Two headers that pages cannot forge reveal this: Host, the name in the requested address, and Origin, the
origin of the page. Programs other than browsers send no Origin and any Host.
"""

import re
from collections.abc import Sequence

from aiohttp import web

from bert_tf.serving.addresses import bare, is_everywhere, is_ip
from bert_tf.serving.server.http_body import HttpError

_ANY = "*"
_LOOPBACK = frozenset({"localhost"})  # its IP addresses pass anyway
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s,]+)(?::\d*)?")
_NAME = re.compile(r"[^\[\]:/?#@\s,*]+")
_OWN = ("same-origin", "none")  # values of Sec-Fetch-Site for our own page, or no page
_MOST_KNOWN = 100  # Hosts that are not checked again
_QUOTED = 100  # characters of a header in a message


class CallersAllowed:
    """Checks the heads of requests.

    A page can make its own domain name point to this machine after it was loaded, and would then be
    same-origin with the server (DNS rebinding). So Host must be a name that the server is meant to have. An
    IP address always passes, because it involves no name.
    """

    def __init__(self, host: str, allowed_hosts: Sequence[str], cors: bool):
        """Sets the allowed names.

        Args:
            host: where the server listens; if that is everywhere and no names are given, any name passes.
            allowed_hosts: names in addition to "localhost" and `host`; "*" allows any.
            cors: whether pages of other origins may send requests.

        Raises:
            ValueError: a name is invalid.
        """
        for name in allowed_hosts:
            if name != _ANY and not is_ip(bare(name)) and not _NAME.fullmatch(name):
                raise ValueError(
                    "`allowed_hosts` must be names of this server, as in its URLs but without https:// and "
                    f"port, or * for any; got {name!r}. Example: models.example.com."
                )
        self._any = _ANY in allowed_hosts or not allowed_hosts and is_everywhere(host)
        self._names = _LOOPBACK | {_plain(name) for name in (host, *allowed_hosts)}
        self._cors = cors
        self._known: set[str] = set()  # Hosts that have passed: clients send the same one with each request

    def check_host(self, request: web.BaseRequest):
        """Raises HttpError, 400 or 421, if a request is for another server."""
        values = request.headers.getall("Host", [])
        if len(values) == 1 and values[0] in self._known:
            return
        if not values and request.version < (1, 1):
            return
        match = _HOST.fullmatch(values[0]) if len(values) == 1 else None
        if not match:
            raise HttpError(400, "A request must have exactly one Host, a name or an address")
        name = _plain(match[1])
        if not self._any and name not in self._names and not is_ip(name):
            raise HttpError(
                421,
                f"Use this server's IP address, localhost, or a name in its allowed_hosts; the request was "
                f"for {name[:_QUOTED]}",
            )
        if len(self._known) < _MOST_KNOWN:
            self._known.add(values[0])

    def check_origin(self, request: web.BaseRequest):
        """Raises HttpError, 403 or 415, if a page of another origin requests a prediction without permission.

        With `application/json`, a browser first sends a preflight request; with the content types of forms, it does
        not.
        """
        site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
        if site is not None:  # a proxy may have replaced the page's Host
            is_foreign = site.lower() not in _OWN
        else:
            host = request.headers.get("Host", "").lower()
            is_foreign = origin is not None and origin.partition("://")[2].lower() != host
        if not is_foreign:
            return
        if not self._cors:
            raise HttpError(
                403,
                "Pages of other origins may only use this server if it runs with rest_api_enable_cors_support; "
                f"the Origin is {request.headers.get('Origin', 'not said')[:_QUOTED]}",
            )
        if request.content_type != "application/json":
            raise HttpError(
                415,
                "Pages of other origins must send requests with Content-Type: application/json; got "
                f"{request.content_type[:_QUOTED]}",
            )


def _plain(host):
    return bare(host).lower().removesuffix(".")
