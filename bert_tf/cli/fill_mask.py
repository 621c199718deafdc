"""Predict masked tokens with a pretrained model.

    bert-tf fill-mask --model=uncased_L-12_H-768_A-12 \\
        "The man went to the [MASK] ."

Texts are arguments, or lines of --input_file or of standard input. With
--export_dir, exports the model as a SavedModel instead, which makes the same
predictions.
"""

import dataclasses
from typing import ClassVar

from absl import logging

from bert_tf.cli.direct_export import read_export_form
from bert_tf.export.settings import ExportFormSettings
from bert_tf.tokenization.settings import TokenizerSettings
from bert_tf.utils.json_files import printable_json
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class FillMaskSettings(TokenizerSettings, ExportFormSettings, UserSettings):
    """Model that predicts masked tokens, and how to run it."""

    GROUP: ClassVar[str] = "Model"

    model: str | None = option(
        None,
        "Checkpoint with a masked-LM head: a Hugging Face directory, the --output_dir of `pretrain run`, or a TF1 "
        "checkpoint (its directory or prefix).",
        required=True, essential=True, reads_model=True,
    )
    input_file: str | None = option(
        None,
        "File of texts, one per line; may be gzipped (.gz). Default: the arguments, otherwise standard input.",
        group="Data", essential=True,
    )
    top_k: int = option(5, "Number of predicted tokens per [MASK].", low=1, group="Prediction")
    json: bool = option(False, "Print JSON, one object per line for each [MASK].", group="Output", essential=True)
    export_dir: str | None = option(
        None,
        "Directory to export the model to as a SavedModel, instead of predicting; the export becomes its next "
        "version.",
        group="Export", essential=True, excludes=("input_file", "json"),
    )


SETTINGS = FillMaskSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True


def main(settings: FillMaskSettings, texts):
    """Prints an answer for each [MASK], or exports the model."""
    from bert_tf.inference.fill_mask import Filler, format_answer, read_masked_texts

    form = read_export_form(settings, texts)
    tokenizing = settings.vocab_file, settings.do_lower_case, settings.max_seq_length
    filler = Filler(settings.model, settings.top_k, *tokenizing, form.variable_dtype)
    if settings.export_dir is not None:
        logging.info("Exported %s as %s", settings.model, filler.export(settings.export_dir, form))
        return
    mask = filler.reader.mask
    for answer in filler(read_masked_texts(texts, settings.input_file, mask)):
        print(printable_json(answer) if settings.json else format_answer(answer, mask), flush=True)
