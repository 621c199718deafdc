"""Visualize attention, neurons, layers and attributions as an HTML page.

    bert-tf visualize --model=demo/weights/minilm --output_file=page.html \\
        "The cat sat on the mat."
    bert-tf visualize --model=reader --output_file=page.html \\
        "Who sat?" "The cat sat on the mat."

Takes one text, or a text pair. The page is a single file that opens offline in
any browser.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class VisualizeSettings(UserSettings):
    """Content of the page."""

    GROUP: ClassVar[str] = "Prediction"

    model: str | None = option(
        None,
        "Model to show: a Hugging Face, sentence-transformers, KerasHub or bert_tf directory, or a TF1 checkpoint (its "
        "directory or prefix).",
        required=True, group="Model", essential=True, reads_model=True,
    )
    output_file: str | None = option(
        None, "Output file of the HTML page.", required=True, group="Output", aliases=("output",)
    )
    views: Sequence[str] = option(
        [],
        "Views of the page. Default: all that the model supports.",
        choices=("heads", "model", "neurons", "inputs", "logit_lens", "layers", "attribution"),
        renamed_choices=(("masked_words", "logit_lens"),),
    )
    layers: Sequence[str] = option(
        [],
        "Layers whose attention is shown: numbers from 0, -1 being the last. Default: all.",
    )
    target: str | None = option(
        None,
        "Target of the attribution view: a label; for a tagger the index of a word from 0, or an index and a tag, "
        "3:B-PER; for an answer its text, or its characters, 10:14. Default: the model's prediction.",
    )
    top_k: int = option(5, "Number of tokens per position in the view logit_lens.", low=1)


SETTINGS = VisualizeSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True


def main(settings: VisualizeSettings, texts):
    """Writes the page."""
    from bert_tf.checkpoints.loading import load
    from bert_tf.interpret.page import visualize
    from bert_tf.utils.files import decode_argument

    if "top_k" in settings.given and settings.views and "logit_lens" not in settings.views:
        raise ValueError("--top_k requires the view logit_lens. Add it to --views or remove --top_k.")
    layers = _layers(settings.layers)
    seen = visualize(
        load(settings.model), *map(decode_argument, texts), views=settings.views or None, layers=layers,
        target=settings.target, top_k=settings.top_k,
    )  # fmt: skip
    seen.save(settings.output_file)
    logging.info("Wrote %s (%.1f MB). Open it in a browser.", settings.output_file, len(seen.page) / 1e6)


def _layers(words):
    """Returns numbers of layers, or None for all."""
    if not words:
        return None
    try:
        return [int(word) for word in words]
    except ValueError as error:
        raise ValueError(f"--layers must be numbers separated by commas; got {','.join(words)}.") from error
