"""Exports a served model as a .tflite file for LiteRT, TensorFlow's runtime on phones and small devices."""

import contextlib
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping

import flatbuffers
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.python.convert_phase import ConverterError

import bert_tf
from bert_tf.checkpoints.description_files import LABELS_FILE
from bert_tf.checkpoints.loading import save_description
from bert_tf.export.cpu.model import Forward
from bert_tf.utils import names
from bert_tf.utils.litert_runner import WHOLE, LitertRunner
from bert_tf.utils.resources import cores

# === Quiet ===
# TensorFlow logs a dozen lines per export, which are suppressed.


@contextlib.contextmanager
def quiet():
    """Suppresses log messages below warnings."""
    logger = logging.get_absl_logger()
    before = logger.level  # unlike the verbosity, it tells a level that was never set from warnings
    logger.setLevel("WARNING")
    try:
        yield
    finally:
        logger.setLevel(before)


# === Litert metadata ===
# Metadata of a .tflite file: descriptions of its tensors, and the files that belong to it.
#
# The layout is that of tflite-support's metadata_schema.fbs: a flatbuffer in a buffer of the model lists the contents,
# and the files themselves are a zip archive at the model's end.


_NAME, _IDENTIFIER = b"TFLITE_METADATA", b"M001"
_DESCRIPTION, _AXIS_LABELS, _VOCABULARY = 1, 2, 5  # AssociatedFileType
_DTYPES = {
    schema.TensorType.FLOAT32: tf.float32,
    schema.TensorType.FLOAT16: tf.float16,
    schema.TensorType.INT8: tf.int8,
}
_BEGINNING = (1980, 1, 1, 0, 0, 0)  # of a zip archive's time: equal models are equal files
_INPUTS = {
    "input_ids": "Token ids: [CLS] first and [SEP] after each text, or the vocabulary's equivalents.",
    "input_mask": "1 for a token, 0 for padding.",
    "segment_ids": "0 for the tokens of the first text, 1 for those of the second.",
    "masked_lm_positions": "The position of the mask to predict.",
}


def with_metadata(data: bytes, task, signatures: list[str], folder: str) -> tuple[list[tf.TensorSpec], bytes]:
    """Returns the specs of a model's weights, and the file with its metadata.

    Args:
        data: the output of the converter.
        task: of the model.
        signatures: their names, in the order of the model's graphs.
        folder: its files are added, such as vocab.txt and labels.txt; tokenizer.json, which is redundant,
            is left out.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    _name_tensors(model)
    files = sorted(name for name in os.listdir(folder) if name != "tokenizer.json")
    entry, buffer = schema.MetadataT(), schema.BufferT()
    entry.name, entry.buffer = _NAME, len(model.buffers)
    buffer.data = _metadata(model, task, signatures, files)
    model.metadata.append(entry)
    model.buffers.append(buffer)
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return _weights(model), bytes(builder.Output()) + _archive(folder, files)


def _name_tensors(model):
    """Names the first graph's inputs and outputs as in its signature, because TensorFlow Serving reads only these."""
    (first,) = (each for each in model.signatureDefs if each.subgraphIndex == 0)
    for endpoint in first.inputs + first.outputs:
        model.subgraphs[0].tensors[endpoint.tensorIndex].name = endpoint.name


def _archive(folder, files):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:  # uncompressed, so that a phone can map it
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                archive.writestr(zipfile.ZipInfo(name, _BEGINNING), file.read())
    return written.getvalue()


def _weights(model):
    """Returns the specs of the constants that are arrays of numbers, without duplicates across graphs."""
    found = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            there = model.buffers[tensor.buffer].data is not None and tensor.shape is not None and len(tensor.shape)
            if there and tensor.type in _DTYPES:
                found[tensor.buffer] = tf.TensorSpec([int(size) for size in tensor.shape], _DTYPES[tensor.type])
    return [found[number] for number in sorted(found)]


def _metadata(model, task, signatures, files):
    """Returns the flatbuffer ModelMetadata."""
    builder = flatbuffers.Builder()
    aliases = {each.subgraphIndex: each for each in model.signatureDefs}
    graphs = [_graph(builder, model.subgraphs[i], aliases[i], task, files) for i in range(len(signatures))]
    described = f"{task.name}, a model with an encoder of the kind {task.config.model_type}"
    table = _table(
        builder,
        {
            0: builder.CreateString(f"bert_tf {task.name}"),
            1: builder.CreateString(described),
            2: builder.CreateString(bert_tf.__version__),
            3: _vector(builder, graphs),
            6: _vector(builder, [_file(builder, name) for name in files]),
        },
    )
    builder.Finish(table, file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _graph(builder, graph, signature, task, files):
    """Returns a SubGraphMetadata; the order of its tensors is that of the graph's inputs and outputs."""
    vocabulary = [name for name in files if _file_kind(name) == _VOCABULARY]
    inputs = [_tensor(builder, name, _INPUTS[name], vocabulary if name == "input_ids" else [])
              for name in _aliases(graph.inputs, signature.inputs)]  # fmt: skip
    labels = [LABELS_FILE] if task.labels and LABELS_FILE in files else []
    outputs = [_tensor(builder, name, "", labels if name == "probabilities" else [])
               for name in _aliases(graph.outputs, signature.outputs)]  # fmt: skip
    name = builder.CreateString(signature.signatureKey.decode())
    return _table(builder, {0: name, 2: _vector(builder, inputs), 3: _vector(builder, outputs)})


def _aliases(indices, tensors):
    names = {each.tensorIndex: each.name.decode() for each in tensors}
    return [names[index] for index in indices]


def _tensor(builder, name, description, files):
    fields = {0: builder.CreateString(name), 1: builder.CreateString(description)}
    if files:
        fields[6] = _vector(builder, [_file(builder, each) for each in files])
    return _table(builder, fields)


def _file(builder, name):
    name_there = builder.CreateString(name)
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(0, name_there, 0)
    builder.PrependInt8Slot(2, _file_kind(name), 0)
    return builder.EndObject()


def _file_kind(name):
    if name == LABELS_FILE:
        return _AXIS_LABELS
    settings = ("bert_config.json", "tokenizer_config.json", "added_tokens.json")
    return _DESCRIPTION if name in settings else _VOCABULARY


def _table(builder, fields):
    """Returns a table whose fields are offsets, {slot: offset}."""
    builder.StartObject(10)
    for slot, offset in fields.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    return builder.EndObject()


def _vector(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


# === The file ===


FILE = "model.tflite"
_SHORTEST = 16  # tokens; a signature for shorter sequences would gain too little

Functions = Mapping[str, tf.types.experimental.ConcreteFunction]


def lengths(max_seq_length: int) -> dict[str, int]:
    """Returns {signature: length of its sequences}: "ids" for the longest, "ids_16", "ids_32" and so on for shorter.

    A LiteRT graph has a fixed sequence length. A file holds one graph per length, and the weights only once.
    There are at least two lengths, so that `LitertRunner` can tell which axes vary with the length.
    """
    shorter, length = {}, min(_SHORTEST, max(2, max_seq_length // 2))
    while length < max_seq_length:
        shorter[f"{WHOLE}_{length}"] = length
        length *= 2
    return {WHOLE: max_seq_length} | shorter


def write_litert(directory: str, served) -> Mapping[str, object]:
    """Writes `served` to `directory`/model.tflite and returns {name: SignatureDef} of its signatures.

    The file also contains the vocabulary, the labels and the configuration, as a zip archive.

    Args:
        directory: exists.
        served: a `ServingModule`; its `weight_specs` become those of the file.
    """
    named = {}
    for name, length in lengths(served.max_seq_length).items():
        function = tf.function(served.answer_ids, autograph=False)
        named[name] = function.get_concrete_function(*_sequence_specs(served, length))
    data, signatures = _convert(served, named, served.options.dtype)
    with tempfile.TemporaryDirectory() as folder:
        save_description(folder, served.task.config, served.tokenizer, served.task.labels)
        served.weight_specs, data = with_metadata(data, served.task, list(named), folder)
    with open(os.path.join(directory, FILE), "wb") as file:
        file.write(data)
    return signatures


def computed_by_litert(served) -> Forward:
    """Returns a function that computes the model's outputs as LiteRT does, {name: tensor [n, S]} -> tensors.

    Args:
        served: a `ServingModule`.
    """
    function = tf.function(
        lambda *values: served.forward(dict(zip(served.task.features, values, strict=True))), autograph=False
    )
    whole = function.get_concrete_function(*served.ids_specs)
    specs = tf.nest.flatten(whole.structured_outputs)
    named = {name: _trace_raw(function, served, length) for name, length in lengths(served.max_seq_length).items()}
    runner = LitertRunner(_convert(served, named, served.options.dtype)[0], cores())

    def run(*arrays):
        outputs = runner(dict(zip(served.task.features, arrays, strict=True)))
        return [outputs[f"output_{i}"] for i in range(len(specs))]

    def forward(features):
        arrays = tf.numpy_function(run, [features[n] for n in served.task.features], [spec.dtype for spec in specs])
        for array, spec in zip(arrays, specs, strict=True):
            array.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(whole.structured_outputs, arrays)

    return forward


def _trace_raw(function, served, length):
    def flat(*values):
        return {f"output_{i}": value for i, value in enumerate(tf.nest.flatten(function(*values)))}

    return tf.function(flat, autograph=False).get_concrete_function(*_sequence_specs(served, length))


def _sequence_specs(served, length):
    """Returns the input specs of a signature: one sequence of this length, and one position to predict."""
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
