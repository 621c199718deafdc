"""Windows of texts: a text that is too long for one sequence is split into several overlapping ones."""

from typing import NamedTuple

import tensorflow as tf


class Windows(NamedTuple):
    """The windows of n texts, grouped by text.

    Attributes:
        rows: int64 [w], the text that each window belongs to; ascending.
        starts: int64 [w], the index of its first token in the text.
        lengths: int64 [w], its number of tokens.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor

    def take(self, values: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the windows' values, ragged [w, (length)], from values per token, ragged [n, (tokens)]."""
        first = tf.gather(values.row_starts(), self.rows) + self.starts
        at = tf.ragged.range(first, first + self.lengths)
        return at.with_flat_values(tf.gather(values.flat_values, at.flat_values))


def find_windows(lengths, room, stride: int) -> Windows:
    """Splits texts into windows like google-research/bert's run_squad.py; the last window ends with the text.

        8 tokens, room 4, stride 2      0 1 2 3,  2 3 4 5,  4 5 6 7

    Args:
        lengths: int [n], number of tokens of each text; an empty text has one empty window.
        room: int [] or [n], maximum tokens per window; 0 for empty texts only.
        stride: tokens from one window's start to the next. At most `room`, otherwise tokens would fall between two
            windows; if a text has less room, its stride is reduced to its room.

    Returns:
        The `Windows`.
    """
    lengths = tf.cast(lengths, tf.int64)
    room = tf.broadcast_to(tf.cast(room, tf.int64), tf.shape(lengths))
    stride = tf.maximum(tf.minimum(tf.cast(stride, tf.int64), room), 1)
    counts = 1 + tf.maximum(tf.cast(0, tf.int64), -(-(lengths - room) // stride))
    number = tf.ragged.range(counts)
    rows = number.value_rowids()
    starts = number.flat_values * tf.gather(stride, rows)
    return Windows(rows, starts, tf.minimum(tf.gather(room, rows), tf.gather(lengths, rows) - starts))
