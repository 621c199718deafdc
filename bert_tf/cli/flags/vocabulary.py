"""Flags of vocabularies: how one is learned, and how a checkpoint's is extended."""

from bert_tf.cli.flags.corpus import CORPUS
from bert_tf.utils.settings import Flag, with_attributes

TRAIN_VOCABULARY = (
    *CORPUS,
    Flag("output_file", "vocab.txt", "Where the vocabulary goes; a report goes beside it."),
    Flag("vocab_size", 30522, "Pieces, special ones included.", "integer", low=1),
    Flag("do_lower_case", True, "Lowercase the text and strip accents.", "bool"),
    Flag("unused_pieces", 0, "Rows to keep free, [unused0] and so on; Google's vocabularies have 99 to 994.",
         "integer", low=0),  # fmt: skip
    Flag("min_count", 2, "Least number of times that a piece must occur.", "integer", low=1),
    Flag("max_words", 500_000, "Learn from this many distinct words, the most frequent ones; memory and time grow with "
         "it, some 4 kB and 0.1 ms per word and try.", "integer", low=1),  # fmt: skip
    Flag("max_characters", 1000, "This many characters become pieces; rarer ones become [UNK]. Chinese needs about "
         "8000.", "integer", low=1),  # fmt: skip
    Flag("held_out_file", None, "Text for the report: files, globs or folders. Default: 1 % of --input_file, which is "
         "not learned from.", "list"),  # fmt: skip
    Flag("compare_vocab_file", None, "Another vocabulary, for the report beside this one."),
)

EXTEND_VOCABULARY = (
    *with_attributes(CORPUS, "input_file", required=False),
    Flag("model", None, "The checkpoint: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 "
         "checkpoint's prefix.", required=True),  # fmt: skip
    Flag("output_dir", None, "Where the new checkpoint goes: a directory that does not exist yet, or is empty.",
         required=True),  # fmt: skip
    Flag("words_file", None, "The words to add, one per line. Default: those of --input_file that save most pieces."),
    Flag("num_words", 500, "Most words to take from --input_file.", "integer", low=1),
    Flag("min_count", 5, "Least number of times that such a word must occur.", "integer", low=1),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)
