"""A task's model for CPUs: with the fast encoder, and with weights as constants if that is faster."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.export.cpu.deferred_constants import DeferredConstants
from bert_tf.export.cpu.encoder import FastEncoder
from bert_tf.export.cpu.int8_ranges import RangedInt8, Ranges
from bert_tf.export.cpu.products import Floats, Int8
from bert_tf.export.export_options import ExportOptions
from bert_tf.models.encoder_replacement import replace_encoder

MOST_BYTES = 2**31 - 2**26  # a SavedModel's graph is one protocol buffer, which is limited to 2 GiB

Forward = Callable[[Mapping[str, tf.Tensor]], Any]


def fast_model(
    model: keras.Model, options: ExportOptions, ranges: Ranges | None = None
) -> tuple[keras.Model, list[keras.Variable]]:
    """Returns an equivalent model that suits the export, and the variables that it has in addition to the model's.

    It is the model itself, or one with the fast encoder.

    Args:
        model: a task's functional model, with the export's dtype.
        options: options of the export.
        ranges: of `calibration.input_ranges`, if the export uses them; if None, each token has its own scale.
    """
    if not options.has_fast_encoder:
        return model, []
    arithmetic = Floats(options.variable_dtype)
    if options.has_int8_products:
        arithmetic = Int8() if ranges is None else RangedInt8(ranges)
    fast = replace_encoder(model, lambda encoder: FastEncoder(encoder, arithmetic, options.parts))
    return fast, arithmetic.weights


def gain_as_constants(weights: Sequence[tf.TensorSpec]) -> bool:
    """Returns whether constants are faster than variables, as they are in bfloat16.

    TensorFlow caches one packed layout of a constant, the one for its first product, and packs it again in each
    product that needs another. In bfloat16 one layout suits all; in float32 it depends on the number of rows, so that
    requests of other lengths than the first one take up to twice as long.
    """
    return any(each.dtype == tf.bfloat16 for each in weights)


def with_constants(
    forward: Forward, inputs: Sequence[tf.TensorSpec], variables: Sequence[keras.Variable]
) -> tuple[Forward, DeferredConstants]:
    """Returns a function for a SavedModel, with constants instead of the variables, and what fills in their values.

    Args:
        forward: {name: tensor} -> tensors.
        inputs: its named inputs.
        variables: among those that it reads.

    Raises:
        ValueError: the constants are too large for a graph.
    """
    size = size_of([tf.TensorSpec(each.shape, each.dtype) for each in variables])
    if size > MOST_BYTES:
        raise ValueError(
            f"`export_dtype=int8` and bfloat16 with `export_for=cpu` are limited to {MOST_BYTES / 2**30:.2f} GiB of "
            f"weights, which is the limit of a graph; this model has {size / 2**30:.2f} GiB. Use "
            "`export_dtype=float32`."
        )
    constants = DeferredConstants(variables)

    def compute(features):
        with constants.scope():
            return forward(features)

    return _call_traced(_trace(compute, inputs), inputs), constants


def with_own_weights(
    forward: Forward, inputs: Sequence[tf.TensorSpec]
) -> tuple[Forward, list[tf.Variable], list[tf.TensorSpec]]:
    """Returns an equivalent function, the variables that it reads, and specs of these and of its constants.

    Args:
        forward: {name: tensor} -> tensors, with weights in addition to the model's: parts, or integers.
        inputs: its named inputs.
    """
    traced = _trace(forward, inputs)
    handles = {id(each) for each in traced.captured_inputs}
    variables = [each for each in traced.graph.variables if id(each.handle) in handles]  # others were only traced
    constants = [op.outputs[0] for op in traced.graph.get_operations() if op.type == "Const"]
    numbers = [each for each in constants if each.dtype == tf.float32 and each.shape.rank]
    specs = [tf.TensorSpec(each.shape, each.dtype) for each in (*variables, *numbers)]
    return _call_traced(traced, inputs), variables, specs


def _trace(forward, inputs):
    """Returns the one function that all signatures call, so that a SavedModel contains its constants once."""
    names = [each.name for each in inputs]
    function = tf.function(lambda *values: forward(dict(zip(names, values, strict=True))), inputs, autograph=False)
    return function.get_concrete_function()


def _call_traced(traced, inputs):
    return lambda features: traced(*(features[each.name] for each in inputs))


def size_of(weights: Sequence[tf.TensorSpec]) -> int:
    """Returns the size of the weights in bytes."""
    return sum(each.shape.num_elements() * each.dtype.size for each in weights)
