"""The graph of a .tflite file that bert_tf did not export, with the signatures that TensorFlow Serving finds in it."""

import struct
from collections.abc import Mapping

import numpy as np
from flatbuffers import flexbuffers
from google.protobuf.message import DecodeError
from tensorflow.lite.python import schema_py_generated as schema

from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE
from bert_tf.serving.server.signatures import PREDICT
from bert_tf.serving.server.tensorflow_messages import meta_graph_pb2
from bert_tf.utils.litert_runner import interpreter_class

_SIGNATURES = b"signature_defs_metadata"  # name of a file's entry with SignatureDefs
_MOST_ENTRIES = 1000


class TfliteGraph:
    """Runs the first graph of a file; only one thread at a time may use it.

    The first axis of an input may have any size. Axes that are missing at its end have the size 1. LiteRT does not
    check all shapes, and ends the process for some, so no others are passed on.

    Attributes:
        definitions: {name: SignatureDef}, of the file's metadata, or one that has the graph's inputs and outputs under
            their own names.
    """

    def __init__(self, data: bytes, threads: int):
        """Loads the bytes of a .tflite file, for this many threads.

        Raises:
            ValueError: the bytes are not such a file, or it has operations that LiteRT lacks.
        """
        self._data = data  # which the interpreter reads
        try:
            self._interpreter = interpreter_class()(model_content=data, num_threads=threads)
            self._interpreter.allocate_tensors()
            self._inputs, self._outputs = map(
                _by_name, (self._interpreter.get_input_details(), self._interpreter.get_output_details())
            )
            self.definitions = _read_definitions(data)
        except (RuntimeError, IndexError, TypeError, struct.error, DecodeError) as error:
            raise ValueError(str(error)) from error
        if not self.definitions:
            self.definitions = {DEFAULT_SIGNATURE: _definition(self._inputs, self._outputs)}
        for name, definition in self.definitions.items():
            for infos, details in ((definition.inputs, self._inputs), (definition.outputs, self._outputs)):
                _match_names(name, infos, details)
        self._shapes = {name: detail["shape"].tolist() for name, detail in self._inputs.items()}

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Computes {tensor: array} from {tensor: array}.

        Raises:
            ValueError: an input has another shape, or is missing.
            RuntimeError: LiteRT cannot compute with these inputs.
        """
        if missing := self._inputs.keys() - feeds.keys():
            raise ValueError(f"The graph also needs {', '.join(sorted(missing))}")
        arrays = {name: _fit(name, array, self._inputs[name]["shape_signature"]) for name, array in feeds.items()}
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        if shapes != self._shapes:
            for name, shape in shapes.items():
                self._interpreter.resize_tensor_input(self._inputs[name]["index"], shape)
            self._interpreter.allocate_tensors()
            self._shapes = shapes
        for name, array in arrays.items():
            self._interpreter.set_tensor(self._inputs[name]["index"], array)
        self._interpreter.invoke()
        return {name: self._interpreter.get_tensor(each["index"]) for name, each in self._outputs.items()}


def _by_name(details):
    return {each["name"]: each for each in details}


def _fit(name, array, wanted):
    """Returns an array with as many axes as `wanted`, which has a negative size for any."""
    sizes = [-1, *wanted[1:].tolist()] if len(wanted) else []
    shape = [*array.shape, *[1] * (len(wanted) - array.ndim)]
    if len(shape) != len(sizes) or not all(
        size in (given, -1) for given, size in zip(shape, sizes, strict=True)
    ):
        shown = ", ".join("?" if size < 0 else str(size) for size in sizes)
        raise ValueError(f"{name} must have the shape [{shown}] and has {list(array.shape)}")
    if not array.size:
        raise ValueError(f"{name} must have at least one element")
    return array.reshape(shape)


def _read_definitions(data):
    """Returns {name: SignatureDef} of the file's metadata, a map of flexbuffers."""
    model = schema.Model.GetRootAsModel(data, 0)
    if model.MetadataLength() > _MOST_ENTRIES:
        raise ValueError(f"it has {model.MetadataLength()} entries of metadata, of which {_MOST_ENTRIES} are read")
    entries = [model.Metadata(i) for i in range(model.MetadataLength())]
    buffers = [model.Buffers(each.Buffer()) for each in entries if each.Name() == _SIGNATURES]
    if not buffers or not buffers[0].DataLength():
        return {}
    found = flexbuffers.GetRoot(buffers[0].DataAsNumpy().tobytes()).AsMap
    return {key: meta_graph_pb2.SignatureDef.FromString(_bytes_of(found[key])) for key in (k.AsKey for k in found.Keys)}


def _bytes_of(string):
    """Returns the bytes of a flexbuffers string, which its own `AsString` would decode as UTF-8."""
    return bytes(flexbuffers.String(string._Indirect(), string._byte_width).Bytes)


def _definition(inputs, outputs):
    definition = meta_graph_pb2.SignatureDef(method_name=PREDICT)
    for details, infos in ((inputs, definition.inputs), (outputs, definition.outputs)):
        for name, detail in details.items():
            info = infos[name.partition(":")[0]]
            info.name, info.dtype = name, as_dtype(detail["dtype"]).as_datatype_enum
            for size in detail["shape_signature"]:
                info.tensor_shape.dim.add(size=size)
    return definition


def _match_names(signature, infos, details):
    """Makes a signature name tensors of the graph, whose names may lack the number of the operation's output."""
    for alias, info in infos.items():
        if info.name not in details:
            info.name = info.name.partition(":")[0]
        if info.name not in details:
            raise ValueError(f"its signature {signature} has {alias} in an unknown tensor, {info.name!r}")
