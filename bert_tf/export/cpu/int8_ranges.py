"""Static int8 products, with calibrated ranges: bias, activation and sum in one kernel of TensorFlow 2.17."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf.export.cpu.products import Floats, GraphConstant, quantize_columns
from bert_tf.models.layers import activation
from bert_tf.utils.tensorflow_internals import apply_op

Ranges = Mapping[tuple, np.ndarray]  # {(number of the block, which input): greatest |x| of each column, float32 [in]}

# Units of a feed-forward layer, or of each of its parts, that stay in float32, because their range is ten times as
# large as others'.
_OUTLIERS = 8
# An activation's name in the kernel, and its minimum, the start of the next product's input range.
_KERNEL_NAMES = {"gelu": ("GeluExact", -0.17), "gelu_tanh": ("GeluApproximate", -0.171), "relu": ("Relu", 0.0)}
_LEAST_INPUT, _LEAST_WEIGHT = 1e-3, 1e-6  # a column that is never used has a scale, too
_LEAST_STEP = 8  # tokens


class RecordingFloats(Floats):
    """Float32 products that record the range of each column of their inputs, without padding.

    Attributes:
        found: {key of a product: float32 [in]}, tensors of the last batch.
    """

    def begin(self, token_mask):
        self.found, self._mask = {}, tf.cast(token_mask, tf.float32)[:, tf.newaxis]

    def attention_input(self, layer, key):
        return self._noting(self.dense(layer), key)

    attention_output = attention_input

    def feed_forward(self, inner, outer, key):
        number, name = key
        inner, outer = self._noting(self.dense(inner), key), self._noting(self.dense(outer), (number, f"{name}_hidden"))
        return lambda x, residual, adds=True: outer(inner(x), residual, adds)

    def _noting(self, product, key):
        def call(x, residual=None, adds=True):
            most = tf.reduce_max(tf.abs(x) * self._mask, 0)
            self.found[key] = tf.maximum(self.found[key], most) if key in self.found else most
            return product(x, residual, adds)

        return call


class RangedInt8(Floats):
    """Products of 8-bit integers with one scale for all tokens, from calibrated ranges.

    oneDNN builds a kernel for each product and number of tokens, which takes as long as a short text's product, and
    caches the last thousand. So the flat list is padded to the next of a few sizes: eight per power of two,
    multiples of 8.
    """

    fills_up = True

    def __init__(self, ranges: Ranges):
        super().__init__("float32")
        self._ranges = {key: np.maximum(np.asarray(most, np.float32), _LEAST_INPUT) for key, most in ranges.items()}

    def _of(self, key, layer):
        return self._ranges[key][layer.columns or slice(None)]

    def fill_up(self, tokens):
        number = tf.shape(tokens)[0]
        powers = 2 ** tf.range(4, 31)
        step = tf.maximum(powers[tf.searchsorted(powers, [number])[0]] // 16, _LEAST_STEP)
        return _with_zeros(tokens, -(-number // step) * step)

    def attention_input(self, layer, key):
        """Some columns of LayerNorm's output have a much larger range than others; part of it moves into the
        kernel (SmoothQuant, Xiao et al. 2022, equation 4 with alpha 0.5)."""
        scale, most = _smoothness(self._ranges[key], layer.kernel)
        product = _Product(self, layer.kernel * scale[:, np.newaxis], layer.bias, (-most, most))
        return lambda x: product(_round(x * (1 / scale), most))

    def attention_output(self, layer, key):
        most = self._of(key, layer).max()
        product = _Product(self, layer.kernel, layer.bias, (-most, most))

        def call(mixed, residual, adds=True):
            mixed = _with_zeros(_round(mixed, most), tf.shape(residual)[0])
            return product(mixed, add=residual if adds else None)

        return call

    def feed_forward(self, inner, outer, key):
        """Values between the two products stay in 8 bits, except in the units of widest range. Those are computed
        in float32 in addition, so that the others can be rounded more finely."""
        number, name = key
        if inner.gated:  # the kernel has no such activation
            first = self.attention_input(inner, key)
            second = self.attention_output(outer, (number, f"{name}_hidden"))
            return lambda x, residual, adds=True: second(inner.activate(first(x)), residual, adds)
        reach = self._of((number, f"{name}_hidden"), outer)
        if inner.activation not in _KERNEL_NAMES or len(reach) <= _OUTLIERS:
            return super().feed_forward(inner, outer, key)
        outliers = np.sort(np.argsort(reach)[-_OUTLIERS:])
        kernel_name, least = _KERNEL_NAMES[inner.activation]
        between = np.float32(least), np.delete(reach, outliers).max()
        scale, most = _smoothness(self._ranges[key], inner.kernel)
        first = _Product(self, inner.kernel * scale[:, np.newaxis], inner.bias, (-most, most), kernel_name, between)
        rest = outer.kernel.copy()
        rest[outliers] = 0
        second = _Product(self, rest, outer.bias, between)
        exact = _small_feed_forward(inner, outer, outliers)

        def call(x, residual, adds=True):
            hidden, add = first(_round(x * (1 / scale), most)), exact(x)
            return second(hidden, add=residual + add if adds else add)

        return call


def _small_feed_forward(inner, outer, units):
    """Returns a function from float32 [P, in] to some units' contribution to the output [P, H]."""
    w1, b1, w2 = (
        GraphConstant(inner.kernel[:, units]),
        GraphConstant(inner.bias[units]),
        GraphConstant(outer.kernel[units]),
    )
    act = activation(inner.activation)
    return lambda x: tf.matmul(act(tf.nn.bias_add(tf.matmul(x, w1()), b1())), w2())


def _smoothness(reach, kernel):
    """Returns float32 [in], the divisors of the input, and the range after division."""
    scale = np.sqrt(reach / np.maximum(np.abs(kernel).max(1), _LEAST_WEIGHT)).astype(np.float32)
    return scale, (reach / scale).max()


def _round(x, most):
    # With narrow_range TensorFlow keeps this kernel, while oneDNN's would round to 127.5 steps. Any other
    # ensure_minimum_range would widen small ranges, and the product would not know.
    return tf.raw_ops.QuantizeV2(
        input=x, min_range=-most, max_range=most, T=tf.qint8, mode="SCALED", round_mode="HALF_AWAY_FROM_ZERO",
        narrow_range=True, axis=-1, ensure_minimum_range=0.0,
    ).output  # fmt: skip


class _Product:
    """A linear map by `_QuantizedMatMul`, which TensorFlow has from 2.17 on.

    Called with x [P, in], qint8 from -m to m or quint8 from the minimum of its range, and with float32 [P, out] to
    `add` or None; returns float32 [P, out], or quint8 of `out_range`.

    Args:
        arithmetic: arithmetic of the encoder.
        kernel, bias: float32 [in, out] and [out].
        x_range: minimum and maximum of x; constants, because oneDNN caches a kernel for each.
        activation: the kernel's name for it, or None.
        out_range: range of a requantized output, or None.
    """

    def __init__(self, arithmetic, kernel, bias, x_range, activation=None, out_range=None):
        integers, scales = quantize_columns(kernel)
        self.kernel, self.bias = arithmetic.weight(integers, "int8"), GraphConstant(bias)
        self.fused, self.out_range = [activation] if activation else [], out_range
        top = scales * np.float32(127)
        ranges = [*map(np.float32, x_range), -top, top, *map(np.float32, out_range or ())]
        self.ranges = [GraphConstant(each) for each in ranges]

    def __call__(self, x, add=None):
        out, last = (tf.quint8, "Requantize") if self.out_range else (tf.float32, "Dequantize")
        fused = ["BiasAdd", *self.fused, *["Add"] * (add is not None), last]
        kernel = tf.bitcast(self.kernel(), tf.qint8)
        products, _ = apply_op(
            "_QuantizedMatMul", name="int8_product",  # names that start with "_" are rejected
            device_inputs=[x, kernel, self.bias(), *([] if add is None else [add])],
            host_inputs=[each() for each in self.ranges],
            Tdevice_outputs=[out], Thost_outputs=[tf.float32] * (2 if self.out_range else 0),
            T1=x.dtype, T2=tf.qint8, Tbias=tf.float32, U=tf.float32, Tout=out, fused_ops=fused,
            input_quant_mode="SCALED" if x.dtype == tf.qint8 else "MIN_FIRST", output_quant_mode="MIN_FIRST",
            is_weight_const=True, is_bias_const=True, transpose_a=False, transpose_b=False, leakyrelu_alpha=0.2,
        )  # fmt: skip
        return tf.ensure_shape(products[0], [None, kernel.shape[1]])


def _with_zeros(tokens, number):
    """Returns [number, ...]: the tokens, padded with zeros."""
    return tf.concat([tokens, tf.zeros([number - tf.shape(tokens)[0], *tokens.shape[1:]], tokens.dtype)], 0)
