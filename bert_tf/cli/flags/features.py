"""Flags of the features of a frozen encoder: google-research/bert's of extract_features.py, and ours."""

from bert_tf.cli.flags.jobs import JOB
from bert_tf.utils import names
from bert_tf.utils.settings import Flag, with_default

_NOTHING = "No effect here."

EXTRACT_FEATURES = (
    *with_default(JOB, rows_per_part=256),  # features of every piece are many numbers
    Flag("model", None, "The encoder: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 "
         "checkpoint's prefix."),  # fmt: skip
    Flag("init_checkpoint", None, "The same, by google-research/bert's name for it."),
    Flag("bert_config_file", None, "The model's shape; default: the one beside the checkpoint."),
    Flag("vocab_file", None, "The vocabulary; default: the one beside the checkpoint."),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
    Flag("layers", "-1,-2,-3,-4", "Whose features: indices of layers, -1 the last, with commas between them; or one "
         f"of {', '.join(names.LAYERS)}."),  # fmt: skip
    Flag("pooling", None, "One vector for each text, made so of its pieces'; default: a vector for each piece.",
         choices=names.POOLINGS),  # fmt: skip
    Flag("unit", "piece", "Without --pooling: a vector for each piece, or for each word: the mean of its pieces'.",
         choices=("piece", "word")),  # fmt: skip
    Flag("max_seq_length", 128, "Longest row in word pieces, special tokens included; what is longer is cut.",
         "integer", low=3),  # fmt: skip
    Flag("batch_size", 32, _NOTHING, "integer"),
    Flag("use_one_hot_embeddings", False, _NOTHING, "bool"),
    Flag("use_tpu", False, _NOTHING, "bool"),
    Flag("master", None, _NOTHING),
    Flag("num_tpu_cores", 8, _NOTHING, "integer"),
)
