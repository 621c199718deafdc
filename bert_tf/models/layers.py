"""Basic layers of encoder and heads: linear map, layer norm, dropout, activations, what a residual layer has."""

import inspect
import zlib

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models import training_ops
from bert_tf.models.axis_sizes import axis_sizes
from bert_tf.models.lora import Lora
from bert_tf.models.training_ops import current_seed

_PACKAGE = "bert_tf"


def initializer(initializer_range: float):
    """Returns BERT's weight initializer: a normal distribution truncated at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=initializer_range)


def activation(name: str, training=False):
    """Returns the activation function called `name` in `EncoderConfig`; for training, gelu has a cheaper gradient."""
    gelu = training_ops.gelu if training else tf.nn.gelu
    return {
        "gelu": lambda x: gelu(x, approximate=False),
        "gelu_tanh": lambda x: gelu(x, approximate=True),
        "relu": tf.nn.relu,
        "silu": lambda x: x * tf.sigmoid(x),
        "tanh": tf.tanh,
        "linear": lambda x: x,
    }[name]


def gated(x, act: str, training=False):
    """Returns act(a) * b for the halves a and b of the last axis of x, as in `EncoderConfig.gated_mlp`."""
    a, b = tf.split(x, 2, -1)
    return activation(act, training)(a) * b


def config_of_arguments(made) -> dict:
    """Returns the constructor arguments of an object as {name: JSON value}; each is stored as an attribute.

    The attribute has the name of the argument or, if that is a sublayer, the name plus "_rate".
    """
    parameters = list(inspect.signature(type(made).__init__).parameters.values())[1:]
    names = [parameter.name for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD]
    attributes = [f"{name}_rate" if hasattr(made, f"{name}_rate") else name for name in names]
    values = {name: getattr(made, attribute) for name, attribute in zip(names, attributes, strict=True)}
    return {name: value.to_dict() if hasattr(value, "to_dict") else value for name, value in values.items()}


class ConfiguredLayer(keras.layers.Layer):
    """Keras layer whose configuration is `config_of_arguments` plus Keras's name, dtype and trainable."""

    def get_config(self):
        return super().get_config() | config_of_arguments(self)


@keras.saving.register_keras_serializable(_PACKAGE)
class Linear(ConfiguredLayer):
    """Linear layer, x W + b over the last axis, with BERT's initializer and an optional activation.

    keras.layers.Dense is not used because it multiplies tensors of rank 3 as a batch and adds the bias in a form that
    oneDNN does not fuse; this layer computes one matrix product whatever the rank.

    Args:
        units: width of the output.
        activation: a name of `EncoderConfig.hidden_act`.
        initializer_range: standard deviation of the kernel initializer.
        lora: a `Lora`, or the dict made by its `to_dict`: an adapter x A B alpha / rank is added before the
            activation. If None, there is no adapter.
        use_bias: whether there is a bias b.

    Input: float [..., in]. Output: float [..., units] in the compute dtype.
    """

    def __init__(self, units, activation="linear", initializer_range=0.02, lora=None, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.activation = activation
        self.initializer_range = initializer_range
        self.lora = Lora.of(lora)
        self.use_bias = use_bias

    def build(self, input_shape):
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer(self.initializer_range))
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        if self.lora:
            a, b = (input_shape[-1], self.lora.rank), (self.lora.rank, self.units)
            self.lora_a = self.add_weight(name="lora_A", shape=a, initializer=_adapter_start())
            self.lora_b = self.add_weight(name="lora_B", shape=b, initializer="zeros")

    def call(self, x, training=None):
        tokens = tf.reshape(x, [-1, x.shape[-1]])
        if not self.use_bias:
            y = tf.matmul(tokens, self.kernel)
        elif training:
            y = training_ops.linear(tokens, self.kernel, self.bias)
        else:
            y = tf.nn.bias_add(tf.matmul(tokens, self.kernel), tf.convert_to_tensor(self.bias))
        if self.lora:
            y += tf.matmul(tf.matmul(tokens, self.lora_a), self.lora_b) * tf.cast(self.lora.scale, y.dtype)
        y = activation(self.activation, training)(y)
        return tf.reshape(y, [*axis_sizes(x)[:-1], self.units])

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)


def _adapter_start():
    """Returns the initializer of A, uniform up to 1 / sqrt(in); with zeros in B, the adapter has no effect at first.

    The paper (section 4.1) uses "random Gaussian"; this follows its authors' code and PEFT.
    """
    return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")


@keras.saving.register_keras_serializable(_PACKAGE)
class LayerNorm(ConfiguredLayer):
    """Layer normalization over the last axis (Ba et al. 2016), computed in float32.

    Args:
        epsilon: added to the variance; `EncoderConfig.layer_norm_eps`.
        use_bias: whether there is a bias `beta`.

    Input: float [..., H]. Output: the same shape, in the compute dtype.
    """

    def __init__(self, epsilon=1e-12, use_bias=True, **kwargs):
        super().__init__(autocast=False, **kwargs)  # Keras would round a float32 input to the compute dtype first
        self.epsilon = epsilon
        self.use_bias = use_bias

    def build(self, input_shape):
        width = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=width, initializer="ones", autocast=False)
        self.beta = None
        if self.use_bias:
            self.beta = self.add_weight(name="beta", shape=width, initializer="zeros", autocast=False)

    def call(self, x):
        x, gamma, beta = (tf.cast(each, tf.float32) for each in (x, self.gamma, self.beta if self.use_bias else 0.0))
        x -= tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(x * x, -1, keepdims=True)
        return tf.cast(x * tf.math.rsqrt(variance + self.epsilon) * gamma + beta, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable(_PACKAGE)
class Dropout(ConfiguredLayer):
    """Dropout: in training, zeroes a fraction `rate` of the values and scales the others by 1 / (1 - rate).

    keras.layers.Dropout keeps its random state in a variable per layer; the masks of this layer are a function of the
    `seed_scope` and the layer's path, so that no state needs to be saved to reproduce them.
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def build(self, input_shape):
        # A number derived from the layer's path, so that layers draw different masks.
        self.site = np.int32(zlib.crc32(self.path.encode()) & 0x7FFFFFFF)

    def call(self, x, training=None):
        if not training or not self.rate:
            return x
        seed = current_seed() + tf.stack([self.site, 0])
        return training_ops.dropout(x, self.rate, seed)

    def compute_output_shape(self, input_shape):
        return input_shape


class ResidualLayer(ConfiguredLayer):
    """Base class of `SelfAttention` and `TransformerBlock`: constructor arguments, a LayerNorm and output shapes.

    Args:
        num_heads: A; the width H of the input must be a multiple of it, unless `head_width` is given.
        attention_dropout, hidden_dropout: dropout rates of the attention probabilities and of the output.
        initializer_range, epsilon, norm_first, norm_bias: as in `EncoderConfig`.
        head_width: width of a head. If None, H / A.
        lora: a `Lora`, or the dict made by its `to_dict`, that selects the maps with an adapter. If None, no adapters.
        use_bias: whether the linear maps have biases.
        normalizes_input: whether, with `norm_first`, attention has a LayerNorm.
        pos_att_type: as in `EncoderConfig`.
    """

    def __init__(
        self,
        num_heads,
        attention_dropout=0.1,
        hidden_dropout=0.1,
        initializer_range=0.02,
        epsilon=1e-12,
        head_width=None,
        lora=None,
        norm_first=False,
        use_bias=True,
        norm_bias=True,
        normalizes_input=True,
        pos_att_type=(),
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention_dropout_rate = attention_dropout
        self.hidden_dropout_rate = hidden_dropout
        self.initializer_range = initializer_range
        self.epsilon = epsilon
        self.head_width = head_width
        self.lora = Lora.of(lora)
        self.norm_first = norm_first
        self.use_bias, self.norm_bias, self.normalizes_input = use_bias, norm_bias, normalizes_input
        self.pos_att_type = tuple(pos_att_type)
        self.norm = LayerNorm(epsilon, norm_bias, name="LayerNorm", dtype=self.dtype_policy, trainable=self.trainable)

    def build_linear(self, name, units, input_shape, activation="linear", target=None, use_bias=None):
        """Returns a built `Linear` with this layer's settings, with an adapter if `target` has one."""
        lora = self.lora if self.lora and target in self.lora.targets else None
        settings = {"dtype": self.dtype_policy, "trainable": self.trainable}  # frozen if this layer is
        use_bias = self.use_bias if use_bias is None else use_bias
        layer = Linear(units, activation, self.initializer_range, lora, use_bias, name=name, **settings)
        layer.build(input_shape)
        return layer

    def compute_output_spec(self, x, bias, training=None, return_probs=False, head_mask=None, view=None, relative=None):
        y = keras.KerasTensor(x.shape, self.compute_dtype)
        B, S = x.shape[:2]
        return (y, keras.KerasTensor((B, self.num_heads, S, S), self.compute_dtype)) if return_probs else y
