"""Local attention whose cost is that of its window (Beltagy et al. 2020, Longformer, arXiv 2004.05150, section 3.1)."""

import dataclasses
from typing import Any

import tensorflow as tf

from bert_tf.models.attention import MASKED
from bert_tf.models.training_ops import slice_axis

_BLOCKS_FROM = 4  # windows; a shorter sequence is one block, because products of few tokens are slow


@dataclasses.dataclass(frozen=True)
class Blocks:
    """The blocks of a sequence of S tokens: N blocks of `size` queries, each with the `reach` keys on both sides.

        size 3, reach 3    queries  0 1 2 | 3 4 5 | 6 7 .
        of the second      keys     0 1 2   3 4 5   6 7 .

    Attributes:
        length, number, size, reach: S, N and the two above, int32 scalars.
    """

    length: Any
    number: Any
    size: Any
    reach: Any

    @classmethod
    def of(cls, length, window: int) -> "Blocks":
        """Returns the blocks for `EncoderConfig.local_attention`: as wide as one side of the window, or a single one.

        Args:
            length: S, int32 scalar.
            window: width of the window in tokens.
        """
        is_long = length > _BLOCKS_FROM * window
        size, reach = tf.where(is_long, window // 2, tf.maximum(length, 1)), tf.where(is_long, window // 2, 0)
        return cls(length, -(-length // size), size, reach)

    def queries(self, x):
        """Splits [B, A, S, D] into [B, A, N, size, D]; missing tokens are zeros."""
        return self._split(tf.pad(x, [[0, 0], [0, 0], [0, self.number * self.size - self.length], [0, 0]]))

    def keys(self, x):
        """Returns what each block reaches of keys or values [B, A, S, D]: [B, A, N, size + 2 reach, D]."""
        end, reach = self.number * self.size, self.reach
        x = tf.pad(x, [[0, 0], [0, 0], [reach, end - self.length + reach], [0, 0]])
        before, here, after = (self._split(slice_axis(x, 2, start, end)) for start in (0, reach, 2 * reach))
        before, after = slice_axis(before, 3, 0, reach), slice_axis(after, 3, self.size - reach, reach)
        return tf.concat([before, here, after], 3)

    def join(self, y):
        """Converts [B, A, N, size, D] back to [B, A, S, D]."""
        B, A, N, size, D = tf.unstack(tf.shape(y))
        return slice_axis(tf.reshape(y, [B, A, N * size, D]), 2, 0, self.length)

    def pairs(self, row):
        """Returns the values of int32 [B, S] for each query, [B, 1, N, size, 1], and key, [B, 1, N, 1, keys]."""
        column = row[:, tf.newaxis, :, tf.newaxis]
        return self.queries(column), tf.linalg.matrix_transpose(self.keys(column))

    def _split(self, x):
        B, A, _, D = tf.unstack(tf.shape(x))
        return tf.reshape(x, [B, A, self.number, self.size, D])


def seen_by_local(length: int, window: int) -> int:
    """Returns the number of keys for which local attention computes the score of each query of a sequence."""
    return length if length <= _BLOCKS_FROM * window else 3 * (window // 2)


def local_bias(blocks: Blocks, window: int, input_mask, sentence_ids=None, dtype="float32", causal=False):
    """Returns the bias of local attention, [B, 1, N, size, size + 2 reach]; arguments as for `attention_bias`."""
    query, key = blocks.pairs(tf.range(blocks.length)[tf.newaxis])
    visible = (tf.abs(query - key) <= window // 2) & (blocks.pairs(input_mask)[1] > 0)
    if causal:
        visible &= query >= key
    if sentence_ids is not None:
        query, key = blocks.pairs(tf.broadcast_to(sentence_ids, tf.shape(input_mask)))
        visible &= query == key
    return tf.where(visible, tf.cast(0, dtype), tf.cast(MASKED, dtype))
