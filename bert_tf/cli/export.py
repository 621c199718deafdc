"""Export a model for TensorFlow Serving, other runtimes or TF Hub.

    bert-tf export --model=output --export_dir=models/reviews
    bert-tf export --hub --model=demo/weights/minilm --export_dir=bert_hub

The first command writes models/reviews/1, or the next version, for TensorFlow
Serving. --model is the --output_dir of a fine-tuning command, a Hugging Face
directory with a task head, or a sentence-transformers directory, to serve its
embeddings. The second command writes bert_hub/preprocessor and
bert_hub/encoder.
"""

import dataclasses
from typing import ClassVar

from bert_tf.export.settings import ExportSettings
from bert_tf.utils.settings import UserSettings, flags_of, option, options_of


@dataclasses.dataclass(frozen=True)
class ExportCommandSettings(ExportSettings, UserSettings):
    """Model to export, and how to export it."""

    GROUP: ClassVar[str] = "Export"

    model: str | None = option(
        None,
        "Trained model: the --output_dir of a fine-tuning command, a Hugging Face directory with a task head, or a "
        "sentence-transformers directory, to serve its embeddings.",
        required=True, group="Model", essential=True, reads_model=True,
    )
    export_dir: str | None = option(
        None,
        "Model base directory, as for TensorFlow Serving; the export becomes its next version.",
        required=True, essential=True,
    )
    hub: bool = option(
        False,
        "Export a preprocessor and an encoder that can be trained further, for TF Hub's API, into two subdirectories "
        "of --export_dir; --model may then be any checkpoint.",
        group="What to do",
        excludes=tuple(flag.name for flag in flags_of(ExportSettings)),  # its encoder is float32 and takes no texts
    )
    default_seq_length: int | None = option(
        None,
        "With --hub: sequence length of the preprocessor. Default: 128, or the number of positions of the model if it "
        "has fewer.",
        low=3,
    )


SETTINGS = ExportCommandSettings
FLAGS = flags_of(SETTINGS)


def main(settings: ExportCommandSettings):
    """Writes the next version, or TF Hub's pair."""
    if settings.hub:
        return _export_hub(settings)
    if "default_seq_length" in settings.given:
        raise ValueError("--default_seq_length requires --hub. Add --hub or remove --default_seq_length.")
    from bert_tf.cli.next_command import log_after_export
    from bert_tf.export.trained_model import export_trained
    from bert_tf.runs.export_step import make_export_options

    form, calibration = make_export_options(options_of(ExportSettings, settings)), settings.calibration_file
    export_trained(settings.model, settings.export_dir, form, calibration=calibration)
    log_after_export(settings)


def _export_hub(settings):
    from bert_tf.export.hub.export import export_hub

    for path in export_hub(settings.model, settings.export_dir, settings.default_seq_length):
        print(path)
