"""Flags of tagging. Light: --help needs no TensorFlow."""

from bert_tf.utils.names import LAYERS
from bert_tf.utils.settings import Flag

_SENTENCES = "Sentences as columns, a word per line (CoNLL's format), or .jsonl with tokens and tags; also packed (.gz)"
FLAGS = (
    Flag("train_file", None, f"{_SENTENCES}, to train on."),
    Flag("eval_file", None, f"{_SENTENCES}, to score on."),
    Flag("predict_file", None, f"{_SENTENCES}, to tag; tags are ignored."),
    Flag("text_column", 0, "Column of the word, by number from 0; a negative one counts from the end.", "integer"),
    Flag("tag_column", -1, "Column of the tag, likewise.", "integer"),
    Flag("features", None, "Freeze the encoder and tag by these of its layers, with two layers of BiLSTM on them; "
         "default: fine-tune the encoder.", choices=LAYERS),  # fmt: skip
    Flag("tag_scheme", "auto", "How tags mark where an entity begins and ends; auto: detected from the tags.",
         choices=("auto", "iob1", "iob2", "bioes")),  # fmt: skip
    Flag("doc_stride", None, "In sentences over --max_seq_length, word pieces from the start of one window to that of "
         "the next; default: half of --max_seq_length.", "integer", low=1),  # fmt: skip
)
