"""Packs short texts into shared rows, to compute less padding.

A batch [B, S] of texts becomes rows [R, L]: its own rows, or, if at least a fifth of it is padding, fewer and fuller
ones, each with several texts one after another, in which a token attends only to its own text.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

ROW = 96  # length of a row with several texts, unless a single text is longer
_MOST_REAL, _ALL = 4, 5  # a batch with at least four fifths of non-padding tokens is unchanged
_DOUBLINGS = 16  # which allows 2^16 rows per batch


class TokenRows(NamedTuple):
    """A batch [B, S], packed into rows [R, L].

    Attributes:
        features: {name: int32 [R, L]}, the batch's features of tokens, with 0 for padding. Also `sentence_ids` [R, L],
            the number of the token's text, from 1, or [R, 1] if each row is a text; and `position_ids` [R, L], the
            token's position in its text, from 0.
        indices: int32 [B, S], the index of each token of the batch in the flat list of R L tokens; padding points to
            the text's first token if texts are packed.
    """

    features: dict[str, tf.Tensor]
    indices: tf.Tensor

    def to_batch(self, tokens: tf.Tensor) -> tf.Tensor:
        """Converts the flat list's [P, H] to [B, S, H]."""
        return tf.gather(tokens, self.indices)

    def first_tokens(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the values of each text's first token, [B, H], from the flat list's [P, H]."""
        return tf.gather(tokens, self.indices[:, 0])


def lay_out(features: Mapping[str, tf.Tensor]) -> TokenRows:
    """Packs a batch into rows; whether its texts are packed is decided when the graph runs.

    Texts are packed from the longest to the shortest; a text that does not fit begins a new row.

    Args:
        features: {name: int32 [B, S]}, with `input_mask`, 1 for a token and 0 for padding; S is at least 1. Padding
            before a text's last token is kept.
    """
    mask = features["input_mask"]
    has_padding = _ALL * tf.reduce_sum(mask) < _MOST_REAL * tf.size(mask)
    rows = tf.cond(has_padding, lambda: _packed(features), lambda: _one_text_a_row(features))
    # Grappler must be able to infer that mask and scores have the same number of rows; otherwise it does not fuse
    # attention's product and its mask.
    number = tf.shape(rows.features["input_mask"])[0]
    same = {name: tf.reshape(rows.features[name], [number, -1]) for name in ("input_mask", "sentence_ids")}
    return rows._replace(features=rows.features | same)


def _one_text_a_row(features):
    B, S = tf.unstack(tf.shape(features["input_mask"]))
    more = {"sentence_ids": tf.ones([B, 1], tf.int32), "position_ids": tf.tile(tf.range(S)[tf.newaxis], [B, 1])}
    return TokenRows(dict(features) | more, tf.reshape(tf.range(B * S), [B, S]))


def _packed(features):
    mask = features["input_mask"]
    S = tf.shape(mask)[1]
    lengths = tf.reduce_max(tf.maximum(mask * tf.range(1, S + 1), 1), 1)  # a text without tokens gets one padding token
    return place_tokens(features, *_pack(lengths, S))


def place_tokens(features: Mapping[str, tf.Tensor], indices: tf.Tensor, sources: tf.Tensor) -> TokenRows:
    """Returns a batch in rows in which each token's place is known.

    Args:
        features: as in `lay_out`.
        indices: as in `TokenRows`.
        sources: int32 [R, L], the index of each token in the batch's flat list of B S tokens, -1 for padding.
    """
    S = tf.shape(features["input_mask"])[1]
    found = {name: tf.gather(tf.reshape(values, [-1]), tf.maximum(sources, 0)) for name, values in features.items()}
    rows = {name: tf.where(sources < 0, 0, values) for name, values in found.items()}
    return TokenRows(rows | {"sentence_ids": sources // S + 1, "position_ids": sources % S}, indices)


def _pack(lengths, S):
    """Returns the `indices` of `TokenRows` and the batch index of each token, int32 [R, L], -1 for padding."""
    columns = tf.range(S)
    inside = tf.where(columns < lengths[:, tf.newaxis], columns, 0)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    lengths = tf.gather(lengths, order)
    ends = tf.cumsum(lengths)
    starts = ends - lengths
    row = _row_of_each_text(starts, ends, tf.maximum(lengths[0], ROW))
    offsets = starts - tf.gather(tf.math.segment_min(starts, row), row)
    width = tf.reduce_max(offsets + lengths)
    firsts = row * width + offsets  # the start of each text in the flat list, ascending
    indices = tf.gather(firsts, tf.math.invert_permutation(order))[:, tf.newaxis] + inside

    slots = tf.range((row[-1] + 1) * width)
    text = tf.searchsorted(firsts, slots, side="right") - 1
    column = slots - tf.gather(firsts, text)
    sources = tf.where(column < tf.gather(lengths, text), tf.gather(order, text) * S + column, -1)
    return indices, tf.reshape(sources, [-1, width])


def _row_of_each_text(starts, ends, most):
    """Returns the row number of each text, int32 [B], for rows of `most` tokens filled one after another.

    A row that begins with text i ends before text `after[i]`, with which the next one begins. The texts that begin a
    row are found in steps of 1, 2, 4, ... rows.
    """
    number = tf.size(starts)
    after = tf.concat([tf.searchsorted(ends, starts + most, side="right"), [number]], 0)
    begins = tf.one_hot(0, number + 1, dtype=tf.int32)
    for _ in range(_DOUBLINGS):
        begins = tf.maximum(begins, tf.math.unsorted_segment_max(begins, after, number + 1))
        after = tf.gather(after, after)
    return tf.cumsum(begins[:-1]) - 1
