"""The page: its style and its script, in files beside this one, joined with what was found into one file of HTML.

Each view is one file of plain JavaScript; `base.js` stands before them and `start.js` behind them. What a view declares
is its own: its file stands in a block. A policy in the page lets a browser run nothing but this script and ask for
nothing at all.
"""

import base64
import functools
import hashlib
import html
import json
import pathlib
from collections.abc import Iterator

from bert_tf.interpret.page.gathering import VIEWS, Found

_BEFORE, _BEHIND = ("base", "parts"), ("start",)


def build(found: Found, model: str) -> str:
    """Returns the page as HTML.

    Args:
        found: what `gather` gave.
        model: its name.
    """
    style, code = _content("page.css"), script([view["name"] for view in found.facts["views"]])
    arrays = {name: {"shape": each.shape, "parts": each.parts} for name, each in found.arrays.items()}
    policy = (
        f"default-src 'none'; script-src '{_digest(code)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    values = {
        "policy": policy, "title": html.escape(model), "style": style, "script": code, "data": "\n".join(_data(found)),
        "facts": _json({"model": model, **found.facts, "arrays": arrays}),
    }  # fmt: skip
    parts = _content("page.html").split("@")  # text, name, text, name, ..., text
    return "".join(values[part] if n % 2 else part for n, part in enumerate(parts))


def script(views: list[str]) -> str:
    """Returns the whole script of a page with these views."""
    assert set(views) <= set(VIEWS), views
    blocks = [f"{{\n{_content(f'{name}.js')}}}\n" for name in views]
    before, behind = ([_content(f"{name}.js") for name in names] for names in (_BEFORE, _BEHIND))
    return "".join(['"use strict";\n', *before, *blocks, *behind])


def _data(found) -> Iterator[str]:
    for name, packed in found.arrays.items():
        for n, text in enumerate(packed.texts):
            yield f'<script type="text/plain" id="{name}-{n}">{text}</script>'


def _json(value):
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _digest(text):
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"


@functools.cache
def _content(name):
    return (pathlib.Path(__file__).parent / name).read_text(encoding="utf-8")
