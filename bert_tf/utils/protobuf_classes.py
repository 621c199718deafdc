"""Builds protocol buffer message classes from tables of fields, for messages without an installed package.

Each call creates its own descriptor pool, so that the messages cannot clash with those of TensorFlow.
"""

from collections.abc import Mapping, Sequence

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("string", "bytes", "int32", "int64", "uint32", "uint64", "bool", "float", "double")


def message_classes(
    package: str,
    messages: Mapping[str, Sequence[tuple[int, str, str]]],
    imports: Sequence[FileDescriptor] = (),
    syntax: str = "proto3",
) -> dict[str, type]:
    """Returns {message name: message class}.

    Args:
        package: package of the messages.
        messages: {message: (number, name, type) of each field}; "*" before a type marks repeated fields. A type is a
            scalar such as "int64", another message of this table, or, with dots, one of a file in `imports`.
        imports: files of other messages, which are copied into the pool.
        syntax: "proto2" if a `string` may contain bytes that are not UTF-8.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax=syntax, dependency=[f.name for f in imports]
    )
    for message, fields in messages.items():
        target = file.message_type.add(name=message)
        for number, name, kind in fields:
            label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            if kind in _SCALARS:
                target.field.add(name=name, number=number, label=label, type=_Field.Type.Value(f"TYPE_{kind.upper()}"))
            else:
                full_name = f".{kind}" if "." in kind else f".{package}.{kind}"
                target.field.add(name=name, number=number, label=label, type=_Field.TYPE_MESSAGE, type_name=full_name)
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(imported):
        if imported.name not in added:
            added.add(imported.name)
            for dependency in imported.dependencies:
                add(dependency)
            pool.AddSerializedFile(imported.serialized_pb)

    for imported in imports:
        add(imported)
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}
