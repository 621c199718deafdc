"""Export of a served model as a .tflite file for LiteRT, TensorFlow's runtime on phones and small devices."""

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.lite.python.convert_phase import ConverterError

from bert_tf.checkpoints.loading import save_description
from bert_tf.export.cpu.model import Forward
from bert_tf.export.litert_metadata import with_metadata
from bert_tf.export.quiet_logs import quiet
from bert_tf.lite.litert_file import MODEL_FILE, TASK_FILE
from bert_tf.tasks.text_lists import MISSING
from bert_tf.tokenization.tokenizer_json import remove_repeated_vocabulary
from bert_tf.utils import names
from bert_tf.utils.files import write_text
from bert_tf.utils.litert_runner import UP_TO, WHOLE, LitertRunner
from bert_tf.utils.resources import cores

_SHORTEST = 16  # tokens; a signature for shorter sequences would gain too little

Functions = Mapping[str, tf.types.experimental.ConcreteFunction]


def lengths(max_seq_length: int, longest: int | None = None) -> dict[str, int]:
    """Returns {signature: length of its sequences}: "ids" for the longest, "ids_16", "ids_24" and so on for shorter.

    From 16 tokens on, there is a length between each and its double, so that no more than a third is padding.

    These graphs have a fixed sequence length. A file contains one per length, and the weights only once. There are at
    least two lengths, so that `LitertRunner` can tell which axes vary with the length.

    Args:
        max_seq_length: maximum sequence length of the model.
        longest: the length of "ids", if it is less; longer sequences then have no graph.
    """
    max_seq_length = min(max_seq_length, longest or max_seq_length)
    shorter, length = [], min(_SHORTEST, max(2, max_seq_length // 2))
    while length < max_seq_length:
        shorter += [length] if length < _SHORTEST else [length, length // 2 * 3]
        length *= 2
    return {WHOLE: max_seq_length} | {f"{WHOLE}_{each}": each for each in shorter if each < max_seq_length}


def any_length(served) -> dict[str, None]:
    """Returns {signature: None} of a graph for sequences of any length; {} if the model's graphs need fixed ones.

    Shapes that are computed from a length are unknown to LiteRT until it has computed them, and then its fast kernels
    (XNNPACK) do not take the layers. Without relative positions, local or causal attention there are none.

    Args:
        served: a `ServingModule`.
    """
    config = served.task.config
    is_local = any(map(config.is_local, range(config.num_hidden_layers)))
    has_relative = config.pos_att_type or config.relative_attention_num_buckets
    if is_local or has_relative or config.is_decoder or config.conv_kernel_size:
        return {}
    return {f"{UP_TO}{served.max_seq_length}": None}


def write_litert(
    directory: str, served, task_options: Mapping[str, Any], sequence_lengths: Mapping[str, int | None] | None = None
) -> Mapping[str, object]:
    """Writes `served` to `directory`/model.tflite and returns {name: SignatureDef} of its signatures.

    The file also contains the tokenizer's files, the labels, the configuration and the task, as a zip archive.

    Args:
        directory: exists.
        served: a `ServingModule`; its `weight_specs` become those of the file.
        task_options: options of its task, JSON values.
        sequence_lengths: {signature: length, or None for any}, from `lengths` or `any_length`; None for `lengths` up to
            the longest sequence of the model.
    """
    function = tf.function(_answer_of_sequence(served), autograph=False)
    sequence_lengths = sequence_lengths or lengths(served.max_seq_length)
    named = {
        name: function.get_concrete_function(*_sequence_specs(served, length))
        for name, length in sequence_lengths.items()
    }
    data, signatures = _convert(served, named, served.options.dtype)
    inputs = {"text_inputs": list(served.text_inputs), "max_seq_length": served.max_seq_length}
    with tempfile.TemporaryDirectory() as folder:
        save_description(folder, served.task.config, served.tokenizer, served.task.labels)
        remove_repeated_vocabulary(folder, served.tokenizer)
        write_text(os.path.join(folder, TASK_FILE), json.dumps({"task": served.task.name, **task_options, **inputs}))
        served.weight_specs, data = with_metadata(data, served.task, list(named), folder)
    with open(os.path.join(directory, MODEL_FILE), "wb") as file:
        file.write(data)
    return signatures


def _has_several_sequences(served):
    """Returns whether an example of the model has several sequences, [n, N, S]."""
    return served.ids_specs[0].shape.rank > 2


def _answer_of_sequence(served):
    """Returns the function of a signature: the answer, or the logits of one of an example's sequences."""
    if not _has_several_sequences(served):
        return served.answer_ids

    def logits(*features):
        named = {name: values[:, tf.newaxis] for name, values in zip(served.task.features, features, strict=True)}
        return {"logits": tf.reshape(served.forward(named), [1, -1])}

    return logits


def computed_by_litert(served) -> Forward:
    """Returns a function that computes the model's outputs as LiteRT does, {name: tensor [n, S]} -> tensors.

    A model that is served single texts may be scored on groups of N texts: {name: [n, N, S]} -> [n, N, ...], zeros
    where a group has fewer texts.

    Args:
        served: a `ServingModule`.
    """
    function = _answer_of_sequence(served) if _has_several_sequences(served) else _forward_of(served)
    function = tf.function(function, autograph=False)
    whole = tf.function(_forward_of(served), autograph=False).get_concrete_function(*served.ids_specs)
    specs = tf.nest.flatten(whole.structured_outputs)
    named = {name: _trace_raw(function, served, length) for name, length in lengths(served.max_seq_length).items()}
    runner = LitertRunner(_convert(served, named, served.options.dtype)[0], cores())

    def run(*arrays):
        features = dict(zip(served.task.features, arrays, strict=True))
        if _has_several_sequences(served):
            return [_together(served.task, features, runner)]
        outputs = runner(features) if features["input_ids"].ndim == 2 else _of_groups(features, runner)
        return [outputs[f"output_{i}"] for i in range(len(specs))]

    def forward(features):
        arrays = tf.numpy_function(run, [features[n] for n in served.task.features], [spec.dtype for spec in specs])
        more = features["input_ids"].shape.rank - served.ids_specs[0].shape.rank  # axes of groups
        for array, spec in zip(arrays, specs, strict=True):
            array.set_shape([*[None] * more, *spec.shape])
        return tf.nest.pack_sequence_as(whole.structured_outputs, arrays)

    return forward


def _forward_of(served):
    return lambda *values: served.forward(dict(zip(served.task.features, values, strict=True)))


def _together(task, features, runner):
    """Returns the logits of examples from those of their sequences, as the layers of `models/windows.py` do."""
    there, values = features["input_mask"].any(-1), _of_groups(features, runner)["output_0"]
    if task.list_inputs:
        return np.where(there, values[..., 0], np.float32(MISSING))
    return values.sum(1) / np.maximum(there.sum(1, keepdims=True), 1).astype(np.float32)


def _of_groups(features, runner):
    """Returns {output: array [n, N, ...]} of features [n, N, S], zeros where there is no sequence."""
    there = features["input_mask"].any(-1)
    outputs = {}
    for name, found in runner({name: values[there] for name, values in features.items()}).items():
        outputs[name] = np.zeros([*there.shape, *found.shape[1:]], found.dtype)
        outputs[name][there] = found
    return outputs


def _trace_raw(function, served, length):
    def flat(*values):
        return {f"output_{i}": value for i, value in enumerate(tf.nest.flatten(function(*values)))}

    return tf.function(flat, autograph=False).get_concrete_function(*_sequence_specs(served, length))


def _sequence_specs(served, length):
    """Returns the input specs of a signature: one sequence of this length, or any, and one position to predict."""
    size = {"masked_lm_positions": 1}
    return [tf.TensorSpec([1, size.get(spec.name, length)], spec.dtype, spec.name) for spec in served.ids_specs]


def _convert(served, functions: Functions, dtype):
    """Returns the bytes of a .tflite file with these signatures, and {name: SignatureDef}."""
    model = tf.Module()
    model.weights = served.weights  # alone: the tokenizer may have tables, which LiteRT has no operations for
    with tempfile.TemporaryDirectory() as folder, quiet():
        tf.saved_model.save(model, folder, signatures=functions)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(functions))
        if dtype != names.EXPORT_DTYPES[0]:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]  # weights of 8 bits, dynamic activations
        if dtype == "float16":
            converter.target_spec.supported_types = [tf.float16]
        try:
            data = converter.convert()
        except ConverterError as error:  # thousands of lines, one of which names the operation
            lines = str(error).splitlines()
            reason = next((line.rpartition("error: ")[2] for line in lines if "error: " in line), lines[0])
            raise ValueError(
                "This model cannot be exported for LiteRT: its "
                f"converter rejected the graph: {reason}. Remove `export_for`."
            ) from error
        with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
            saved = saved_model_pb2.SavedModel.FromString(file.read())
    found = saved.meta_graphs[0].signature_def
    return data, {name: found[name] for name in functions}
