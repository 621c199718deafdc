"""The page to try a model on: its files, and the list of models that it begins with.

The rest it asks over REST, as any other client does. It fetches nothing from anywhere else, and its
Content-Security-Policy forbids a browser to.
"""

import functools
import json
import pathlib
from collections.abc import Callable

from bert_tf.serving.server.http_server import StaticPage

_FILES = {
    "/": ("page.html", "text/html"),
    "/ui/page.css": ("page.css", "text/css"),
    "/ui/page.js": ("page.js", "text/javascript"),
    "/ui/answers.js": ("answers.js", "text/javascript"),
    "/ui/elements.js": ("elements.js", "text/javascript"),
    "/ui/explanations.js": ("explanations.js", "text/javascript"),
}
_MODELS = "/ui/models.json"

HEADERS = {
    "Cache-Control": "no-cache",  # a server that is newer brings a newer page
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def pages(catalog) -> dict[str, Callable[[], StaticPage]]:
    """Returns {path: function} of all that the page is made of.

    Args:
        catalog: of the served models.
    """
    files = {path: functools.partial(_file, *each) for path, each in _FILES.items()}
    return files | {
        _MODELS: lambda: StaticPage(200, json.dumps(_models(catalog)).encode(), "application/json", HEADERS)
    }


def _file(name, kind):
    return StaticPage(200, _content(name), f"{kind}; charset=utf-8", HEADERS)


def _models(catalog):
    """Returns the models with the versions that can be asked, the newest first."""
    names = sorted(catalog.names())
    return {"models": [{"name": name, "versions": _available(catalog.states(name))} for name in names]}


def _available(states):
    # As strings: a version may be larger than what JavaScript can count to.
    return [str(number) for number in sorted(states, reverse=True) if states[number].name == "AVAILABLE"]


@functools.cache
def _content(name):
    return (pathlib.Path(__file__).parent / name).read_bytes()
