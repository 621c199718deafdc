"""Graph operations on flat values: equivalents of `tf.gather`, `tf.searchsorted` and ragged-tensor ops that need one or
two operations instead of ten, which would take longer than tokenizing a single text."""

import tensorflow as tf

from bert_tf.tokenization.characters import PAGE, PAGE_BITS


def take(values, indices):
    """Returns values[indices]: values [n, ...], int32 or int64 indices of any shape."""
    return tf.raw_ops.Gather(params=values, indices=indices)


def where(mask):
    """Returns int64 [true], the positions at which mask, bool [n], is true."""
    return tf.squeeze(tf.where(mask), 1)


def lower_bound(ascending, values):
    """Returns, for each of `values` [m], how many of `ascending` [n] (same dtype) are less: int64 [m]."""
    return _bound(tf.raw_ops.LowerBound, ascending, values)


def upper_bound(ascending, values, dtype=tf.int64):
    """Returns, for each of `values` [m], how many of `ascending` [n] (same dtype) do not exceed it: `dtype` [m]."""
    return _bound(tf.raw_ops.UpperBound, ascending, values, dtype)


def _bound(operation, ascending, values, dtype=tf.int64):
    row = operation(sorted_inputs=tf.expand_dims(ascending, 0), values=tf.expand_dims(values, 0), out_type=dtype)
    return tf.squeeze(row, 0)


def with_end(first, values):
    """Returns int64 [rows + 1], the splits of rows that begin at `first`, int64 [rows], and cover all of `values`."""
    return tf.concat([first, tf.shape(values, tf.int64)], 0)


def rows_of(splits, values):
    """Returns int64 [n], the row that each of `values`, [n, ...], is in; splits: int64 [rows + 1]."""
    return upper_bound(splits, tf.range(tf.size(values, tf.int64))) - 1


def ragged(values, splits):
    """Returns the RaggedTensor of values with int64 splits, which are not checked."""
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def shift(values, by):
    """Returns values moved `by` positions to the right, or to the left if `by` is negative, with zeros in the gap."""
    count = tf.minimum(abs(by), tf.size(values))
    fill = tf.zeros([count], values.dtype)
    return tf.concat([fill, values[: tf.size(values) - count]] if by > 0 else [values[count:], fill], 0)


def unicode_decode(texts):
    """Returns the splits, int64 [n + 1], and code points, int32 [characters], of UTF-8 texts, strings [n].

    Bytes that are not valid UTF-8 are dropped.
    """
    return tf.raw_ops.UnicodeDecode(input=texts, input_encoding="UTF-8", errors="ignore", Tsplits=tf.int64)


def utf8_lengths(codes):
    """Returns the number of UTF-8 bytes of each code point, int32 [n] like `codes`."""
    return upper_bound([0x80, 0x800, 0x10000], codes, tf.int32) + 1


def places(pages, codes):
    """Returns int32 [n], the positions of code points, int32 [n], in the tables of a `CharacterTable` with `pages`."""
    return take(pages, tf.bitwise.right_shift(codes, PAGE_BITS)) + (codes & (PAGE - 1))
