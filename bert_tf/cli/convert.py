"""Convert a model to another checkpoint format, and verify the result.

    bert-tf convert --from=uncased_L-12_H-768_A-12 --to=bert-base \\
        --format=huggingface

Formats: tf1 (google-research/bert), huggingface, sentence_transformers,
keras_hub and bert_tf.
"""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

FLAGS = (
    Flag("from", None, "The model: a Hugging Face, sentence-transformers or bert_tf directory, a KerasHub preset, or a "
         "TF1 checkpoint's prefix.", required=True),
    Flag("to", None, "Where it goes: a directory that does not exist yet, or is empty.", required=True),
    Flag("format", None, "The form that it shall have there.", choices=names.FORMATS, required=True),
    Flag("leave_out", [], "Weights that need not come along, by our paths, or the file's names where we know none, and "
         "settings that may change: regular expressions, such as cls/.* or hidden_act.", "list"),
    Flag("with_optimizer", False, "Adam's moments and the step too; with --format=bert_tf all that a run needs to go "
         "on.", "bool"),
    Flag("overwrite", False, "Replace the model in --to, once the new one is whole.", "bool"),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)  # fmt: skip


def main(settings):
    """Writes the new directory, or nothing, and prints the proof."""
    from bert_tf.export.conversion.convert import convert_model

    options = {name: settings.get(name) for name in ("leave_out", "with_optimizer", "overwrite", "do_lower_case")}
    print(convert_model(settings.get("from"), settings.to, settings.format, **options))
