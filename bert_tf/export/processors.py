"""What makes a served model faster on processors: fewer kernels, and weights that oneDNN packs once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from bert_tf.modeling.numerics import layer_norms_in_one_kernel

_MOST_BYTES = 2**31 - 2**26  # a SavedModel's graph is one protocol buffer, and those end at 2 GiB

Forward = Callable[[Mapping[str, tf.Tensor]], Any]


def with_few_kernels(forward: Forward) -> Forward:
    """Returns a function that computes the same, with a form of LayerNorm that is one kernel on processors."""

    def call(features):
        with layer_norms_in_one_kernel():
            return forward(features)

    return call


def gain_as_constants(weights: Sequence[tf.TensorSpec]) -> bool:
    """Returns whether constants are faster than variables: in bfloat16 they are.

    TensorFlow keeps one packed form of a constant, the one that suits its first product, and packs it again in each
    product that wants another. In bfloat16 one form suits all; in float32 it depends on the number of rows, so that
    requests of other lengths than the first one take up to twice as long.
    """
    return any(each.dtype == tf.bfloat16 for each in weights)


def with_constants(forward: Forward, inputs: Sequence[tf.TensorSpec], weights: Sequence[tf.TensorSpec]) -> Forward:
    """Returns a function that computes the same, its weights constants of the graph.

    All signatures call this one function, so that a SavedModel holds the weights once.

    Args:
        forward: {name: tensor} -> tensors.
        inputs: what it takes, with names.
        weights: of the model.

    Raises:
        ValueError: there are too many weights for a graph.
    """
    size = size_of(weights)
    if size > _MOST_BYTES:
        raise ValueError(
            f"The weights of an export with `export_for=cpu` must take at most {_MOST_BYTES / 2**30:.2f} GiB, which is "
            f"what a graph holds. Received {size / 2**30:.2f} GiB; leave `export_for` out."
        )
    names = [each.name for each in inputs]
    function = tf.function(lambda *values: forward(dict(zip(names, values, strict=True))), inputs, autograph=False)
    traced = function.get_concrete_function()
    frozen = convert_variables_to_constants_v2(traced, lower_control_flow=False)

    def call(features):
        outputs = tf.nest.flatten(frozen(*(features[name] for name in names)))
        return tf.nest.pack_sequence_as(traced.structured_outputs, outputs)

    return call


def size_of(weights: Sequence[tf.TensorSpec]) -> int:
    """Returns how many bytes the weights take."""
    return sum(each.shape.num_elements() * each.dtype.size for each in weights)
