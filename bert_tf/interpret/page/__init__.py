"""Attention, hidden states and attributions as one HTML file: the arrays of `bert_tf.inspect`, drawn in a browser.

    visualize(bert, "The cat sat on the mat.")        # in a notebook; `.save(path)` writes the file

Style and script are files in the folder `assets`, joined with the arrays of `contents.py` into one file. Each view is
one file of plain JavaScript; `base.js` comes before them and `start.js` after them. A view's declarations are its own:
its file is in a block. A policy in the page lets a browser run only this script and fetch nothing at all.
See docs/guides/interpretability.md.
"""

import base64
import functools
import hashlib
import html
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.interpret.encoded_text import load_if_path
from bert_tf.interpret.page.contents import VIEWS, PageContents, PageOptions, gather, shown_name
from bert_tf.utils.files import write_text

__all__ = ["Visualization", "visualize"]

_BEFORE, _BEHIND = ("base", "parts"), ("start",)


def build_html(found: PageContents, model: str) -> str:
    """Returns the page as HTML.

    Args:
        found: what `gather` gave.
        model: its name.
    """
    style, code = _read_asset("page.css"), script([view["name"] for view in found.facts["views"]])
    arrays = {name: {"shape": each.shape, "parts": each.parts} for name, each in found.arrays.items()}
    policy = (
        f"default-src 'none'; script-src '{_digest(code)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = "\n".join(_embed_arrays(found))
    facts = {"model": model, **found.facts, "arrays": arrays}
    facts = json.dumps(facts, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    values = {
        "policy": policy, "title": html.escape(model), "style": style, "script": code, "data": data,
        "facts": facts.replace("<", "\\u003c"),
    }  # fmt: skip
    parts = _read_asset("page.html").split("@")  # text, name, text, name, ..., text
    return "".join(values[part] if n % 2 else part for n, part in enumerate(parts))


def script(views: list[str]) -> str:
    """Returns the whole script of a page with these views."""
    assert set(views) <= set(VIEWS), views
    blocks = [f"{{\n{_read_asset(f'{name}.js')}}}\n" for name in views]
    before, behind = ([_read_asset(f"{name}.js") for name in names] for names in (_BEFORE, _BEHIND))
    return "".join(['"use strict";\n', *before, *blocks, *behind])


def _embed_arrays(found) -> Iterator[str]:
    for name, packed in found.arrays.items():
        for n, text in enumerate(packed.texts):
            yield f'<script type="text/plain" id="{name}-{n}">{text}</script>'


def _digest(text):
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"


@functools.cache
def _read_asset(name):
    return (pathlib.Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


_HEIGHT = 760  # of a notebook's cell, in the browser's pixels


class Visualization:
    """A visualization as one HTML page; a notebook displays it as the value of a cell.

    Args:
        page: HTML, the whole file.
    """

    def __init__(self, page: str) -> None:
        self.page = page

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page to an HTML file, atomically; raises OSError on failure."""
        write_text(path, self.page)

    def _repr_html_(self) -> str:
        """Returns the page in a frame that has no access to the notebook, for IPython."""
        return (
            f'<iframe title="Attention and attributions" sandbox="allow-scripts" width="100%" height="{_HEIGHT}" '
            f'style="border: 0" srcdoc="{html.escape(self.page)}"></iframe>'
        )


def visualize(
    model: Any,
    *texts: str,
    views: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    target: Any = None,
    top_k: int = 5,
) -> Visualization:
    """Visualizes a model on a text or text pair: attention heads, neurons, inputs, layers, attributions.

        bert = bert_tf.load("demo/weights/minilm")
        bert_tf.visualize(bert, "The cat sat on the mat.")  # displayed as the value of a notebook cell

    Args:
        model: a model from `bert_tf.load`, or its path.
        texts: one text, or two for a pair. A mask token in it, "[MASK]", is a word to predict.
        views: names of the views to show, from `contents.VIEWS`; the model must have each of them. If None, all that it
            has.
        layers: indices of the layers whose attention is shown, from 0; negative ones count from the end. If None, all.
        target: the prediction to explain, as `target_of` reads it. If None, the model's own.
        top_k: number of tokens to show for each masked word.

    Raises:
        ValueError: there are no texts, or more than two; a text is longer than the model's positions; the model has no
            such view, layer or target.
    """
    if not 1 <= len(texts) <= 2:
        raise ValueError(f"Pass one text, or two for a pair; got {len(texts)}.")
    if wrong := [each for each in texts if not isinstance(each, str)]:
        raise ValueError(f"`texts` must be strings; got {wrong[0]!r}.")
    model = load_if_path(model)
    if not hasattr(model, "tokenizer"):
        raise ValueError("`model` must be a model from `bert_tf.load`, or its path. An encoder alone has no tokenizer.")
    found = gather(model, texts, PageOptions(views, layers, target, top_k))
    return Visualization(build_html(found, shown_name(model.path)))
