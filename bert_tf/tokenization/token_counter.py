"""Counts truncated texts and unknown tokens during the tokenization that happens anyway."""

from typing import Any

import tensorflow as tf

from bert_tf.utils.token_counts import TokenCounts


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
        tokens = tf.add_n([ids.row_lengths() for ids in several])
        unknown = tf.add_n([tf.reduce_sum(self._unknown(ids), axis=1) for ids in several])
        needed = tokens + self._tokenizer.template.special(len(several))
        truncated = needed > tf.cast(max_seq_length, needed.dtype)
        mostly_unknown = 2 * unknown > tf.cast(tokens, tf.int64)
        self._packed.append(tf.stack([tf.size(needed, tf.int64), *map(_number, (truncated, mostly_unknown))]))
        return self._tokenizer.pack(*several, max_seq_length=max_seq_length)

    def counts(self) -> tf.Tensor:
        """Returns the sum of all counts so far, int64 in the order of `TokenCounts`."""
        texts, truncated, unknown_texts = tf.unstack(tf.add_n(self._packed or [tf.zeros([3], tf.int64)]))
        tokens, unknown = tf.unstack(tf.add_n(self._tokens or [tf.zeros([2], tf.int64)]))
        return tf.stack(TokenCounts(texts, truncated, tokens, unknown, unknown_texts))

    def _note(self, ids):
        values = ids.flat_values
        self._tokens.append(tf.stack([tf.size(values, tf.int64), tf.reduce_sum(self._unknown(ids).flat_values)]))

    def _unknown(self, ids):
        """Returns 1 for the tokens that are not in the vocabulary, and 0 for the others."""
        return ids.with_flat_values(tf.cast(ids.flat_values == self._tokenizer.unk_id, tf.int64))


def _number(mask):
    """Returns how many are true."""
    return tf.reduce_sum(tf.cast(mask, tf.int64))
