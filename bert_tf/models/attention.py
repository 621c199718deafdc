"""Multi-head self-attention with its residual and norm (Vaswani et al. 2017, section 3.2; BERT's modeling.py)."""

import math

import keras
import tensorflow as tf

from bert_tf.models.axis_sizes import axis_sizes
from bert_tf.models.disentangled_attention import position_scores
from bert_tf.models.layers import Dropout, ResidualLayer

MASKED = -10000.0  # added to masked scores; BERT's value, representable in float16


def attention_bias(input_mask, sentence_ids=None, dtype="float32", causal=False, window=None):
    """Returns the attention bias that masks padding and the other examples of a packed sequence.

        input_mask    1 1 1 1 0  ->  0 0    0    0 -1e4   for every token
        sentence_ids  1 1 2 2 0  ->  0 0 -1e4 -1e4 -1e4   for the first token
        causal                   ->  0 0    0 -1e4 -1e4   for the third token
        window 2                 ->  0 0 -1e4 -1e4 -1e4   for the first token

    Args:
        input_mask: int32 [B, S], 1 for a token and 0 for padding.
        sentence_ids: int32 [B, S], 1, 2, ... for the examples of a packed sequence, 0 for padding; [B, 1] if each has
            one; or None.
        dtype: dtype of the result.
        causal: whether a token attends only to itself and to earlier tokens.
        window: width of the window in which a token attends to others; if None, to all.

    Returns:
        [B, 1, 1, S], or [B, 1, S, S] with sentence_ids [B, S], causal or a window.
    """
    visible = input_mask[:, tf.newaxis, tf.newaxis, :] > 0
    if sentence_ids is not None:
        visible &= sentence_ids[:, tf.newaxis, :, tf.newaxis] == sentence_ids[:, tf.newaxis, tf.newaxis, :]
    position = tf.range(tf.shape(input_mask)[1])
    if causal:
        visible &= position[:, tf.newaxis] >= position
    if window is not None:
        visible &= tf.abs(position[:, tf.newaxis] - position) <= window // 2
    return tf.where(visible, tf.cast(0, dtype), tf.cast(MASKED, dtype))


def attention_scores(query, key, scale, position_vectors=None, scales_first=False):
    """Returns the scores between queries and keys, scale (Q K^T + `position_scores`), float [B, A, S, S].

    Args:
        query, key: float [B, A, S, D], or with more axes before the last two.
        scale: factor, a Python number.
        position_vectors: with `pos_att_type`, the keys and queries of relative positions for `position_scores`.
        scales_first: whether to scale the queries and keys and not their products, as always in float16, whose largest
            number, 65,504, is less than products of some models.
    """
    scale = tf.cast(scale, query.dtype)
    if scales_first or query.dtype == tf.float16:
        query = query * scale
        scores = tf.matmul(query, key, transpose_b=True)
        return scores + position_scores(query, key * scale, *position_vectors) if position_vectors else scores
    scores = tf.matmul(query, key, transpose_b=True)
    return (scores + position_scores(query, key, *position_vectors) if position_vectors else scores) * scale


@keras.saving.register_keras_serializable("bert_tf")
class SelfAttention(ResidualLayer):
    """LayerNorm(x + dropout(W_o attend(x) + b_o)), where each token attends to all tokens that the bias allows.

    attend(x) concatenates softmax(Q K^T / sqrt(D)) V over all heads of width D (Vaswani's equation 1). With
    `norm_first`: x + dropout(W_o attend(LayerNorm(x)) + b_o). With `pos_att_type`, `position_scores`, for which key and
    query map the relative positions too, are added to Q K^T, and each of these n terms counts as D more in the root.

    Inputs: float [B, S, H]; bias [B, 1, 1 or S, S] of `attention_bias`; `head_mask` float [A], a factor per head for
    the probabilities, or None; `view`, the `LayerView` (local_attention.py) that belongs to the bias, or None;
    `relative`, with `pos_att_type` the table of `RelativePositions`, otherwise float [1, A, S, S] of `bias_by_layer`,
    which is added to the scores, or None; `queries` float [B, S, H], if given, takes the place of x in the queries and
    the residual, not in keys and values. Output: float [B, S, H]; with
    `return_probs=True`, a pair whose second item is [B, A, S, S], after dropout as in the original, and after
    `head_mask`.

    Attributes:
        scales_first: as in `attention_scores`; LiteRT sets it for models that a phone may compute in float16.
    """

    scales_first = False

    def build(self, input_shape):
        H, policy = input_shape[-1], {"dtype": self.dtype_policy}
        self.width = self.head_width or H // self.num_heads
        inner = self.num_heads * self.width
        with keras.name_scope("self"):
            self.query, self.key, self.value = (
                self.build_linear(name, inner, input_shape, target=name) for name in ("query", "key", "value")
            )
            self.attention_dropout = Dropout(self.attention_dropout_rate, name="attention_dropout", **policy)
            self.attention_dropout.build((None, self.num_heads, None, None))
            if self.pos_att_type:
                self.position_dropout = Dropout(self.hidden_dropout_rate, name="position_dropout", **policy)
                self.position_dropout.build((None, H))
        with keras.name_scope("output"):
            self.dense = self.build_linear("dense", H, (*input_shape[:-1], inner), target="output")
            self.hidden_dropout = Dropout(self.hidden_dropout_rate, name="hidden_dropout", **policy)
            self.hidden_dropout.build(input_shape)
            if not self.norm_first:
                self.norm.build(input_shape)
        if self.norm_first and self.normalizes_input:
            self.norm.build(input_shape)

    def call(
        self, x, bias, training=None, return_probs=False, head_mask=None, view=None, relative=None, queries=None
    ):
        query, key, value = (self._split_heads(each) for each in self.queries_keys_values(x, queries))
        query, key, value = view.prepare(query, key, value) if view else (query, key, value)
        vectors = self.position_keys_queries(relative, view.rows, training) if self.pos_att_type else None
        scale = (self.width * (1 + len(self.pos_att_type))) ** -0.5
        # A power of two rounds nothing: scores are the same, without passes over all of them in both directions.
        scales_first = self.scales_first or (training and math.frexp(scale)[0] == 0.5)
        scores = attention_scores(query, key, scale, vectors, scales_first)
        if relative is not None and not self.pos_att_type:
            scores += relative
        probs = tf.nn.softmax(scores + tf.cast(bias, scores.dtype))  # [B, A, S, S]
        probs = self.attention_dropout(probs, training=training)
        if head_mask is not None:
            probs *= tf.reshape(tf.cast(head_mask, probs.dtype), [-1, *[1] * (probs.shape.rank - 2)])
        y = tf.matmul(probs, value)
        y = self._join_heads(view.join(y) if view else y)
        y = (x if queries is None else queries) + self.hidden_dropout(self.dense(y), training=training)
        y = y if self.norm_first else self.norm(y)
        return (y, probs) if return_probs else y

    def queries_keys_values(self, x, queries=None):
        """Returns the queries, keys and values, float [B, S, A D] each, with the heads concatenated."""
        if self.norm_first and self.normalizes_input:
            x, queries = self.norm(x), None if queries is None else self.norm(queries)
        return self.query(x if queries is None else queries), self.key(x), self.value(x)

    def position_keys_queries(self, relative, rows, training=None):
        """Returns the keys and the queries of relative positions for `position_scores`; None for an unused term."""
        x = tf.gather(self.position_dropout(relative, training=training), rows)[tf.newaxis]  # [1, 2 S, H]
        maps = {"c2p": self.key, "p2c": self.query}
        return [self._split_heads(maps[kind](x)) if kind in self.pos_att_type else None for kind in maps]

    def _split_heads(self, x):
        """Splits [B, S, A D] into heads, [B, A, S, D]."""
        B, S, _ = axis_sizes(x)
        return tf.transpose(tf.reshape(x, [B, S, self.num_heads, self.width]), [0, 2, 1, 3])

    def _join_heads(self, x):
        B, _, S, _ = axis_sizes(x)
        return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [B, S, self.num_heads * self.width])
