"""The web page for trying a model: its files, and its initial list of models.

It gets the rest over REST, like any other client. It fetches nothing from elsewhere, and its
Content-Security-Policy forbids this in the browser.
"""

import json
import pathlib
from collections.abc import Callable

from bert_tf.serving.server.http_server import StaticPage

_PAGE_FILES = {
    "/": ("page.html", "text/html"),
    "/ui/page.css": ("page.css", "text/css"),
    "/ui/page.js": ("page.js", "text/javascript"),
    "/ui/answers.js": ("answers.js", "text/javascript"),
    "/ui/elements.js": ("elements.js", "text/javascript"),
    "/ui/examples.js": ("examples.js", "text/javascript"),
    "/ui/explanations.js": ("explanations.js", "text/javascript"),
    "/ui/requests.js": ("requests.js", "text/javascript"),
}
_MODELS_PATH = "/ui/models.json"
PATHS = (*_PAGE_FILES, _MODELS_PATH)

PAGE_HEADERS = {
    "Cache-Control": "no-cache",  # a newer server has a newer page
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def pages(registry) -> dict[str, Callable[[], StaticPage]]:
    """Returns {path: function} of all files of the page.

    Args:
        registry: registry of the served models.
    """
    folder = pathlib.Path(__file__).parent / "page"
    files = {
        path: StaticPage(200, (folder / name).read_bytes(), f"{kind}; charset=utf-8", PAGE_HEADERS)
        for path, (name, kind) in _PAGE_FILES.items()
    }

    def list_models():
        models = []
        for name in sorted(registry.names()):
            states = registry.states(name)
            # As strings, because a version may exceed JavaScript's safe integers.
            versions = [str(number) for number in sorted(states, reverse=True) if states[number].name == "AVAILABLE"]
            models.append({"name": name, "versions": versions})
        return StaticPage(200, json.dumps({"models": models}).encode(), "application/json", PAGE_HEADERS)

    return {path: lambda page=page: page for path, page in files.items()} | {_MODELS_PATH: list_models}
