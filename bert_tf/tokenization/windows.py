"""Windows: a text that is too long for one row, cut into several that overlap."""

from typing import NamedTuple

import tensorflow as tf


class Windows(NamedTuple):
    """The windows of n texts, those of one text one after the other.

    Attributes:
        rows: int64 [w], the text that each window is of; ascending.
        starts: int64 [w], its first piece, counted from the text's first.
        lengths: int64 [w], its pieces.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor

    def take(self, values: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the windows' values, ragged [w, (length)], of values per piece of the texts, ragged [n, (pieces)]."""
        first = tf.gather(values.row_starts(), self.rows) + self.starts
        at = tf.ragged.range(first, first + self.lengths)
        return at.with_flat_values(tf.gather(values.flat_values, at.flat_values))


def windows_of(lengths, room, stride: int) -> Windows:
    """Cuts texts as google-research/bert's run_squad.py cuts paragraphs: the last window ends where the text ends.

        8 pieces, room 4, stride 2      0 1 2 3,  2 3 4 5,  4 5 6 7

    Args:
        lengths: int [n], pieces of each text; an empty text has one empty window.
        room: int [] or [n], pieces of a window at most; 0 for empty texts only.
        stride: pieces from one window's start to the next; at most `room`, lest pieces fall between two windows: where
            a text has less room, its stride is its room.

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
