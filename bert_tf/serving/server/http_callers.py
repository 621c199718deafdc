"""Which browsers a server listens to: by the name that it is asked by, and by the page that asks.

A browser runs pages from anywhere, and whoever made one may have it ask servers that only this machine or network can
reach. Two headers, which no page can forge, tell: Host, the name in the address that was asked, and Origin, from where
the page came. Programs that are no browsers send no Origin and any Host.
"""

import re
from collections.abc import Sequence

from aiohttp import web

from bert_tf.serving.addresses import bare, is_everywhere, is_ip
from bert_tf.serving.server.http_body import HttpError

_ANY = "*"
_LOOPBACK = frozenset({"localhost"})  # its addresses are addresses, which pass anyway
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s,]+)(?::\d*)?")
_NAME = re.compile(r"[^\[\]:/?#@\s,*]+")
_OWN = ("same-origin", "none")  # what Sec-Fetch-Site says where the page is ours, or there is none
_MOST_KNOWN = 100  # Hosts that are not looked at again
_QUOTED = 100  # characters of a header in a message


class CallersAllowed:
    """Checks the heads of requests.

    A page whose author controls its own name can point that name at this machine, once it is loaded, and would then be
    of one origin with the server (DNS rebinding): so a Host must be a name by which the server is meant to be asked. An
    address is one always, since no name leads to it.
    """

    def __init__(self, host: str, allowed_hosts: Sequence[str], cors: bool):
        """Takes the names.

        Args:
            host: where the server listens; where that is everywhere and no names are given, any name will do.
            allowed_hosts: names besides "localhost" and `host`; "*" stands for any.
            cors: whether pages of other origins may ask.

        Raises:
            ValueError: a name is none.
        """
        for name in allowed_hosts:
            if name != _ANY and not is_ip(bare(name)) and not _NAME.fullmatch(name):
                raise ValueError(
                    "`allowed_hosts` must be names of this server, as they stand in its URLs without https:// and "
                    f"port, or * for any. Received: {name!r}; models.example.com is one."
                )
        self._any = _ANY in allowed_hosts or not allowed_hosts and is_everywhere(host)
        self._names = _LOOPBACK | {_plain(name) for name in (host, *allowed_hosts)}
        self._cors = cors
        self._known: set[str] = set()  # Hosts that have passed: clients send the same with each request

    def check_host(self, request: web.BaseRequest):
        """Raises HttpError, 400 or 421, where a request is for another server."""
        values = request.headers.getall("Host", [])
        if len(values) == 1 and values[0] in self._known:
            return
        if not values and request.version < (1, 1):
            return
        match = _HOST.fullmatch(values[0]) if len(values) == 1 else None
        if not match:
            raise HttpError(400, "A request must have one Host, which is a name or an address")
        name = _plain(match[1])
        if not self._any and name not in self._names and not is_ip(name):
            raise HttpError(
                421,
                f"This server must be asked by an address, as localhost, or by a name in its allowed_hosts; it was "
                f"asked as {name[:_QUOTED]}",
            )
        if len(self._known) < _MOST_KNOWN:
            self._known.add(values[0])

    def check_origin(self, request: web.BaseRequest):
        """Raises HttpError, 403 or 415, where a page of another origin asks for a prediction and may not.

        With `application/json` a browser asks the server first whether the page may; with what forms send it does not.
        """
        if not _is_foreign(request):
            return
        if not self._cors:
            raise HttpError(
                403,
                "A page of another origin may ask this server only if it runs with rest_api_enable_cors_support; "
                f"the Origin is {request.headers.get('Origin', 'not said')[:_QUOTED]}",
            )
        if request.content_type != "application/json":
            raise HttpError(
                415,
                "A page of another origin must send its question with Content-Type: application/json; it sent "
                f"{request.content_type[:_QUOTED]}",
            )


def _plain(host):
    return bare(host).lower().removesuffix(".")


def _is_foreign(request):
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None:  # a proxy may have put another Host in place of the page's
        return site.lower() not in _OWN
    return origin is not None and origin.partition("://")[2].lower() != request.headers.get("Host", "").lower()
