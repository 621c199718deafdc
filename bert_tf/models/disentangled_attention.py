"""Disentangled attention: scores between contents and relative positions.

He et al. 2021, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention" (arXiv 2006.03654, section 3.1).
Logarithmic buckets, and maps that contents and positions share, are those of its second version (microsoft/DeBERTa).
"""

import keras
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.layers import ConfiguredLayer, LayerNorm, initializer
from bert_tf.models.position_buckets import position_buckets
from bert_tf.models.training_ops import slice_axis


@keras.saving.register_keras_serializable("bert_tf")
class RelativePositions(ConfiguredLayer):
    """The embeddings of relative positions, which all layers share, with their LayerNorm.

    Args:
        rows: 2 k, rows of the table.
        width: H.
        initializer_range, epsilon, norm_bias: as in `EncoderConfig`.
    """

    def __init__(self, rows, width, initializer_range=0.02, epsilon=1e-12, norm_bias=True, **kwargs):
        kwargs.setdefault("name", "relative_positions")
        super().__init__(**kwargs)
        self.rows, self.width, self.initializer_range = rows, width, initializer_range
        self.epsilon, self.norm_bias = epsilon, norm_bias
        self.norm = LayerNorm(epsilon, norm_bias, name="LayerNorm", dtype=self.dtype_policy)

    @classmethod
    def of(cls, config, **kwargs):
        """Returns the layer of an `EncoderConfig` with `pos_att_type`."""
        c = config
        return cls(2 * c.relative_span, c.hidden_size, c.initializer_range, c.layer_norm_eps, c.norm_bias, **kwargs)

    def build(self, input_shape=None):
        start, shape = initializer(self.initializer_range), (self.rows, self.width)
        self.embeddings = self.add_weight(name="relative_embeddings", shape=shape, initializer=start, autocast=False)
        self.norm.build(shape)

    def table(self):
        """Returns the normalized embeddings, float [2 k, H] in the compute dtype."""
        return self.norm(tf.convert_to_tensor(self.embeddings))

    def by_layer(self, config, length):
        """Returns `table` for each layer; which rows a sequence reads is up to `relative_rows`."""
        return [self.table()] * config.num_hidden_layers


def relative_rows(config: EncoderConfig, length):
    """Returns the row in the table of `RelativePositions` of each distance S - 1, S - 2, ..., -S: int32 [2 S].

    A distance is the position of the query minus that of the key. Row k is that of distance 0. If `position_buckets`
    is set, distances of up to half as many have a row each, and larger ones share rows of logarithmic size.

    Args:
        config: with `pos_att_type`.
        length: S, int32 scalar.
    """
    span, distances = config.relative_span, tf.range(length - 1, -length - 1, -1)
    buckets = position_buckets(config.max_length, config.position_buckets, config.most_relative_positions)
    # A packed sequence may be longer than the table; its far tokens do not see each other.
    bucket = tf.gather(tf.constant(buckets), tf.minimum(tf.abs(distances), len(buckets) - 1))
    return tf.clip_by_value(span + tf.where(distances < 0, -bucket, bucket), 0, 2 * span - 1)


def position_scores(query, key, position_key=None, position_query=None):
    """Returns the scores between contents and relative positions, float [B, A, S, S], unscaled.

    Row i, column j is q_i . kr(i - j) + k_j . qr(i - j) (equation 4 of the paper, without its first term), where kr and
    qr are the vectors of relative positions.

    Args:
        query, key: of the contents, float [B, A, S, D].
        position_key, position_query: kr and qr of the distances of `relative_rows`, float [1, A, 2 S, D]; if None,
            without this term.
    """
    (count, length), terms = tf.unstack(tf.shape(query)[::2]), []
    # Repeated, not broadcast: oneDNN's product reads beyond a single matrix for several examples of one head.
    if position_key is not None:
        position_key = tf.repeat(position_key, count, 0)
        terms.append(values_by_distance(tf.matmul(query, position_key, transpose_b=True), length - 1))
    if position_query is not None:
        ascending = tf.repeat(tf.reverse(position_query, [2]), count, 0)
        by_key = values_by_distance(tf.matmul(key, ascending, transpose_b=True), length)
        terms.append(tf.linalg.matrix_transpose(by_key))
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


def values_by_distance(x, first):
    """Returns [B, A, S, S], whose row i has the S values of x, float [B, A, S, 2 S], from column first - i on.

    Reading all numbers as rows of 2 S - 1 moves each row by one: no index per score, and a gradient without scatter.
    """
    B, A, S, _ = tf.unstack(tf.shape(x))
    flat = slice_axis(tf.reshape(x, [B, A, 2 * S * S]), 2, first, S * (2 * S - 1))
    return slice_axis(tf.reshape(flat, [B, A, S, 2 * S - 1]), 3, 0, S)
