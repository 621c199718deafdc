"""The page from Python: to be kept as a file, or shown in a notebook where it stands."""

import html
from collections.abc import Sequence
from typing import Any

from bert_tf.interpret.page.gathering import Choices, gather, shown_name
from bert_tf.interpret.page.page import build

_HEIGHT = 760  # of a notebook's cell, in the browser's pixels


class Seen:
    """The inside of a model and a text as a page; a notebook shows it as the value of a cell.

    Args:
        page: HTML, the whole file.
    """

    def __init__(self, page: str):
        self.page = page

    def _repr_html_(self) -> str:
        """Returns the page in a frame, where it reaches nothing of the notebook, for IPython."""
        return (
            f'<iframe title="The inside of a model" sandbox="allow-scripts" width="100%" height="{_HEIGHT}" '
            f'style="border: 0" srcdoc="{html.escape(self.page)}"></iframe>'
        )


def see(
    model: Any,
    *texts: str,
    views: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    target: Any = None,
    top_k: int = 5,
) -> Seen:
    """Returns the inside of a model and a text, or a pair, as a page: heads, neurons, inputs, layers, attributions.

        from bert_tf.interpret.page import see
        see(bert_tf.load("uncased_L-12_H-768_A-12"), "The cat sat on the mat.")

    Args:
        model: what `bert_tf.load` gave.
        texts: one, or two for a pair. The tokenizer's mask in it, "[MASK]", is a blank.
        views: which views the page has, names among `gathering.VIEWS`, each of which the model must have; None: all
            that it has.
        layers: whose attention is shown, from 0, negative ones from the end; None: all.
        target: whose score is explained, as `targets.target_of` reads it; None: the model's own answer.
        top_k: how many pieces for a masked word.

    Raises:
        ValueError: there are no texts, or more than two; a text is longer than the model's positions; the model has no
            such view, layer or target.
    """
    if not 1 <= len(texts) <= 2:
        raise ValueError(f"There must be a text, or two for a pair. Received {len(texts)}; give one or two.")
    if wrong := [each for each in texts if not isinstance(each, str)]:
        raise ValueError(f"`texts` must be strings. Received: {wrong[0]!r}; give a text, or two for a pair.")
    return Seen(build(gather(model, texts, Choices(views, layers, target, top_k)), shown_name(model.path)))
