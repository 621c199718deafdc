"""Encodes a text with a list of texts, such as a question and its choices, or a query and its documents."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.ragged import splits_of
from bert_tf.data.truncation import count_truncated
from bert_tf.data.windowed import Windowed
from bert_tf.tasks.sequences import pack_sequences, pad_sequences

MISSING = -1e30  # the logit of a text that a list lacks: its exponential is 0
_CHUNK = 2_000  # examples tokenized at a time: few enough to keep memory small


def encode_text_lists(
    tokenizer, firsts: Sequence[str], lists: Sequence[Sequence[str]], max_seq_length: int, path: str
) -> Windowed:
    """Encodes n examples with one sequence per text of the list, truncated like pairs in `BaseTokenizer.pack`.

        [CLS] context [SEP] choice 0 [SEP]
        [CLS] context [SEP] choice 1 [SEP]

    Args:
        tokenizer: a `BaseTokenizer`.
        firsts: the first text of each example.
        lists: the texts that are paired with it, at least one.
        max_seq_length: maximum sequence length.
        path: path of the file, for the log.

    Returns:
        The n examples, without targets.
    """
    counts = np.array([len(texts) for texts in lists])

    def tokens():
        for start in range(0, len(firsts), _CHUNK):
            part = slice(start, start + _CHUNK)
            flat = [text for texts in lists[part] for text in texts]
            yield _tokenize_lists(tokenizer, firsts[part], flat, counts[part])

    sequences, needed = pack_sequences(tokenizer, tokens(), max_seq_length)
    of = np.repeat(np.arange(len(counts)), counts)
    cut = count_truncated(needed, max_seq_length, of, len(counts))
    logging.info(
        "%s: %d examples of %.1f sequences, %.1f tokens per sequence; %d exceed max_seq_length=%d and were truncated.",
        *(path, len(counts), counts.mean(), sequences.lengths.mean(), len(cut.examples), max_seq_length),
    )
    return Windowed(sequences, splits_of(counts), {}, truncation=cut)


def encode_served_lists(tokenizer, firsts, lists, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Encodes examples in the graph, like `encode_text_lists`.

    Args:
        tokenizer: a `BaseTokenizer`.
        firsts: strings [n].
        lists: strings [n, k]; blank ones are ignored, for examples with shorter lists than others.
        max_seq_length: maximum sequence length.

    Returns:
        "input_ids", "input_mask" and "segment_ids", int32 [n, K, S], where K is k, but at least 1; the mask of a
        missing text is 0.
    """
    lists = tf.pad(lists, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(lists)[1])]], constant_values="")
    texts, shape = tf.reshape(lists, [-1]), tf.shape(lists)
    tokens = _tokenize_lists(tokenizer, firsts, texts, tf.fill(shape[:1], shape[1]))
    sequences = pad_sequences(tokenizer, tokenizer.pack(*tokens, max_seq_length=max_seq_length))
    there = tf.strings.length(tf.strings.strip(texts)) > 0
    sequences["input_mask"] *= tf.cast(there, tf.int32)[:, tf.newaxis]
    width = tf.shape(sequences["input_ids"])[-1:]
    return {name: tf.reshape(values, tf.concat([shape, width], 0)) for name, values in sequences.items()}


def _tokenize_lists(tokenizer, firsts, texts, counts):
    """Returns the tokens of each text's first text and of the text; `counts`: number of texts per example."""
    firsts = tf.gather(tokenizer.tokenize(firsts), tf.repeat(tf.range(tf.size(counts)), counts))
    return firsts, tokenizer.tokenize(texts)
