"""Building blocks of the fast forward pass: weights, matrix products and layer norm, in float and int8."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models.layers import activation, gated

# (x [P, in], residual [P, out] or None, whether it is added) -> [P, out]
Product = Callable[..., tf.Tensor]

_MOST, _ZERO = 127, 128  # weights are from -127 to 127; 128 represents an activation of 0
_TINY = 1e-9  # the minimum scale, so that a row of zeros is not divided by 0


@dataclasses.dataclass(frozen=True)
class DenseWeights:
    """A linear map x W + b followed by its activation.

    Attributes:
        kernel, bias: float32 [in, out] and [out].
        activation: a name of `EncoderConfig.hidden_act`.
        gated: whether it is applied to the first half of the units and multiplied by the others.
        columns: the columns of the model's input that a part of the map reads; None for all.
    """

    kernel: np.ndarray
    bias: np.ndarray
    activation: str = "linear"
    gated: bool = False
    columns: slice | None = None

    def activate(self, x: tf.Tensor) -> tf.Tensor:
        """Applies the activation to x W + b."""
        return gated(x, self.activation) if self.gated else activation(self.activation)(x)


class GraphConstant:
    """An array that becomes one constant of each graph that uses it, even if several layers share it."""

    def __init__(self, value: np.ndarray):
        self._value, self._graph, self._tensor = value, None, None

    def __call__(self) -> tf.Tensor:
        graph = tf.compat.v1.get_default_graph()
        if graph is not self._graph:
            self._graph, self._tensor = graph, tf.constant(self._value)
        return self._tensor


class Floats:
    """Products in float32 or bfloat16, with weights that are variables.

    Attributes:
        weights: the variables so far.
    """

    fills_up = False  # whether `fill_up` adds tokens

    def __init__(self, dtype: str = "float32"):
        self.dtype, self.weights = tf.as_dtype(dtype), []

    def begin(self, token_mask: tf.Tensor):
        """Called with int32 [P], 0 for padding, before the products of a batch."""

    def fill_up(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the flat list [P], padded with zeros to the number of tokens to compute."""
        return tokens

    def weight(self, values: np.ndarray, dtype: str | None = None) -> Callable[[], tf.Tensor]:
        """Returns a function that returns a weight; `dtype` None: in that of the products."""
        # Keras's, whose value a scope may replace.
        variable = keras.Variable(values, trainable=False, dtype=dtype or self.dtype.name, autocast=False)
        self.weights.append(variable)
        return lambda: tf.convert_to_tensor(variable.value)

    def dense(self, layer: DenseWeights) -> Product:
        kernel, bias, act = self.weight(layer.kernel), self.weight(layer.bias), layer.activate

        def product(x, residual=None, adds=True):
            y = act(tf.nn.bias_add(tf.matmul(x, kernel()), bias()))
            return y if residual is None or not adds else residual + y

        return product

    def attention_input(self, layer: DenseWeights, key: tuple) -> Product:
        """Returns the map to queries, keys and values; `key` is (layer index, name of the product)."""
        return self.dense(layer)

    def attention_output(self, layer: DenseWeights, key: tuple) -> Product:
        return self.dense(layer)

    def feed_forward(self, inner: DenseWeights, outer: DenseWeights, key: tuple) -> Product:
        first, second = self.dense(inner), self.dense(outer)
        return lambda x, residual, adds=True: second(first(x), residual, adds)


class Int8(Floats):
    """Products of 8-bit integers, with one scale per token and per column of W; everything else is float32.

    Row i of x is round(x / s_i) with s_i = max |x_i| / 127, column j of W is round(W / t_j) alike (dynamic
    quantization; no calibration). TensorFlow's kernel takes activations without a sign and one scale for all: x is
    shifted by 128, whose contribution -128 sum_k W_kj is added as an integer; the ranges passed to it set its own
    scales to 1, and s_i t_j and b are applied to the result.
    """

    def dense(self, layer):
        integers, column_scales = quantize_columns(layer.kernel)
        kernel, scales = self.weight(integers, "int8"), GraphConstant(column_scales)
        shift, bias = GraphConstant(-_ZERO * integers.sum(0, dtype=np.int32)), GraphConstant(layer.bias)
        act = layer.activate

        def product(x, residual=None, adds=True):
            greatest = tf.maximum(tf.reduce_max(x, -1, keepdims=True), -tf.reduce_min(x, -1, keepdims=True))
            scale = tf.maximum(greatest, _TINY) * np.float32(1 / _MOST)
            shifted = tf.cast(x * (1 / scale) + (_ZERO + 0.5), tf.uint8)  # adding 0.5 makes the cast round
            y = tf.raw_ops.QuantizedMatMulWithBiasAndDequantize(
                a=tf.bitcast(shifted, tf.quint8), b=tf.bitcast(kernel(), tf.qint8), bias=tf.bitcast(shift(), tf.qint32),
                min_a=0.0, max_a=255.0, min_b=-float(_MOST), max_b=float(_MOST),
                min_freezed_output=-1.0, max_freezed_output=1.0,
                Toutput=tf.float32, input_quant_mode="SCALED",
            )  # fmt: skip
            y = act(y * scale * scales() + bias())
            return y if residual is None or not adds else residual + y

        return product


def quantize_columns(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns int8 [in, out] and float32 [out]: the divisor of each column, its maximum over 127."""
    scales = (np.maximum(np.abs(kernel).max(0), _TINY) / _MOST).astype(np.float32)
    return np.clip(np.round(kernel / scales), -_MOST, _MOST).astype(np.int8), scales


class FusedLayerNorm:
    """Layer normalization of [P, H] in the form that grappler fuses into one kernel, `_MklLayerNorm`.

    Rows are the channels of a batch normalization, whose kernel computes in float32.
    """

    def __init__(self, layer, arithmetic: Floats):
        """Args: the model's `LayerNorm`, built; the products that set its dtype."""
        self.epsilon, dtype = layer.epsilon, arithmetic.dtype.as_numpy_dtype
        beta = values_of(layer.beta) if layer.use_bias else np.zeros(layer.gamma.shape)
        self.gamma, self.beta = (GraphConstant(each.astype(dtype)) for each in (values_of(layer.gamma), beta))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        shape, width, gamma = tf.shape(x), x.shape[-1], self.gamma()
        ones, zeros, none = tf.fill([shape[0]], 1.0), tf.fill([shape[0]], 0.0), tf.constant([], tf.float32)
        rows = tf.reshape(tf.cast(x, gamma.dtype), [1, shape[0], width, 1])
        normalized, *_ = tf.raw_ops.FusedBatchNormV3(
            x=rows, scale=ones, offset=zeros, mean=none, variance=none, epsilon=self.epsilon, data_format="NCHW"
        )
        return tf.reshape(normalized, shape) * gamma + self.beta()


def values_of(variable) -> np.ndarray:
    """Returns the current value of a variable, float32 of its shape, even while a graph is traced."""
    with tf.init_scope():
        return np.asarray(tf.cast(tf.convert_to_tensor(variable), tf.float32))
