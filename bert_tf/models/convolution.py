"""A convolution over neighboring tokens, parallel to the first layer, as in the releases of DeBERTa's version 2."""

import keras
import tensorflow as tf

from bert_tf.models.layers import ConfiguredLayer, Dropout, LayerNorm, activation, initializer
from bert_tf.models.training_ops import linear


@keras.saving.register_keras_serializable("bert_tf")
class TokenConvolution(ConfiguredLayer):
    """LayerNorm(y + act(dropout(W x + b))), where W sees a token and its neighbors (microsoft/DeBERTa, bert.py).

    Neighbors that are padding, or belong to another example of a packed sequence, count as zeros.

    Args:
        kernel_size: k, odd: the token and (k - 1) / 2 neighbors on each side.
        act: an activation, as `EncoderConfig.hidden_act`.
        hidden_dropout: dropout of the result.
        initializer_range, epsilon, norm_bias: as in `EncoderConfig`.

    Inputs: x float [B, S, H], the input of the first layer; y float [B, S, H], its output; `input_mask` and
    `sentence_ids` as in `Encoder`. Output: float [B, S, H].
    Weights: `kernel` [k, H, H], `bias` [H] and those of `LayerNorm`.
    """

    def __init__(
        self,
        kernel_size,
        act="tanh",
        hidden_dropout=0.1,
        initializer_range=0.02,
        epsilon=1e-12,
        norm_bias=True,
        **kwargs,
    ):
        kwargs.setdefault("name", "conv")
        super().__init__(**kwargs)
        self.kernel_size, self.act, self.hidden_dropout_rate = kernel_size, act, hidden_dropout
        self.initializer_range, self.epsilon, self.norm_bias = initializer_range, epsilon, norm_bias
        self.dropout = Dropout(hidden_dropout, name="dropout", dtype=self.dtype_policy)

    @classmethod
    def of(cls, config, **kwargs):
        """Returns the layer of an `EncoderConfig`, or None without `conv_kernel_size`."""
        c = config
        settings = c.conv_act, c.hidden_dropout_prob, c.initializer_range, c.layer_norm_eps, c.norm_bias
        return cls(c.conv_kernel_size, *settings, **kwargs) if c.conv_kernel_size else None

    def build(self, input_shape, *_):
        width = input_shape[-1]
        start, shape = initializer(self.initializer_range), (self.kernel_size, width, width)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=start)
        self.bias = self.add_weight(name="bias", shape=(width,), initializer="zeros")
        policy = {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.norm = LayerNorm(self.epsilon, self.norm_bias, name="LayerNorm", **policy)
        self.norm.build(input_shape)
        self.dropout.build(input_shape)

    def call(self, x, y, input_mask, sentence_ids=None, training=None):
        rows, width = neighbors(x, self.kernel_size, input_mask, sentence_ids), x.shape[-1]
        out = linear(rows, tf.reshape(self.kernel, [-1, width]), self.bias)
        out = tf.reshape(out, tf.shape(y))
        return self.norm(y + activation(self.act, training)(self.dropout(out, training=training)))

    def compute_output_spec(self, x, y, *_, **__):
        return keras.KerasTensor(y.shape, y.dtype)


def neighbors(x, kernel_size, input_mask, sentence_ids=None):
    """Returns the vectors that the convolution sees at each token, side by side: float [B S, k H].

    Args:
        x: float [B, S, H].
        kernel_size: k.
        input_mask, sentence_ids: as in `Encoder`.
    """
    example = input_mask if sentence_ids is None else tf.where(input_mask > 0, sentence_ids, 0)
    side, length = kernel_size // 2, tf.shape(x)[1]
    around, owner = tf.pad(x, [[0, 0], [side, side], [0, 0]]), tf.pad(example, [[0, 0], [side, side]])
    seen = []
    for first in range(kernel_size):
        own = (owner[:, first : first + length] == example) & (example > 0)
        seen.append(around[:, first : first + length] * tf.cast(own, x.dtype)[:, :, tf.newaxis])
    return tf.reshape(tf.concat(seen, -1), [-1, kernel_size * x.shape[-1]])
