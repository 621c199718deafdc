"""What the attention of a layer sees: rotary positions, and local attention that costs what its window costs.

Rotary positions: Su et al. 2021 (arXiv 2104.09864, section 3.2.2). Local attention: Beltagy et al. 2020 (Longformer,
arXiv 2004.05150, section 3.1).
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.models.attention import MASKED, attention_bias
from bert_tf.models.config import EncoderConfig
from bert_tf.models.disentangled_attention import relative_rows

_BLOCKS_FROM = 4  # windows; a shorter sequence is one block, because products of few tokens are slow


def rotation(positions, width: int, base: float):
    """Returns the cosines and sines of rotary positions, float32 [B, 1, S, width / 2] each.

    Args:
        positions: int32 [B, S]; B may be 1.
        width: of a head.
        base: the i-th pair of numbers is rotated by position / base^(2 i / width).
    """
    # In NumPy's float32, as in Transformers: an error in a wave counts as often as there are tokens.
    waves = 1 / np.float32(base) ** (np.arange(0, width, 2, dtype=np.float32) / np.float32(width))
    angles = tf.cast(positions, tf.float32)[:, tf.newaxis, :, tf.newaxis] * waves
    return tf.cos(angles), tf.sin(angles)


def rotate(x, cos, sin):
    """Rotates the pairs (i, i + D / 2) of queries or keys, float [B, A, S, D], by `rotation`."""
    a, b = tf.split(tf.cast(x, tf.float32), 2, -1)
    return tf.cast(tf.concat([a * cos - b * sin, b * cos + a * sin], -1), x.dtype)


# === Local attention ===


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
    def of(cls, length, window: int, whole: bool = False) -> "Blocks":
        """Returns the blocks for `EncoderConfig.local_attention`: as wide as one side of the window, or a single one.

        Args:
            length: S, int32 scalar.
            window: width of the window in tokens.
            whole: whether there must be a single block.
        """
        is_long = (length > _BLOCKS_FROM * window) & (not whole)
        size, reach = tf.where(is_long, window // 2, tf.maximum(length, 1)), tf.where(is_long, window // 2, 0)
        return cls(length, -(-length // size), size, reach)

    def queries(self, x):
        """Splits [B, A, S, D] into [B, A, N, size, D]; missing tokens are zeros."""
        return self._split(tf.pad(x, [[0, 0], [0, 0], [0, self.number * self.size - self.length], [0, 0]]))

    def keys(self, x):
        """Returns what each block reaches of keys or values [B, A, S, D]: [B, A, N, size + 2 reach, D]."""
        end, reach = self.number * self.size, self.reach
        x = tf.pad(x, [[0, 0], [0, 0], [reach, end - self.length + reach], [0, 0]])
        before, here, after = (self._split(x[:, :, start : start + end]) for start in (0, reach, 2 * reach))
        return tf.concat([before[:, :, :, :reach], here, after[:, :, :, self.size - reach :]], 3)

    def join(self, y):
        """Converts [B, A, N, size, D] back to [B, A, S, D]."""
        B, A, N, size, D = tf.unstack(tf.shape(y))
        return tf.reshape(y, [B, A, N * size, D])[:, :, : self.length]

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


# === Layers ===


@dataclasses.dataclass(frozen=True)
class LayerView:
    """What a layer does with queries, keys and values, besides the bias that it adds to their products.

    Attributes:
        turn: the cosines and sines of `rotation`; None: no rotary positions.
        blocks: of local attention; None: every query meets every key.
        rows: of the distances between tokens, from `relative_rows`; None: no relative positions.
    """

    turn: Any = None
    blocks: Blocks | None = None
    rows: Any = None

    def prepare(self, query, key, value):
        """Rotates queries and keys and splits all three into blocks; float [B, A, S, D] each."""
        if self.turn:
            query, key = rotate(query, *self.turn), rotate(key, *self.turn)
        if self.blocks:
            query, key, value = self.blocks.queries(query), self.blocks.keys(key), self.blocks.keys(value)
        return query, key, value

    def join(self, y):
        """Converts the result of attention back to [B, A, S, D]."""
        return self.blocks.join(y) if self.blocks else y


def layer_views(config: EncoderConfig, input_mask, sentence_ids=None, positions=None, dtype="float32", whole=False):
    """Returns the bias and the `LayerView` of each layer of a model.

    Args:
        config: of the encoder.
        input_mask, sentence_ids, dtype: as in `attention_bias`.
        positions: int32 [B, S]; None: 0, 1, 2, ...
        whole: whether each layer computes the probabilities of all pairs of tokens, [B, A, S, S].
    """
    c, length = config, tf.shape(input_mask)[1]
    positions = tf.range(length)[tf.newaxis] if positions is None else positions
    rows = relative_rows(c, length) if c.pos_att_type else None

    def view(is_local):
        theta = (is_local and c.local_rope_theta) or c.global_rope_theta
        turn = theta and rotation(positions, c.hidden_size // c.num_attention_heads, theta)
        if not is_local:
            return attention_bias(input_mask, sentence_ids, dtype, c.is_decoder), LayerView(turn, rows=rows)
        blocks = Blocks.of(length, c.local_attention, whole)
        bias = local_bias(blocks, c.local_attention, input_mask, sentence_ids, dtype, c.is_decoder)
        return (bias[:, :, 0], LayerView(turn)) if whole else (bias, LayerView(turn, blocks))

    kinds = [c.is_local(n) for n in range(c.num_hidden_layers)]
    views = {kind: view(kind) for kind in sorted(set(kinds))}
    return [views[kind] for kind in kinds]
