"""Ranges of int8 products from examples, and what processors gain by them."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from bert_tf.export.export_options import ExportOptions
from bert_tf.models.fused_int8 import found_ranges
from bert_tf.models.graph_forms import (
    FLAT_ROWS,
    INT8_PRODUCTS,
    INT8_RANGES,
    LAYER_NORM_KERNEL,
    ROW_PACKING,
    graph_forms,
)
from bert_tf.utils.files import read_lines

# === Processors ===
# What makes a served model faster on processors: fewer kernels, two threads, constants, products of integers.


_MOST_BYTES = 2**31 - 2**26  # a SavedModel's graph is one protocol buffer, and those end at 2 GiB

Forward = Callable[[Mapping[str, tf.Tensor]], Any]


def optimize_forward(
    forward: Forward, options: ExportOptions, ranges: Mapping[str, np.ndarray] | None = None
) -> Forward:
    """Returns a function that computes the same in the ways that suit the export.

    Args:
        forward: {name: tensor} -> tensors.
        options: of the export.
        ranges: of `calibration.input_ranges`, where the export takes them; None: the scale of each row is found again.
    """
    ways = (INT8_PRODUCTS,) * options.has_int8_products
    if options.export_for == "cpu":
        ways += (LAYER_NORM_KERNEL, ROW_PACKING, FLAT_ROWS)
    # As long as `call` lives: made for the first graph, and their ranges too.
    parts = {} if options.is_tensor_parallel else None
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
    traced = _trace(forward, inputs)
    return _call_traced(convert_variables_to_constants_v2(traced, lower_control_flow=False), traced, inputs)


def with_own_weights(
    forward: Forward, inputs: Sequence[tf.TensorSpec]
) -> tuple[Forward, list[tf.Variable], list[tf.TensorSpec]]:
    """Returns a function that computes the same, which variables it reads, and specs of these and of its constants.

    Args:
        forward: {name: tensor} -> tensors, with weights of its own besides those of the model: parts, or integers as
            constants.
        inputs: what it takes, with names.
    """
    traced = _trace(forward, inputs)
    handles = {id(each) for each in traced.captured_inputs}
    variables = [each for each in traced.graph.variables if id(each.handle) in handles]  # others were only looked at
    constants = [op.outputs[0] for op in traced.graph.get_operations() if op.type == "Const"]
    numbers = [each for each in constants if each.dtype in (tf.int8, tf.float32) and each.shape.rank]
    specs = [tf.TensorSpec(each.shape, each.dtype) for each in (*variables, *numbers)]
    return _call_traced(traced, traced, inputs), variables, specs


def _trace(forward, inputs):
    """Returns the one function that all signatures call, so that a SavedModel holds its constants once."""
    names = [each.name for each in inputs]
    function = tf.function(lambda *values: forward(dict(zip(names, values, strict=True))), inputs, autograph=False)
    return function.get_concrete_function()


def _call_traced(function, traced, inputs):
    def call(features):
        outputs = tf.nest.flatten(function(*(features[each.name] for each in inputs)))
        return tf.nest.pack_sequence_as(traced.structured_outputs, outputs)

    return call


def size_of(weights: Sequence[tf.TensorSpec]) -> int:
    """Returns how many bytes the weights take."""
    return sum(each.shape.num_elements() * each.dtype.size for each in weights)


# === Ranges ===
# How far the inputs of a model's products go on examples: what products of integers are to cover.


MOST_EXAMPLES = 512  # ranges hardly grow beyond
BATCH_SIZE = 32


def input_ranges(forward: Forward, batches: Iterable[Mapping[str, tf.Tensor]]) -> dict[str, np.ndarray]:
    """Returns {path of a kernel: greatest absolute value of each column of its input, float32 [in]}.

    Args:
        forward: {name: tensor} -> the outputs of a model in float32.
        batches: what it is given; padding does not count.

    Raises:
        ValueError: there are none.
    """

    def ranges_of(features):
        with graph_forms(INT8_RANGES):
            forward(features)
            return found_ranges()

    run, ranges = tf.function(ranges_of, reduce_retracing=True, autograph=False), {}
    for batch in batches:
        for path, most in run(batch).items():
            ranges[path] = np.maximum(ranges.get(path, 0), most.numpy())
    if not ranges:
        raise ValueError("Ranges of integers must be set by examples. Received none; leave the calibration out.")
    return ranges


def read_calibration_texts(path: str | os.PathLike, task: Any, text_inputs: Sequence[str]) -> list[list[str]]:
    """Returns the texts of the first examples of a file.

    Args:
        path: of the file, one example in a line; tabs stand between its texts, and between the texts of a list.
        task, text_inputs: as `ServingModule` takes them; only the last input may be a list.

    Raises:
        ValueError: the file holds none, or a line has more or fewer texts than an example.
    """
    assert set(task.list_inputs) <= {text_inputs[-1]}, text_inputs
    lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(read_lines(path), 1) if line.strip())
    first = itertools.islice(lines, MOST_EXAMPLES)
    examples = [_split_line(path, number, line, task, text_inputs) for number, line in first]
    if not examples:
        raise ValueError(f"{os.fspath(path)} must hold texts, one example in a line. Received a file without any.")
    return examples


def batches_of_texts(examples: Iterable[list[str]], task: Any, tokenizer: Any, text_inputs: Sequence[str],
                     max_seq_length: int) -> Iterator[Mapping[str, tf.Tensor]]:  # fmt: skip
    """Yields what a served model is given for examples of `read_calibration_texts`.

    Args:
        examples: texts of each.
        task, tokenizer, text_inputs, max_seq_length: as `ServingModule` takes them.
    """
    singles = len(text_inputs) - len(task.list_inputs)
    for _, group in itertools.groupby(sorted(examples, key=len), key=len):
        alike = list(group)
        for start in range(0, len(alike), BATCH_SIZE):
            strings = tf.constant(alike[start : start + BATCH_SIZE])
            inputs = [strings[:, n] for n in range(singles)] + [strings[:, singles:] for _ in task.list_inputs]
            yield task.read(tokenizer, inputs, max_seq_length)[0]


def _split_line(path, number, line, task, text_inputs):
    texts, fewest = line.split("\t"), len(text_inputs) + len(task.list_inputs)  # of a list there are two at least
    if len(texts) < fewest or (len(texts) > fewest and not task.list_inputs):
        names = [*text_inputs, *text_inputs[-1:] * len(task.list_inputs), *["..."] * len(task.list_inputs)]
        raise ValueError(
            f"{os.fspath(path)}:{number}: the line must be what the model takes, {' <TAB> '.join(names)}. "
            f"Received {len(texts)} texts; a tab parts one from the next, so write other tabs as spaces."
        )
    return texts
