"""Classify texts by labels in words, without training.

    bert-tf zero-shot --model=models/nli --labels=traffic,sports,politics \\
        --template="This text is about {}." "The bridge is closed."
    bert-tf zero-shot --model=models/nli --labels=urgent,angry \\
        --multi_label --json --input_file=mails.txt

The model is a classifier of natural language inference (NLI), which tells
whether a text entails the sentence of a label. Texts are arguments, or lines of
--input_file or of standard input. With --export_dir, exports the model with its
labels instead, for servers and `bert-tf predict`.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.cli.direct_export import read_export_form
from bert_tf.export.settings import ExportFormSettings
from bert_tf.utils.argument_texts import read_argument_texts
from bert_tf.utils.json_files import printable_json
from bert_tf.utils.names import NLI_TEMPLATE
from bert_tf.utils.settings import UserSettings, flags_of, option

_ROWS = 256  # texts predicted, and printed, at a time


@dataclasses.dataclass(frozen=True)
class ZeroShotSettings(ExportFormSettings, UserSettings):
    """The labels, and the model that chooses among them."""

    GROUP: ClassVar[str] = "Model"

    model: str | None = option(
        None,
        "Text classifier with a label that starts with `entail`: the --output_dir of `train classifier` or a Hugging "
        "Face directory.",
        required=True, essential=True, reads_model=True,
    )
    labels: Sequence[str] = option(
        [],
        "Labels to choose from, in words, separated by commas.",
        required=True, essential=True, group="Prediction",
    )
    template: str = option(
        NLI_TEMPLATE,
        "Sentence that states that a label applies; {} is the label.",
        essential=True, group="Prediction",
    )
    multi_label: bool = option(
        False,
        "Any number of labels may apply to a text: each has an independent probability, as a single label always has.",
        essential=True, group="Prediction",
    )
    max_seq_length: int | None = option(
        None,
        "Maximum tokens of a text and the sentence of a label together, including special tokens. Default: as in "
        "training, otherwise the number of positions of the model.",
        low=8, group="Prediction",
    )
    batch_size: int = option(64, "Pairs of a text and a label per batch.", low=1, group="Prediction")
    input_file: str | None = option(
        None,
        "File of texts, one per line; may be gzipped (.gz). Default: the arguments, otherwise standard input.",
        group="Data", essential=True,
    )
    json: bool = option(False, "Print JSON, one object per text.", group="Output", essential=True)
    export_dir: str | None = option(
        None,
        "Directory to export the model to as a SavedModel, instead of predicting; the export becomes its next "
        "version.",
        group="Export", essential=True, excludes=("input_file", "json", "batch_size"),
    )


SETTINGS = ZeroShotSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True


def main(settings: ZeroShotSettings, texts):
    """Prints the labels of each text, or exports the model."""
    from bert_tf.inference.zero_shot import ZeroShot

    form = read_export_form(settings, texts)
    labels = [label.strip() for label in settings.labels]
    zero_shot = ZeroShot(settings.model, labels, settings.template, settings.multi_label, settings.max_seq_length)
    if settings.export_dir is not None:
        logging.info("Exported %s as %s", settings.model, zero_shot.export(settings.export_dir, form))
        return
    read = read_argument_texts(texts, settings.input_file, "as an argument, in `input_file` or on standard input")
    for start in range(0, len(read), _ROWS):
        part = read[start : start + _ROWS]
        for text, answer in zip(part, zero_shot(part, settings.batch_size), strict=True):
            print(printable_json({"text": text, **answer}) if settings.json else _format(text, answer), flush=True)


def _format(text, answer):
    """Formats one prediction: the text, then one probability and label per line, the most probable first."""
    ranked = sorted(answer["probabilities"].items(), key=lambda each: -each[1])
    return "\n".join([text, *(f"  {probability:.4f}  {label}" for label, probability in ranked)])
