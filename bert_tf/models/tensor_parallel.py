"""Layers in parts that two threads compute side by side: by heads and by units, for a text alone on a processor.

To share each product among threads they must meet at each product. Here they meet twice in a block (Shoeybi et al.
2019, section 3): the products of one half of the heads, or of the units of a feed-forward layer, hang on nothing that
the other half computes, and what both give is added.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models.fused_int8 import values_of
from bert_tf.models.graph_forms import FUSED_INT8, INT8_PRODUCTS, RANGES, TENSOR_PARALLEL, is_wanted, notes
from bert_tf.models.layers import Linear, linear

PARTS = 2


class Part:
    """A part of a `Linear` that is not trained, with weights of its own; or of several that read the same, in one.

    Args:
        layers: each a `Linear`, built, without an adapter; all have the same activation. Outputs lie side by side.
        inputs, units: which of each.
        share: of the bias. A half in each of two: without any, TensorFlow's product would pack a constant kernel at
            each run.

    Attributes: as of a `Linear`; `bias` float32 [units], which becomes a constant of a graph.
    """

    lora = None

    def __init__(self, layers: Sequence[Linear], inputs=slice(None), units=slice(None), share=1.0):
        first = layers[0]
        kernel = np.concatenate([values_of(layer.kernel)[inputs, units] for layer in layers], 1)
        self.kernel = _weight(kernel, first.kernel, f"{inputs.start or 0}.{units.start or 0}")
        self.bias = np.concatenate([values_of(layer.bias)[units] for layer in layers]) * np.float32(share)
        self.units = kernel.shape[1]
        self.activation = first.activation
        ranges = (notes(FUSED_INT8) or {}).get(RANGES, {})
        if all(layer.kernel.path in ranges for layer in layers):
            ranges[self.kernel.path] = ranges[first.kernel.path][inputs]

    def __call__(self, x: tf.Tensor, training=None) -> tf.Tensor:
        """Returns float [..., units] for float [..., in]."""
        assert not training, "a part is not trained"
        return linear(self, x)


def split_layers(layers: Sequence[Linear], last: Linear, width: int = 1) -> list[tuple[Sequence, Linear]]:
    """Returns [(layers, last)], or where parts are wanted [([part of all layers], part of last), ...].

    What the `last` of each gives is added.

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
    some = slice(units[0], units[-1] + 1)
    return [Part(layers, units=some)], Part([last], inputs=some, share=1 / PARTS)


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
