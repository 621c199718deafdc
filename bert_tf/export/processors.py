"""What makes a served model faster on processors: fewer kernels, two threads, constants, products of integers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from bert_tf.export.form import Form
from bert_tf.models.graph_forms import FLAT_ROWS, INT8_PRODUCTS, LAYER_NORM_KERNEL, ROW_PACKING, graph_forms

_MOST_BYTES = 2**31 - 2**26  # a SavedModel's graph is one protocol buffer, and those end at 2 GiB

Forward = Callable[[Mapping[str, tf.Tensor]], Any]


def in_form(forward: Forward, form: Form, ranges: Mapping[str, np.ndarray] | None = None) -> Forward:
    """Returns a function that computes the same in the ways that suit the form of the export.

    Args:
        forward: {name: tensor} -> tensors.
        form: of the export.
        ranges: of `calibration.input_ranges`, where the form takes them; None: the scale of each row is found anew.
    """
    ways = (INT8_PRODUCTS,) * form.has_int8_products
    if form.export_for == "cpu":
        ways += (LAYER_NORM_KERNEL, ROW_PACKING, FLAT_ROWS)
    parts = {} if form.is_tensor_parallel else None  # as long as `call`: made for the first graph, and their ranges too
    ranges = None if ranges is None else dict(ranges)

    def call(features):
        with graph_forms(*ways, ranges=ranges, parts=parts):
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
    traced = _traced(forward, inputs)
    return _calling(convert_variables_to_constants_v2(traced, lower_control_flow=False), traced, inputs)


def with_own_weights(
    forward: Forward, inputs: Sequence[tf.TensorSpec]
) -> tuple[Forward, list[tf.Variable], list[tf.TensorSpec]]:
    """Returns a function that computes the same, which variables it reads, and specs of these and of its constants.

    Args:
        forward: {name: tensor} -> tensors, with weights of its own besides those of the model: parts, or integers as
            constants.
        inputs: what it takes, with names.
    """
    traced = _traced(forward, inputs)
    handles = {id(each) for each in traced.captured_inputs}
    variables = [each for each in traced.graph.variables if id(each.handle) in handles]  # others were only looked at
    constants = [op.outputs[0] for op in traced.graph.get_operations() if op.type == "Const"]
    numbers = [each for each in constants if each.dtype in (tf.int8, tf.float32) and each.shape.rank]
    specs = [tf.TensorSpec(each.shape, each.dtype) for each in (*variables, *numbers)]
    return _calling(traced, traced, inputs), variables, specs


def _traced(forward, inputs):
    """Returns the one function that all signatures call, so that a SavedModel holds its constants once."""
    names = [each.name for each in inputs]
    function = tf.function(lambda *values: forward(dict(zip(names, values, strict=True))), inputs, autograph=False)
    return function.get_concrete_function()


def _calling(function, traced, inputs):
    def call(features):
        outputs = tf.nest.flatten(function(*(features[each.name] for each in inputs)))
        return tf.nest.pack_sequence_as(traced.structured_outputs, outputs)

    return call


def size_of(weights: Sequence[tf.TensorSpec]) -> int:
    """Returns how many bytes the weights take."""
    return sum(each.shape.num_elements() * each.dtype.size for each in weights)
