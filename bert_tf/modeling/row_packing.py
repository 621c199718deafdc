"""Short texts without padding: as many in a row as fit, each attending to itself only, and back again."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

ROW = 96  # pieces of a row that holds several texts, unless one alone is longer
_LEAST_PADDING = 0.2  # share of the batch; with less, its rows stay as they are
_DOUBLINGS = 16  # so that a batch may come to 2^16 rows


class Layout(NamedTuple):
    """Where the pieces of a batch [B, S] are in rows [R, L].

    Attributes:
        sources: int32 [R, L]: the number of the piece in the batch, counted row by row; -1: padding.
        places: int32 [B, S]: the number of each piece in the rows; that of padding is the one of the text's first.
    """

    sources: tf.Tensor
    places: tf.Tensor

    def rows(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns int32 [R, L], 0 for padding, of what a batch has for its pieces, int32 [B, S].

        Besides `sentence_ids`, the number of the piece's text, from 1 on, and `position_ids`, its own there, from 0 on.
        """
        S = tf.shape(self.places)[1]
        found = {name: tf.gather(tf.reshape(values, [-1]), tf.maximum(self.sources, 0))
                 for name, values in features.items()}  # fmt: skip
        rows = {name: tf.where(self.sources < 0, 0, values) for name, values in found.items()}
        return rows | {"sentence_ids": self.sources // S + 1, "position_ids": self.sources % S}

    def batch(self, values: tf.Tensor) -> tf.Tensor:
        """Returns [B, S, H] of what the rows have for their pieces, [R, L, H]."""
        return tf.gather(tf.reshape(values, [-1, values.shape[-1]]), self.places)


def layout(input_mask: tf.Tensor) -> Layout:
    """Returns rows for a batch: packed ones where a fifth of it or more is padding, else those that it has.

    Which it is, is decided when the graph runs. Texts go into rows from the longest to the shortest, the next one into
    a new row where it does not fit.

    Args:
        input_mask: int32 [B, S], 1 for a piece and 0 for padding; S is 1 at least. Padding before a text's last
            piece stays.
    """
    B, S = tf.unstack(tf.shape(input_mask))
    lengths = tf.reduce_max(tf.maximum(input_mask * tf.range(1, S + 1), 1), 1)  # one without pieces has a place, too
    real, all_ = tf.reduce_sum(lengths), B * S

    def as_it_is():
        numbers = tf.reshape(tf.range(all_), [B, S])
        return Layout(numbers, numbers)

    few = tf.cast(real, tf.float32) < (1 - _LEAST_PADDING) * tf.cast(all_, tf.float32)
    return tf.cond(few, lambda: _packed(lengths, S), as_it_is)


def _packed(lengths, S):
    columns = tf.range(S)
    inside = tf.where(columns < lengths[:, tf.newaxis], columns, 0)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    lengths = tf.gather(lengths, order)
    ends = tf.cumsum(lengths)
    starts = ends - lengths
    row = _row_of_each(starts, ends, tf.maximum(lengths[0], ROW))
    offsets = starts - tf.gather(tf.math.segment_min(starts, row), row)
    width = tf.reduce_max(offsets + lengths)
    firsts = row * width + offsets  # where each text begins, ascending
    places = tf.gather(firsts, tf.math.invert_permutation(order))[:, tf.newaxis] + inside

    slots = tf.range((row[-1] + 1) * width)
    text = tf.searchsorted(firsts, slots, side="right") - 1
    column = slots - tf.gather(firsts, text)
    sources = tf.where(column < tf.gather(lengths, text), tf.gather(order, text) * S + column, -1)
    return Layout(tf.reshape(sources, [-1, width]), places)


def _row_of_each(starts, ends, most):
    """Returns int32 [B], the number of the row of each text, for rows of `most` pieces that are filled one by one.

    A row that begins with text i ends before text `after[i]`, with which the next one begins. Which texts are reached
    so from the first is found in steps of 1, 2, 4, ... rows.
    """
    number = tf.size(starts)
    after = tf.concat([tf.searchsorted(ends, starts + most, side="right"), [number]], 0)
    begins = tf.one_hot(0, number + 1, dtype=tf.int32)
    for _ in range(_DOUBLINGS):
        begins = tf.maximum(begins, tf.math.unsorted_segment_max(begins, after, number + 1))
        after = tf.gather(after, after)
    return tf.cumsum(begins[:-1]) - 1
