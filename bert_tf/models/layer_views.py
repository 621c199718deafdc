"""What the attention of each layer sees: rotary positions, and all tokens or those of a window."""

import dataclasses
from typing import Any

import tensorflow as tf

from bert_tf.models.attention import attention_bias
from bert_tf.models.config import EncoderConfig
from bert_tf.models.disentangled_attention import relative_rows
from bert_tf.models.local_attention import Blocks, local_bias
from bert_tf.models.rotary_positions import rotate, rotation


@dataclasses.dataclass(frozen=True)
class LayerView:
    """What a layer does with queries, keys and values, besides the bias that it adds to their products.

    Attributes:
        turn: the cosines and sines of `rotation`; None for no rotary positions.
        blocks: blocks of local attention; if None, every query meets every key.
        rows: table rows for the distances between tokens, from `relative_rows`; None for no relative positions.
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
        config: configuration of the encoder.
        input_mask, sentence_ids, dtype: as in `attention_bias`.
        positions: int32 [B, S]; None for 0, 1, 2, ...
        whole: whether each layer computes the probabilities of all pairs of tokens, [B, A, S, S].
    """
    c, length = config, tf.shape(input_mask)[1]
    positions = tf.range(length)[tf.newaxis] if positions is None else positions
    rows = relative_rows(c, length) if c.pos_att_type else None

    def view(is_local):
        theta = (is_local and c.local_rope_theta) or c.global_rope_theta
        turn = theta and rotation(positions, c.hidden_size // c.num_attention_heads, theta, c.rope_ntk_factor)
        if not is_local:
            return attention_bias(input_mask, sentence_ids, dtype, c.is_decoder), LayerView(turn, rows=rows)
        if whole:
            return attention_bias(input_mask, sentence_ids, dtype, c.is_decoder, c.local_attention), LayerView(turn)
        blocks = Blocks.of(length, c.local_attention)
        bias = local_bias(blocks, c.local_attention, input_mask, sentence_ids, dtype, c.is_decoder)
        return bias, LayerView(turn, blocks)

    kinds = [c.is_local(n) for n in range(c.num_hidden_layers)]
    views = {kind: view(kind) for kind in sorted(set(kinds))}
    return [views[kind] for kind in kinds]
