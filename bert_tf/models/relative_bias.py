"""Relative attention bias: a learned number for each head and distance, which is added to the attention scores.

Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer" (T5, arXiv
1910.10683, section 2.1); as in MPNet (Song et al. 2020, arXiv 2004.09297), whose tokens see both sides.
"""

import keras
import tensorflow as tf

from bert_tf.models.config import EncoderConfig
from bert_tf.models.disentangled_attention import values_by_distance
from bert_tf.models.layers import ConfiguredLayer, initializer
from bert_tf.models.position_buckets import two_sided_buckets


@keras.saving.register_keras_serializable("bert_tf")
class RelativeBias(ConfiguredLayer):
    """The biases of relative positions, which all layers share.

    Args:
        buckets: `relative_attention_num_buckets` of `EncoderConfig`.
        heads: number of attention heads A, before pruning.
        initializer_range: as in `EncoderConfig`.
    """

    def __init__(self, buckets, heads, initializer_range=0.02, **kwargs):
        kwargs.setdefault("name", "relative_positions")
        super().__init__(**kwargs)
        self.buckets, self.heads, self.initializer_range = buckets, heads, initializer_range

    @classmethod
    def of(cls, config, **kwargs):
        """Returns the layer of an `EncoderConfig` with `relative_attention_num_buckets`."""
        c = config
        return cls(c.relative_attention_num_buckets, c.num_attention_heads, c.initializer_range, **kwargs)

    def build(self, input_shape=None):
        start, shape = initializer(self.initializer_range), (self.buckets, self.heads)
        self.attention_bias = self.add_weight(name="attention_bias", shape=shape, initializer=start, autocast=False)

    def table(self):
        """Returns the biases, float [buckets, A] in the compute dtype."""
        return tf.cast(tf.convert_to_tensor(self.attention_bias), self.compute_dtype)

    def by_layer(self, config, length):
        """Returns what each layer adds to its scores; see `bias_by_layer`."""
        return bias_by_layer(config, self.table(), length)


def bias_by_layer(config: EncoderConfig, table, length) -> list[tf.Tensor]:
    """Returns what each layer adds to its scores, float [1, heads, S, S], from the lowest layer.

    Row i, column j is the bias of distance i - j. The layers share one tensor; a layer with pruned heads has the
    biases of those that remain.

    Args:
        config: configuration of the encoder.
        table: biases, float [buckets, A].
        length: S, int32 scalar.
    """
    descending = tf.range(length - 1, -length - 1, -1)  # distances
    buckets = two_sided_buckets(config.max_length, config.relative_attention_num_buckets)
    # A packed sequence may be longer than the table; its far tokens do not see each other.
    nearest = config.max_length - 1
    rows = tf.gather(tf.constant(buckets), tf.clip_by_value(descending, -nearest, nearest) + nearest)
    by_distance = tf.transpose(tf.gather(table, rows))[tf.newaxis, :, tf.newaxis]  # [1, A, 1, 2 S]
    bias = values_by_distance(tf.tile(by_distance, [1, 1, length, 1]), length - 1)
    pruned, heads = config.pruned_heads or {}, range(config.num_attention_heads)
    kept = {layer: [head for head in heads if head not in gone] for layer, gone in pruned.items()}
    return [tf.gather(bias, kept[n], axis=1) if n in kept else bias for n in range(config.num_hidden_layers)]
