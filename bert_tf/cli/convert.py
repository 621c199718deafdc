"""Convert a model to another checkpoint format, and verify the result.

    bert-tf convert --from=uncased_L-12_H-768_A-12 --to=bert-base \\
        --format=huggingface

Formats: tf1 (google-research/bert), huggingface, sentence_transformers,
keras_hub and bert_tf.
"""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

FLAGS = (
    Flag(
        "from", None,
        "Model to convert: a Hugging Face, sentence-transformers or bert_tf directory, a KerasHub preset, or the "
        "prefix of a TF1 checkpoint.",
        required=True, group="Model",
    ),
    Flag("to", None, "Output directory; it must not exist yet, or be empty.", required=True, group="Output"),
    Flag("format", None, "Format of the converted model.", choices=names.FORMATS, required=True, group="Export"),
    Flag(
        "leave_out", [],
        "Weights that may be left out, by bert_tf's paths (or by the file's names if bert_tf has none), and settings "
        "that may change: regular expressions, such as cls/.* or hidden_act.",
        "list", group="Export",
    ),
    Flag(
        "with_optimizer", False,
        "Convert Adam's moments and the step too; with --format=bert_tf, everything that a run needs to resume.",
        "bool", group="Export",
    ),
    Flag("overwrite", False, "Replace the model in --to once the new one is complete.", "bool", group="Output"),
    Flag(
        "do_lower_case", None,
        "Lowercase the text. Default: as the checkpoint says, otherwise true.",
        "bool", group="Model",
    ),
)  # fmt: skip


def main(settings):
    """Writes the new directory, or nothing, and prints the proof."""
    from bert_tf.export.conversion.convert import convert_model

    options = {name: settings.get(name) for name in ("leave_out", "with_optimizer", "overwrite", "do_lower_case")}
    print(convert_model(settings.get("from"), settings.to, settings.format, **options))
