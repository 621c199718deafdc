"""Convert a model to another checkpoint format, and verify the result.

    bert-tf convert --from=uncased_L-12_H-768_A-12 --to=bert-base \\
        --format=huggingface

Formats: tf1 (google-research/bert), huggingface, sentence_transformers,
keras_hub and bert_tf.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.utils import names
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class ConvertSettings(UserSettings):
    """Model to convert, and the target format."""

    GROUP: ClassVar[str] = "Export"

    source: str | None = option(
        None,
        "Model to convert: a Hugging Face, sentence-transformers or bert_tf directory, a KerasHub preset, or a TF1 "
        "checkpoint (its directory or prefix).",
        name="from", required=True, group="Model", reads_model=True,
    )
    to: str | None = option(
        None,
        "Output directory; it must not exist yet, or be empty.",
        required=True, group="Output",
    )
    format: str | None = option(None, "Format of the converted model.", choices=names.FORMATS, required=True)
    leave_out: Sequence[str] = option(
        [],
        "Weights that may be left out, by bert_tf's paths (or by the file's names for weights without a path), and "
        "settings that may change: regular expressions, such as cls/.* or hidden_act.",
    )
    with_optimizer: bool = option(
        False,
        "Convert Adam's moments and the step too; with --format=bert_tf, everything that a run needs to resume.",
    )
    overwrite: bool = option(False, "Replace the model in --to once the new one is complete.", group="Output")
    do_lower_case: bool | None = option(
        None,
        "Lowercase the text. Default: the checkpoint's setting, otherwise true.",
        group="Model",
    )


SETTINGS = ConvertSettings
FLAGS = flags_of(SETTINGS)


def main(settings: ConvertSettings):
    """Writes the new directory, or nothing, and prints the proof."""
    from bert_tf.export.conversion.convert import convert_model

    options = {name: getattr(settings, name) for name in ("leave_out", "with_optimizer", "overwrite", "do_lower_case")}
    print(convert_model(settings.source, settings.to, settings.format, **options))
