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
