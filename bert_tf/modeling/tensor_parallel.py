"""Layers in parts that two threads compute side by side: by heads and by units, for a text alone on a processor.

To share each product among threads they must meet at each product. Here they meet twice in a block (Shoeybi et al.
2019, section 3): the products of one half of the heads, or of the units of a feed-forward layer, hang on nothing that
the other half computes, and what both give is added.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_tf.modeling.graph_forms import FUSED_INT8, INT8_PRODUCTS, RANGES, TENSOR_PARALLEL, is_wanted, notes
from bert_tf.modeling.int8_products import values_of
from bert_tf.modeling.layers import Linear, linear

PARTS = 2


class Part:
    """A part of a `Linear` that is not trained, with weights of its own: some of its units, or of its inputs.

    Args:
        layer: a `Linear`, built, without an adapter.
        inputs, units: which of them.
        has_bias: False: what it gives is added to that of a part that has the bias.

    Attributes: as of a `Linear`; `bias` float32 [units], which becomes a constant of a graph, or None.
    """

    lora = None

    def __init__(self, layer: Linear, inputs=slice(None), units=slice(None), has_bias=True):
        kernel = values_of(layer.kernel)[inputs, units]
        self.kernel = _weight(kernel, layer.kernel, f"{inputs.start or 0}.{units.start or 0}")
        self.bias = values_of(layer.bias)[units] if has_bias else None
        self.units = kernel.shape[1]
        self.activation = layer.activation
        ranges = (notes(FUSED_INT8) or {}).get(RANGES, {})
        if layer.kernel.path in ranges:
            ranges[self.kernel.path] = ranges[layer.kernel.path][inputs]

    def __call__(self, x: tf.Tensor, training=None) -> tf.Tensor:
        """Returns float [..., units] for float [..., in]."""
        assert not training, "a part is not trained"
        return linear(self, x)


def split(layers: Sequence[Linear], last: Linear, width: int = 1) -> list[tuple[Sequence, Linear]]:
    """Returns [(layers, last)], or where parts are wanted [(their parts, part of last), ...], whose outputs are added.

    Args:
        layers: that read the same, of equal units.
        last: what reads what was made of their units, each group of `width` of them for itself.
        width: units that stay together, as those of a head do.
    """
    found, units = notes(TENSOR_PARALLEL), last.kernel.shape[0]
    if found is None or units % (PARTS * width) or any(layer.lora for layer in (*layers, last)):
        return [(layers, last)]
    key = tuple(id(layer.kernel) for layer in (*layers, last))
    if key not in found:
        found[key] = [_part(layers, last, part) for part in np.split(np.arange(units), PARTS)]
    return found[key]


def _part(layers, last, units):
    some, is_first = slice(units[0], units[-1] + 1), units[0] == 0
    return [Part(layer, units=some) for layer in layers], Part(last, inputs=some, has_bias=is_first)


class _Numbers(np.ndarray):
    """A weight of which integers are made while a graph is traced, and which no graph reads."""

    path: str


def _weight(values, whole, place):
    name = f"{whole.path.replace('/', '.')}.{place}"
    if is_wanted(INT8_PRODUCTS):
        numbers = values.view(_Numbers)
        numbers.path = name
        return numbers
    with tf.init_scope():
        return keras.Variable(values, dtype=whole.dtype, trainable=False, name=name)
