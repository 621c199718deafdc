"""Protocol buffer messages from tables of their fields, where no installed package brings them without TensorFlow."""

from collections.abc import Mapping, Sequence

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
    "bool": _Field.TYPE_BOOL,
    "float": _Field.TYPE_FLOAT,
    "double": _Field.TYPE_DOUBLE,
}


def message_classes(
    package: str, messages: Mapping[str, Sequence[tuple[int, str, str]]], imports: Sequence[FileDescriptor] = ()
) -> dict[str, type]:
    """Returns {message: its class}, in a pool of their own, where they cannot meet TensorFlow's.

    Args:
        package: of the messages.
        messages: {message: rows of (number, name, type)}; "*" before a type marks what is repeated. A type with dots is
            of a file in `imports`.
        imports: files of other messages, which are copied into the pool.
    """
    name = f"{package.replace('.', '/')}.proto"
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    for message, rows in messages.items():
        target = file.message_type.add(name=message)
        for number, field_name, kind in rows:
            label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
            field = target.field.add(name=field_name, number=number, label=label)
            kind = kind.lstrip("*")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".{kind}" if "." in kind else f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    for each in imports:
        _copy(each, pool, added)
    file.dependency.extend(each.name for each in imports)
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{package}.{name}") for name in messages}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


def _copy(file, pool, added):
    """Adds a file to a pool, after those that it imports."""
    if file.name in added:
        return
    added.add(file.name)
    for each in file.dependencies:
        _copy(each, pool, added)
    pool.AddSerializedFile(file.serialized_pb)


# === Messages ===
# The few messages of TensorFlow Serving's API that the client needs, without TensorFlow.
#
# `tensorflow_serving.apis` imports all of TensorFlow (seconds, and half a gigabyte) for its tensor message. The numbers
# here are the published ones, so the bytes are the same: tensorflow/core/framework/{tensor,tensor_shape,types}.proto,
# tensorflow/core/protobuf/meta_graph.proto, tensorflow_serving/apis/{model,predict,get_model_status,get_model_metadata}
# .proto, tensorflow_serving/util/status.proto. They live in a pool of their own, where they cannot meet TensorFlow's.


# message: rows of (number, name, type), where "*" marks what is repeated. An enum travels as int32.
_MESSAGES = {
    "Dim": ((1, "size", "int64"),),
    "TensorShape": ((2, "dim", "*Dim"), (3, "unknown_rank", "bool")),
    "Tensor": (
        (1, "dtype", "int32"),
        (2, "tensor_shape", "TensorShape"),
        (4, "tensor_content", "bytes"),
        (5, "float_val", "*float"),
        (6, "double_val", "*double"),
        (7, "int_val", "*int32"),
        (8, "string_val", "*bytes"),
        (10, "int64_val", "*int64"),
        (11, "bool_val", "*bool"),
        (13, "half_val", "*int32"),
        (16, "uint32_val", "*uint32"),
        (17, "uint64_val", "*uint64"),
    ),
    "Int64": ((1, "value", "int64"),),
    "ModelSpec": (
        (1, "name", "string"),
        (2, "version", "Int64"),
        (3, "signature_name", "string"),
        (4, "version_label", "string"),
    ),
    # What a map<string, Tensor> is on the wire, and so for the other maps.
    "NamedTensor": ((1, "key", "string"), (2, "value", "Tensor")),
    "PredictRequest": ((1, "model_spec", "ModelSpec"), (2, "inputs", "*NamedTensor"), (3, "output_filter", "*string")),
    "PredictResponse": ((1, "outputs", "*NamedTensor"), (2, "model_spec", "ModelSpec")),
    "StatusRequest": ((1, "model_spec", "ModelSpec"),),
    "Status": ((1, "error_code", "int32"), (2, "error_message", "string")),
    "VersionStatus": ((1, "version", "int64"), (2, "state", "int32"), (3, "status", "Status")),
    "StatusResponse": ((1, "model_version_status", "*VersionStatus"),),
    "MetadataRequest": ((1, "model_spec", "ModelSpec"), (2, "metadata_field", "*string")),
    "Any": ((1, "type_url", "string"), (2, "value", "bytes")),
    "NamedAny": ((1, "key", "string"), (2, "value", "Any")),
    "MetadataResponse": ((1, "model_spec", "ModelSpec"), (2, "metadata", "*NamedAny")),
    "TensorInfo": ((1, "name", "string"), (2, "dtype", "int32"), (3, "tensor_shape", "TensorShape")),
    "NamedInfo": ((1, "key", "string"), (2, "value", "TensorInfo")),
    "Signature": ((1, "inputs", "*NamedInfo"), (2, "outputs", "*NamedInfo"), (3, "method_name", "string")),
    "NamedSignature": ((1, "key", "string"), (2, "value", "Signature")),
    "Signatures": ((1, "signature_def", "*NamedSignature"),),
}
_CLASSES = message_classes("bert_tf.serving", _MESSAGES)
PredictRequest, PredictResponse = _CLASSES["PredictRequest"], _CLASSES["PredictResponse"]
StatusRequest, StatusResponse = _CLASSES["StatusRequest"], _CLASSES["StatusResponse"]
MetadataRequest, MetadataResponse = _CLASSES["MetadataRequest"], _CLASSES["MetadataResponse"]
Signatures = _CLASSES["Signatures"]
