"""Task heads on top of the encoder, with google-research/bert's variable names."""

import keras
import tensorflow as tf

from bert_tf.models.axis_sizes import axis_sizes
from bert_tf.models.layers import ConfiguredLayer, Dropout, LayerNorm, Linear, initializer

_NEVER = -65504.0  # a logit whose exponential is 0: the lowest number of float16, in which an export may store it


class _TransformingHead(ConfiguredLayer):
    """A head that may begin with a linear map H -> H, an activation and a LayerNorm."""

    def _set_transform(self, act, epsilon, use_bias, norm_bias):
        self.transform_act, self.epsilon, self.use_bias, self.norm_bias = act, epsilon, use_bias, norm_bias

    def _build_transform(self, input_shape):
        settings = {"dtype": self.dtype_policy, "trainable": self.trainable}
        if self.transform_act:
            shape = input_shape[-1], self.transform_act, self.initializer_range, None, self.use_bias
            self.dense = Linear(*shape, name="dense", **settings)
            self.dense.build(input_shape)
        if self.epsilon:
            self.norm = LayerNorm(self.epsilon, self.norm_bias, name="LayerNorm", **settings)
            self.norm.build(input_shape)

    def _transformed(self, x, training):
        x = self.dense(x, training=training) if self.transform_act else x
        return self.norm(x) if self.epsilon else x


def _transform_of(config):
    """Returns the last four arguments of a head of a configuration with `head_norm`; () without it."""
    c = config
    return (c.classifier_act, c.layer_norm_eps, c.classifier_bias, c.norm_bias) if c.head_norm else ()


@keras.saving.register_keras_serializable("bert_tf")
class ClassificationHead(_TransformingHead):
    """Classification head: dropout and a linear layer on the pooled output (run_classifier.py) or on every token.

    The same head serves single-label classification (softmax over `num_labels`), multi-label classification (a sigmoid
    each) and regression (one output): they differ in the loss and in the use of the logits, not in the weights.

    Args:
        num_labels: width of the output; 1 for regression.
        dropout: `EncoderConfig.hidden_dropout_prob`.
        initializer_range: standard deviation of the initializer.
        transform_act: `EncoderConfig.classifier_act`: the activation of a linear map H -> H before the last one, as in
            RoBERTa, ELECTRA and DistilBERT. If None, there is no such map.
        epsilon: `EncoderConfig.layer_norm_eps`, for a LayerNorm after that map, as in ModernBERT; or None.
        use_bias, norm_bias: whether that map and LayerNorm have biases.

    Input: `pooled_output` [B, H], or `sequence_output` [B, S, H]. Output: float32 [B, num_labels], or [B, S,
    num_labels]: logits.
    Weights: `output_weights` [num_labels, H], `output_bias` [num_labels]; with `transform_act` also `dense/kernel`,
    `dense/bias`; with `epsilon` also `LayerNorm/gamma`, `LayerNorm/beta`.
    """

    def __init__(
        self, num_labels, dropout=0.1, initializer_range=0.02, transform_act=None, epsilon=None, use_bias=True,
        norm_bias=True, **kwargs,
    ):  # fmt: skip
        kwargs.setdefault("name", "classifier")
        super().__init__(**kwargs)
        self.num_labels = num_labels
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self._set_transform(transform_act, epsilon, use_bias, norm_bias)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)
        if transform_act and not epsilon:
            self.first_dropout = Dropout(dropout, name="first_dropout", dtype=self.dtype_policy)

    @classmethod
    def of(cls, config, num_labels, transforms=True, **kwargs):
        """Returns the head of an `EncoderConfig`.

        Args:
            config: the configuration.
            num_labels: width of the output.
            transforms: whether the map of `classifier_act` is included, if the configuration has one; a head with a
                LayerNorm always has it.
        """
        transform = _transform_of(config) or ((config.classifier_act,) if transforms else ())
        return cls(num_labels, config.hidden_dropout_prob, config.initializer_range, *transform, **kwargs)

    def build(self, input_shape):
        start = initializer(self.initializer_range)
        self._build_transform(input_shape)
        if self.transform_act and not self.epsilon:
            self.first_dropout.build(input_shape)
        shape = (self.num_labels, input_shape[-1])
        self.output_weights = self.add_weight(name="output_weights", shape=shape, initializer=start)
        self.output_bias = self.add_weight(name="output_bias", shape=(self.num_labels,), initializer="zeros")
        self.dropout.build(input_shape)

    def call(self, pooled_output, training=None):
        x = pooled_output
        if self.transform_act and not self.epsilon:
            x = self.first_dropout(x, training=training)
        x = self.dropout(self._transformed(x, training), training=training)
        rows = tf.reshape(x, [-1, x.shape[-1]]) if x.shape.rank > 2 else x  # one product of matrices in any case
        logits = tf.matmul(rows, tf.cast(self.output_weights, x.dtype), transpose_b=True)
        logits = tf.cast(tf.nn.bias_add(logits, tf.cast(self.output_bias, x.dtype)), tf.float32)
        return tf.reshape(logits, [*axis_sizes(x)[:-1], self.num_labels]) if x.shape.rank > 2 else logits

    def compute_output_spec(self, pooled_output, training=None):
        return keras.KerasTensor((*pooled_output.shape[:-1], self.num_labels), "float32")


@keras.saving.register_keras_serializable("bert_tf")
class QuestionAnsweringHead(_TransformingHead):
    """Question-answering head: start and end logits for every token (run_squad.py's `create_model`).

    Built in the scope `cls`, its weights have the same names as in Google's checkpoints.

    Args:
        initializer_range: standard deviation of the initializer.
        transform_act, epsilon, use_bias, norm_bias: as in `ClassificationHead`.

    Inputs: `sequence_output` float [B, S, H]; `input_mask` int32 [B, S]. Output: a dict of `start_logits` and
    `end_logits`, float32 [B, S]. Where the mask is 0, they are so low that their softmax is 0: results do not depend on
    the amount of padding.
    Weights: `output_weights` [2, H], `output_bias` [2]; those of the map and the LayerNorm as in `ClassificationHead`.
    """

    def __init__(
        self, initializer_range=0.02, transform_act=None, epsilon=None, use_bias=True, norm_bias=True, **kwargs
    ):
        kwargs.setdefault("name", "squad")
        super().__init__(**kwargs)
        self.initializer_range = initializer_range
        self._set_transform(transform_act, epsilon, use_bias, norm_bias)

    @classmethod
    def of(cls, config, **kwargs):
        """Returns the head of an `EncoderConfig`."""
        return cls(config.initializer_range, *_transform_of(config), **kwargs)

    def build(self, input_shape, *_):
        self._build_transform(input_shape)
        start = initializer(self.initializer_range)
        self.output_weights = self.add_weight(name="output_weights", shape=(2, input_shape[-1]), initializer=start)
        self.output_bias = self.add_weight(name="output_bias", shape=(2,), initializer="zeros", autocast=False)

    def call(self, sequence_output, input_mask, training=None):
        x = self._transformed(sequence_output, training)
        logits = tf.cast(tf.einsum("bsh,lh->lbs", x, tf.cast(self.output_weights, x.dtype)), tf.float32)
        bias = tf.cast(self.output_bias, tf.float32)[:, tf.newaxis, tf.newaxis]
        logits = tf.where(input_mask > 0, logits + bias, _NEVER)
        return {"start_logits": logits[0], "end_logits": logits[1]}

    def compute_output_spec(self, sequence_output, input_mask, training=None):
        return {name: keras.KerasTensor(input_mask.shape, "float32") for name in ("start_logits", "end_logits")}


def span_logits(logits, input_mask) -> dict:
    """Converts the logits of another head to the start and end logits of `QuestionAnsweringHead`.

    Args:
        logits: float32 [B, S, 2].
        input_mask: int32 [B, S].
    """
    both = keras.ops.where(keras.ops.expand_dims(input_mask, -1) > 0, logits, _NEVER)
    return {"start_logits": both[..., 0], "end_logits": both[..., 1]}
