"""Counts truncated texts and unknown tokens during the tokenization that happens anyway."""

from typing import Any

import tensorflow as tf


class TokenCounter:
    """A tokenizer that counts what it tokenizes and packs; otherwise, it is the one that it wraps.

    Args:
        tokenizer: a `BaseTokenizer` or `MaskReader`.
    """

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._tokens, self._packed = [], []

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def tokenize(self, texts):
        ids = self._tokenizer.tokenize(texts)
        self._note(ids)
        return ids

    def tokenize_with_offsets(self, texts):
        ids, starts, ends = self._tokenizer.tokenize_with_offsets(texts)
        self._note(ids)
        return ids, starts, ends

    def pack(self, ids_a, ids_b=None, max_seq_length=128):
        several = (ids_a,) if ids_b is None else (ids_a, ids_b)
        needed = tf.add_n([ids.row_lengths() for ids in several]) + self._tokenizer.template.special(len(several))
        truncated = tf.reduce_sum(tf.cast(needed > tf.cast(max_seq_length, needed.dtype), tf.int64))
        self._packed.append(tf.stack([tf.size(needed, tf.int64), truncated]))
        return self._tokenizer.pack(*several, max_seq_length=max_seq_length)

    def counts(self) -> tf.Tensor:
        """Returns the sum of all counts so far, int64 [4] in the order of `TokenCounts`."""
        none = [tf.zeros([2], tf.int64)]
        return tf.concat([tf.add_n(self._packed or none), tf.add_n(self._tokens or none)], 0)

    def _note(self, ids):
        values = ids.flat_values
        unknown = tf.reduce_sum(tf.cast(values == self._tokenizer.unk_id, tf.int64))
        self._tokens.append(tf.stack([tf.size(values, tf.int64), unknown]))
