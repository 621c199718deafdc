"""A served model as a .tflite file, for LiteRT, TensorFlow's runtime on phones and small devices."""

import os
import tempfile
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.lite.python.convert_phase import ConverterError

from bert_tf.checkpoints.model_files import save_description
from bert_tf.export.litert_metadata import with_metadata
from bert_tf.export.processors import Forward
from bert_tf.export.quiet import quiet
from bert_tf.utils import names
from bert_tf.utils.processor import cores

FILE = "model.tflite"
_SHORTEST = 16  # word pieces; shorter rows gain nothing that is worth a signature
_WHOLE = "ids"

Functions = Mapping[str, tf.types.experimental.ConcreteFunction]


def lengths(max_seq_length: int) -> dict[str, int]:
    """Returns {signature: its row length}: "ids" for the longest row, "ids_16", "ids_32" and so on for shorter ones.

    LiteRT computes rows of one length each, all of it. A file holds a graph for each length and the weights once.
    """
    shorter, length = {}, _SHORTEST
    while length < max_seq_length:
        shorter[f"{_WHOLE}_{length}"] = length
        length *= 2
    return {_WHOLE: max_seq_length} | shorter


def write_model(directory: str, served) -> Mapping[str, object]:
    """Writes `served` to `directory`/model.tflite and returns {name: SignatureDef} of its signatures.

    In the file are the vocabulary, the labels and the configuration, too: it is a zip archive of them as well.

    Args:
        directory: exists.
        served: a `ServedModel`; its `weight_specs` become those of the file.
    """
    named = {name: _answering(served, length) for name, length in lengths(served.max_seq_length).items()}
    data, signatures = _converted(served, named, served.form.dtype)
    with tempfile.TemporaryDirectory() as folder:
        save_description(folder, served.task.config, served.tokenizer, served.task.labels)
        served.weight_specs, data = with_metadata(data, served.task, list(named), folder)
    with open(os.path.join(directory, FILE), "wb") as file:
        file.write(data)
    return signatures


def computed_by_litert(served) -> Forward:
    """Returns a function that computes the model's outputs, {name: tensor [n, S]} -> tensors, as LiteRT does.

    Args:
        served: a `ServedModel` with its form.
    """
    function = tf.function(lambda *values: served.forward(dict(zip(served.task.features, values, strict=True))))
    whole = function.get_concrete_function(*served.ids_specs)
    specs = tf.nest.flatten(whole.structured_outputs)
    named = {name: _raw(function, served, length) for name, length in lengths(served.max_seq_length).items()}
    run = _Rows(_converted(served, named, served.form.dtype)[0], served, specs)

    def forward(features):
        arrays = tf.numpy_function(run, [features[n] for n in served.task.features], [spec.dtype for spec in specs])
        for array, spec in zip(arrays, specs, strict=True):
            array.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(whole.structured_outputs, arrays)

    return forward


class _Rows:
    """Computes rows one by one, each batch of them by the signature of the least length that holds it."""

    def __init__(self, data, served, specs):
        # Both stay: the interpreter reads the bytes, and what runs a signature reads the interpreter.
        self._data, self._interpreter = data, interpreter_class()(model_content=data, num_threads=cores())
        named = lengths(served.max_seq_length)
        self._by_length = {n: self._interpreter.get_signature_runner(name) for name, n in named.items()}
        self._features, self._specs = served.task.features, specs

    def __call__(self, *arrays):
        width = arrays[0].shape[1]
        length = min(n for n in self._by_length if n >= width)
        padded = [_fill(array, length) for array in arrays]
        rows = (self._row(length, [array[i : i + 1] for array in padded]) for i in range(len(arrays[0])))
        outputs = zip(*rows, strict=True)
        return [self._cut(np.concatenate(parts), spec, width) for parts, spec in zip(outputs, self._specs, strict=True)]

    def _row(self, length, arrays):
        outputs = self._by_length[length](**dict(zip(self._features, arrays, strict=True)))
        return [outputs[f"output_{i}"] for i in range(len(self._specs))]

    @staticmethod
    def _cut(array, spec, width):
        """Takes what stands for padding away again, from the axes that are as long as the row."""
        return array[tuple(slice(width if axis and size is None else None) for axis, size in enumerate(spec.shape))]


def _fill(array, length):
    """Fills rows up to a length; what [PAD] is does not matter where `input_mask` is 0."""
    return np.pad(array, [(0, 0), (0, length - array.shape[1])]) if array.ndim > 1 else array


def interpreter_class() -> Callable:
    """Returns LiteRT's own, or the older one that TensorFlow has, where the package ai-edge-litert is not there."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        from tensorflow.lite.python.interpreter import Interpreter
    return Interpreter


def _answering(served, length):
    function = tf.function(served.answer_ids, autograph=False)
    return function.get_concrete_function(*_row_specs(served, length))


def _raw(function, served, length):
    def flat(*values):
        return {f"output_{i}": value for i, value in enumerate(tf.nest.flatten(function(*values)))}

    return tf.function(flat, autograph=False).get_concrete_function(*_row_specs(served, length))


def _row_specs(served, length):
    """Returns what a signature takes: one row of this length, and one place to predict."""
    size = {"masked_lm_positions": 1}
    return [tf.TensorSpec([1, size.get(spec.name, length)], spec.dtype, spec.name) for spec in served.ids_specs]


def _converted(served, functions: Functions, dtype):
    """Returns the bytes of a .tflite file with these signatures, and {name: SignatureDef}."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        tf.saved_model.save(served, folder, signatures=functions)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(functions))
        if dtype != names.EXPORT_DTYPES[0]:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]  # weights of 8 bits, activations as they come
        if dtype == "float16":
            converter.target_spec.supported_types = [tf.float16]
        try:
            data = converter.convert()
        except ConverterError as error:  # thousands of lines, in which one names the operation
            raise ValueError(
                "What is exported for litert must be made of operations that LiteRT has. Received a graph that its "
                f"converter refuses: {_reason(error)}; leave `export_for` out."
            ) from error
        with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
            saved = saved_model_pb2.SavedModel.FromString(file.read())
    found = saved.meta_graphs[0].signature_def
    return data, {name: found[name] for name in functions}


def _reason(error):
    """Returns the line of a converter's error that says most, without the place in our code."""
    lines = str(error).splitlines()
    return next((line.rpartition("error: ")[2] for line in lines if "error: " in line), lines[0])
