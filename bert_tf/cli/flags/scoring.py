"""Flags of texts that a model scores."""

from bert_tf.cli.flags.jobs import JOB
from bert_tf.utils.settings import Flag, with_attributes, with_default

_ROWS = with_default(JOB, rows_per_part=256)  # a text of 20 pieces is read 20 times

SCORE_TEXT = (
    Flag("model", None, "A checkpoint with a masked-LM head: a Hugging Face directory, what run_pretraining left in "
         "--output_dir, or a TF1 checkpoint's prefix.", required=True),  # fmt: skip
    *with_attributes(with_attributes(_ROWS, "input_file", required=False), "output_file", required=False),
    Flag("pieces", False, "Say what each piece of a text adds to its score.", "bool"),
    Flag("json", False, "Print the scores of texts that are arguments as JSON, one object per line.", "bool"),
    Flag("vocab_file", None, "The vocabulary; default: the one beside the checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("max_seq_length", None, "Longest text in word pieces, special tokens included; default: as many as the model "
         "has positions.", "integer", low=3),  # fmt: skip
)
