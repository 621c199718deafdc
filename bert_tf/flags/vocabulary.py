"""Flags of vocabularies: how one is learned, and how a checkpoint's is extended."""

from bert_tf.flags.corpus import CORPUS
from bert_tf.settings import Flag, with_attributes

TRAIN_VOCABULARY = (
    *CORPUS,
    Flag("output_file", "vocab.txt", "Where the vocabulary goes; a report goes beside it."),
    Flag("vocab_size", 30522, "Pieces, special ones included.", "integer", low=1),
    Flag("do_lower_case", True, "Lowercase the text and strip accents.", "bool"),
    Flag("unused_pieces", 0, "Rows to keep free, [unused0] and on; Google's vocabularies have 99 to 994.",
         "integer", low=0),  # fmt: skip
    Flag("min_count", 2, "How often a piece must occur at least.", "integer", low=1),
    Flag("max_words", 500_000, "Learn from so many distinct words, the most frequent ones; memory and time grow with "
         "it, some 4 kB and 0.1 ms a word and try.", "integer", low=1),  # fmt: skip
    Flag("max_characters", 1000, "So many characters become pieces; rarer ones will be [UNK]. Chinese needs some 8000.",
         "integer", low=1),  # fmt: skip
    Flag("held_out_file", None, "Text for the report: files, globs or folders. Default: 1 % of --input_file, which is "
         "not learned from.", "list"),  # fmt: skip
    Flag("compare_vocab_file", None, "Another vocabulary, for the report beside this one."),
)

EXTEND_VOCABULARY = (
    *with_attributes(CORPUS, "input_file", required=False),
    Flag("model", None, "The checkpoint: a Hugging Face, sentence-transformers or bert_tf directory, or a TF1 "
         "checkpoint's prefix.", required=True),  # fmt: skip
    Flag("output_dir", None, "Where the new checkpoint goes: a directory that is not there yet, or empty.",
         required=True),  # fmt: skip
    Flag("words_file", None, "The words to add, one a line. Default: those of --input_file that are worth most."),
    Flag("num_words", 500, "Words to take from --input_file at most.", "integer", low=1),
    Flag("min_count", 5, "How often such a word must occur at least.", "integer", low=1),
    Flag("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.", "bool"),
)
