"""Matrix products of 8-bit integers whose ranges are known beforehand: bias, activation and sum in one kernel."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library

from bert_tf.models.graph_forms import FUSED_INT8, INT8_PRODUCTS, INT8_RANGES, RANGES, notes, once_in_graph
from bert_tf.models.row_packing import as_rows, with_zeros

# === Int8 products ===
# Matrix products of 8-bit integers, from operations of stock TensorFlow, for graphs that are served on processors.


_MOST, _ZERO = 127, 128  # a weight lies from -127 to 127; 128 stands for an activation of 0
_TINY = 1e-9  # the least scale, so that a row of zeros divides by none


def int8_linear(rows, kernel, bias):
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


# === Int8 ranges ===
# How far the inputs of products go, noted while a model reads examples: where `INT8_RANGES` is wanted.


_MASK = object()  # stands among the notes, which else are those of kernels


def note_mask(input_mask: tf.Tensor):
    """Notes what an encoder reads now: int [B, S], 0 for padding, of which it does not count how far it goes."""
    found = notes(INT8_RANGES)
    if found is not None:
        found[_MASK] = input_mask


def note_inputs(x: tf.Tensor, kernel):
    """Notes how far each column of a layer's input goes.

    Args:
        x: float [B, S, in], for the tokens of the encoder's rows, or [n, in].
        kernel: variable [in, out] of the layer.
    """
    found = notes(INT8_RANGES)
    if found is None:
        return
    reach = tf.abs(tf.cast(x, tf.float32))
    if x.shape.rank == 3 and _MASK in found:
        reach *= tf.cast(found[_MASK], tf.float32)[..., tf.newaxis]
    most = tf.reduce_max(tf.reshape(reach, [-1, x.shape[-1]]), 0)
    found[kernel.path] = tf.maximum(found[kernel.path], most) if kernel.path in found else most


def found_ranges() -> dict[str, tf.Tensor]:
    """Returns {path of a kernel: how far each column of its input went, float32 [in]}, of what was noted."""
    return {path: most for path, most in notes(INT8_RANGES).items() if path is not _MASK}


# === Fused int8 ===


# Units of a feed-forward layer, or of each of its parts, that stay in float32: they reach ten times as far as others.
_OUTLIERS = 8
# An activation's name in the kernel, and its least value, where what follows it begins to count.
_ACTIVATIONS = {"gelu": ("GeluExact", -0.17), "gelu_tanh": ("GeluApproximate", -0.171), "relu": ("Relu", 0.0)}
_LEAST_INPUT, _LEAST_WEIGHT = 1e-3, 1e-6  # a column that is never used has a scale, too
_FLOAT = {"gelu": tf.nn.gelu, "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True), "relu": tf.nn.relu}


def are_known(*layers) -> bool:
    """Returns whether the products of these layers are to be computed here: ranges are known, nobody adds to them."""
    ranges = (notes(FUSED_INT8) or {}).get(RANGES, {})
    return all(layer.kernel.path in ranges and not layer.lora for layer in layers)


def can_feed_forward(inner, outer) -> bool:
    """Returns whether the two layers with an activation between them are to be computed here."""
    has_others = inner.units > _OUTLIERS
    return has_others and inner.activation in _ACTIVATIONS and are_known(inner, outer)


def products_of_same(x: tf.Tensor, layers: Sequence) -> list[tf.Tensor]:
    """Returns what each of the layers makes of the same input, which is rounded once: float32 [..., in] -> [..., out].

    What LayerNorm puts out has columns that go much further than others; a part of their range moves into the kernels
    (SmoothQuant, Xiao et al. 2022, equation 4 with alpha 0.5).
    """
    rows = as_rows(x)
    scale, most = _smoothness(layers)
    x8 = _round(rows * (1 / scale), most)
    products = [_product(x8, (-most, most), _integers(each, scale), each.bias) for each in layers]
    return [_like(each, x) for each in products]


def plus_residual(x: tf.Tensor, layer, residual: tf.Tensor, adds: bool = True) -> tf.Tensor:
    """Returns residual + x W + b, float32 [..., out]; of x [B, S, in] and a residual that `flatten` made, too.

    Args:
        adds: False: returns x W + b, in the shape of the residual.
    """
    most = _range_of(layer).max()
    rows = as_rows(residual)
    x8 = with_zeros(_round(as_rows(x), most), tf.shape(rows)[0])
    total = _product(x8, (-most, most), _integers(layer), layer.bias, ["Add"] * adds, add=rows if adds else None)
    return _like(total, residual)


def feed_forward(x: tf.Tensor, inner, outer, residual: tf.Tensor, adds: bool = True) -> tf.Tensor:
    """Returns residual + W_2 act(W_1 x + b_1) + b_2, float32 [..., H]; the residual only if it `adds` it.

    What is between the two products never leaves 8 bits, but for the units that go furthest: those are computed in
    float32, in addition, and the others are rounded the finer.
    """
    rows, reach = as_rows(x), _range_of(outer)
    outliers = np.sort(np.argsort(reach)[-_OUTLIERS:])
    name, least = _ACTIVATIONS[inner.activation]
    between = np.float32(least), np.delete(reach, outliers).max()

    scale, most = _smoothness([inner])
    x8 = _round(rows * (1 / scale), most)
    hidden = _product(x8, (-most, most), _integers(inner, scale), inner.bias, [name], out_range=between)
    add = _share_of(outliers, rows, inner, outer)
    add = as_rows(residual) + add if adds else add
    total = _product(hidden, between, _integers(outer, without=outliers), outer.bias, ["Add"], add=add)
    return _like(total, residual)


def _share_of(units, rows, inner, outer):
    """Returns what some units of a feed-forward layer add to its output, computed in float32: [N, H]."""

    def make():
        kernel, bias = values_of(inner.kernel)[:, units], values_of(inner.bias)[units]
        return tf.constant(kernel), tf.constant(bias), tf.constant(values_of(outer.kernel)[units])

    w1, b1, w2 = once_in_graph(FUSED_INT8, (id(inner.kernel), id(outer.kernel)), make)
    return tf.matmul(_FLOAT[inner.activation](tf.nn.bias_add(tf.matmul(rows, w1), b1)), w2)


def _range_of(layer):
    return np.maximum(np.asarray(notes(FUSED_INT8)[RANGES][layer.kernel.path], np.float32), _LEAST_INPUT)


def _smoothness(layers):
    """Returns float32 [in], what to divide the input by, and how far it goes then."""
    reach = _range_of(layers[0])
    weights = np.max([np.abs(values_of(layer.kernel)).max(1) for layer in layers], 0)
    scale = np.sqrt(reach / np.maximum(weights, _LEAST_WEIGHT)).astype(np.float32)
    return scale, (reach / scale).max()


def _integers(layer, scale=None, without=()):
    """Returns constants of the graph, qint8 [in, out] and how far each column goes, float32 [out].

    A kernel that several layers share is made once.
    """

    def make():
        kernel = values_of(layer.kernel).copy()
        kernel[list(without)] = 0
        integers, scales = quantize_columns(kernel if scale is None else kernel * scale[:, np.newaxis])
        return tf.bitcast(tf.constant(integers), tf.qint8), scales * np.float32(127)

    return once_in_graph(FUSED_INT8, id(layer.kernel), make)


def _round(rows, most):
    # With narrow_range TensorFlow keeps this kernel, while oneDNN's would round to 127.5 steps. Any other
    # ensure_minimum_range would widen small ranges, and the product would not know.
    return tf.raw_ops.QuantizeV2(
        input=rows, min_range=-most, max_range=most, T=tf.qint8, mode="SCALED", round_mode="HALF_AWAY_FROM_ZERO",
        narrow_range=True, axis=-1, ensure_minimum_range=0.0,
    ).output  # fmt: skip


def _product(x8, x_range, integers, bias, fused=(), out_range=None, add=None):
    """Returns [N, out] of `_QuantizedMatMul`, which TensorFlow has from 2.17 on: float32, or quint8 of `out_range`.

    Args:
        x8: qint8 from -m to m, or quint8 from the least of its range.
        x_range: its least and its greatest number; a constant, since oneDNN keeps a product for each.
        integers: of `_integers`.
        bias: [out].
        fused: what else the kernel does, after the bias.
        out_range: of what is rounded again, or None.
        add: float32 [N, out] for "Add".
    """
    weights, top = integers
    out, last = (tf.quint8, "Requantize") if out_range else (tf.float32, "Dequantize")
    ranges = [*map(np.float32, x_range), -top, top, *map(np.float32, out_range or ())]
    is_signed = x8.dtype == tf.qint8
    products, _ = op_def_library.apply_op(
        "_QuantizedMatMul", name="int8_product",  # a name that begins with "_" is refused
        device_inputs=[x8, weights, tf.constant(values_of(bias)), *([] if add is None else [add])],
        host_inputs=[tf.constant(each) for each in ranges],
        Tdevice_outputs=[out], Thost_outputs=[tf.float32] * (2 if out_range else 0),
        T1=x8.dtype, T2=tf.qint8, Tbias=tf.float32, U=tf.float32, Tout=out, fused_ops=["BiasAdd", *fused, last],
        input_quant_mode="SCALED" if is_signed else "MIN_FIRST", output_quant_mode="MIN_FIRST",
        is_weight_const=True, is_bias_const=True, transpose_a=False, transpose_b=False, leakyrelu_alpha=0.2,
    )  # fmt: skip
    return tf.ensure_shape(products[0], [None, weights.shape[1]])


def _like(rows, x):
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], [rows.shape[-1]]], 0)) if x.shape.rank != 2 else rows
