"""Flags of conversion: what in which form, and the form in which training leaves its result too."""

from bert_tf.utils import names
from bert_tf.utils.settings import Flag

CONVERT = (
    Flag("from", None, "The model: a Hugging Face, sentence-transformers or bert_tf directory, a KerasHub preset, or a "
         "TF1 checkpoint's prefix.", required=True),  # fmt: skip
    Flag("to", None, "Where it goes: a directory that does not exist yet, or is empty.", required=True),
    Flag("format", None, "The form that it shall have there.", choices=names.FORMATS, required=True),
    Flag("leave_out", [], "Weights that need not come along, by our paths, or the file's names where we know none, and "
         "settings that may change: regular expressions, such as cls/.* or hidden_act.", "list"),  # fmt: skip
    Flag("with_optimizer", False, "Adam's moments and the step too; with --format=bert_tf all that a run needs to go "
         "on.", "bool"),  # fmt: skip
    Flag("overwrite", False, "Replace the model in --to, once the new one is whole.", "bool"),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)

SAVE = (
    Flag("save_format", [], "Leave the trained model in these forms too, each in a folder of --output_dir called like "
         f"it: {', '.join(names.FORMATS)}.", "list", choices=names.FORMATS),  # fmt: skip
)
