"""Matrix products of 8-bit integers, from operations of stock TensorFlow, for graphs that are served on processors."""

import numpy as np
import tensorflow as tf

from bert_tf.models.graph_forms import INT8_PRODUCTS, once_in_graph

_MOST, _ZERO = 127, 128  # a weight lies from -127 to 127; 128 stands for an activation of 0
_TINY = 1e-9  # the least scale, so that a row of zeros divides by none


def linear(rows, kernel, bias):
    """x W + b by a product of integers, rounded once for each row of x and once for each column of W.

    Row i of x is round(x / s_i) with s_i = max |x_i| / 127, column j of W is round(W / t_j) alike (dynamic
    quantization; no calibration). TensorFlow's kernel takes activations without a sign and one scale for all: x is
    shifted by 128, whose share -128 sum_k W_kj it adds as an integer, the ranges given to it make its own scales 1, and
    s_i t_j and b are applied to what comes out, in float32. It is for graphs that are not trained: rounding has no
    gradient.

    Args:
        rows: float [N, in].
        kernel, bias: [in, out] and [out].

    Returns:
        [N, out] in the type of `rows`.
    """
    weights, top, shift = _of_kernel(kernel)
    x = tf.cast(rows, tf.float32)
    greatest = tf.maximum(tf.reduce_max(x, -1, keepdims=True), -tf.reduce_min(x, -1, keepdims=True))
    scale = tf.maximum(greatest, _TINY) * np.float32(1 / _MOST)
    shifted = tf.cast(x * (1 / scale) + (_ZERO + 0.5), tf.uint8)  # the half makes the cast round
    product = tf.raw_ops.QuantizedMatMulWithBiasAndDequantize(
        a=tf.bitcast(shifted, tf.quint8), b=weights, bias=shift,
        min_a=0.0, max_a=255.0, min_b=-float(_MOST), max_b=float(_MOST),
        min_freezed_output=-1.0, max_freezed_output=1.0,
        Toutput=tf.float32, input_quant_mode="SCALED",
    )  # fmt: skip
    return tf.cast(product * scale * top + tf.cast(bias, tf.float32), rows.dtype)


def _of_kernel(kernel):
    """Returns qint8 [in, out], float32 [out] and qint32 [out]: a kernel's integers, its scales, the shift's share.

    A kernel that several layers share is made once, a constant of the graph.
    """

    def make():
        integers, scales = quantize_columns(values_of(kernel))
        share = tf.bitcast(tf.constant(-_ZERO * integers.sum(0, dtype=np.int32)), tf.qint32)
        return tf.bitcast(tf.constant(integers), tf.qint8), tf.constant(scales), share

    return once_in_graph(INT8_PRODUCTS, id(kernel), make)


def values_of(variable) -> np.ndarray:
    """Returns what a variable holds now, float32 of its shape, also while a graph is traced."""
    with tf.init_scope():
        return np.asarray(tf.cast(tf.convert_to_tensor(variable), tf.float32))


def quantize_columns(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns int8 [in, out] and float32 [out]: what each column is divided by, its greatest value over 127."""
    scales = (np.maximum(np.abs(kernel).max(0), _TINY) / _MOST).astype(np.float32)
    return np.clip(np.round(kernel / scales), -_MOST, _MOST).astype(np.int8), scales
