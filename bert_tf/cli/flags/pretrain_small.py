"""Flags of pretrain_small: from what, for how long. What the encoder is made of stands in `recipes`."""

from bert_tf.cli.flags.corpus import CORPUS
from bert_tf.cli.flags.recipes import SMALL_VOCABULARY
from bert_tf.utils import names
from bert_tf.utils.settings import Flag

_TEXT = tuple(flag for flag in CORPUS if flag.name != "drop_junk_lines")

PRETRAIN_SMALL = (
    *_TEXT,
    Flag("output_dir", "small", "Where the encoder goes, and where an interrupted run is found again."),
    Flag("minutes", 45.0, "How long it may take, all in.", "float", low=0),
    Flag("teacher", None, "A model's folder: the encoder is made of some of its layers and learns from it, with its "
         "vocabulary and width."),  # fmt: skip
    Flag("vocab_file", None, "The vocabulary; default: one is learned."),
    Flag("vocab_size", SMALL_VOCABULARY, "Pieces of the one that is learned.", "integer", low=1),
    Flag("do_lower_case", None, "Lowercase the text; default: what tokenizer_config.json beside --vocab_file, or in "
         "--teacher, says, else true.", "bool"),  # fmt: skip
    Flag("eval_file", None, "Text that is not trained on, to score on at each checkpoint and in the end: files, globs "
         "or folders.", "list"),  # fmt: skip
    Flag("precision", "auto", "What layers compute in; auto: mixed_bfloat16 where the processor multiplies in it, "
         "else float32.", choices=("auto", *names.PRECISIONS)),  # fmt: skip
    Flag("seed", 0, "For new weights, the order of the examples and masks.", "integer", low=0),
)
