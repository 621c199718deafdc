"""The page to try a model on: its files, and the list of models that it begins with.

The rest it asks over REST, as any other client does. It fetches nothing from anywhere else, and its
Content-Security-Policy forbids a browser to.
"""

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

_FILES = {
    "/": ("page.html", "text/html"),
    "/ui/page.css": ("page.css", "text/css"),
    "/ui/page.js": ("page.js", "text/javascript"),
    "/ui/answers.js": ("answers.js", "text/javascript"),
}
_MODELS = "/ui/models.json"

HEADERS = {
    "Cache-Control": "no-cache",  # a server that is newer brings a newer page
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Reply(NamedTuple):
    """What a browser gets.

    Attributes:
        status: of HTTP.
        content_type: with its charset.
        body: of the reply.
        headers: {name: value} besides the type and the length.
    """

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = HEADERS


def answer(catalog, method: str, path: str) -> Reply | None:
    """Returns what the page's own paths hold, None for a path or a method that is not the page's.

    Args:
        catalog: of the served models.
        method: of HTTP; only "GET" and "HEAD" are answered.
        path: without the query.
    """
    if method not in ("GET", "HEAD"):
        return None
    if path == _MODELS:
        return Reply(200, "application/json", json.dumps(_models(catalog)).encode())
    if path not in _FILES:
        return None
    name, content_type = _FILES[path]
    return Reply(200, f"{content_type}; charset=utf-8", _content(name))


def _models(catalog):
    """Returns the models with the versions that can be asked, the newest first."""
    return {"models": [{"name": name, "versions": _available(catalog.states(name))} for name in sorted(catalog.names)]}


def _available(states):
    # As strings: a version may be larger than what JavaScript can count to.
    return [str(number) for number in sorted(states, reverse=True) if states[number].name == "AVAILABLE"]


@functools.cache
def _content(name):
    return (pathlib.Path(__file__).parent / name).read_bytes()
