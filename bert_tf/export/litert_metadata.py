"""Metadata of a .tflite file: descriptions of its tensors, and the files that belong to it.

The layout is that of tflite-support's metadata_schema.fbs: a flatbuffer in a buffer of the model lists the contents,
and the files themselves are a zip archive at the model's end.
"""

import io
import os
import zipfile

import flatbuffers
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

import bert_tf
from bert_tf.checkpoints.description_files import LABELS_FILE

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
        task: task of the model.
        signatures: their names, in the order of the model's graphs.
        folder: its files are added, such as vocab.txt and labels.txt.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    _name_tensors(model)
    files = sorted(os.listdir(folder))
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
