"""Tensors as messages, and back to numpy, without TensorFlow."""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from bert_tf.serving.limits import Limits, invalid

# === Messages ===
# Protocol buffer messages from tables of their fields, where no installed package brings them without TensorFlow.


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


# === Wire scan ===
# Counts what a protocol buffer holds before it is parsed: two bytes on the wire become up to forty in memory.


_SMALL = 2**16  # bytes that cannot become much
_DEEPEST = 50
_TENSORS = 4  # of the largest size, in one message: what BERT takes at most
_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5  # wire types
_WIDTHS = {
    FieldDescriptor.CPPTYPE_DOUBLE: 8,
    FieldDescriptor.CPPTYPE_FLOAT: 4,
    FieldDescriptor.CPPTYPE_INT32: 0,
    FieldDescriptor.CPPTYPE_INT64: 0,
    FieldDescriptor.CPPTYPE_UINT32: 0,
    FieldDescriptor.CPPTYPE_UINT64: 0,
    FieldDescriptor.CPPTYPE_BOOL: 0,
    FieldDescriptor.CPPTYPE_ENUM: 0,
}  # bytes of a packed number, 0 where that differs from number to number


def check_message(data: bytes, message: Descriptor, limits: Limits):
    """Raises ServingError where `data`, a message of that type, has too many fields or numbers.

    What is no such message passes: the parser has words for that.
    """
    if len(data) > _SMALL:
        try:
            _Scan(data, limits).walk(0, len(data), message, 0)
        except IndexError:
            return  # it ends in the middle of something


class _Scan:
    def __init__(self, data, limits):
        self._data = data
        self._limits = limits
        self._fields = limits.max_message_fields
        self._numbers = _TENSORS * limits.max_tensor_elements

    def walk(self, position, end, message, depth):
        """Counts the fields of a message that lies between `position` and `end`, and of all in it."""
        parts = _parts(message)
        while position < end:
            self._fields -= 1
            if self._fields < 0:
                raise invalid(f"A message may have {self._limits.max_message_fields} fields and has more")
            tag, position = self._varint(position)
            kind = tag & 7
            if kind == _SIZED:
                size, position = self._varint(position)
                inner, width = parts.get(tag >> 3, (None, None))
                if size > end - position:
                    raise IndexError
                if inner is not None and depth < _DEEPEST:
                    self.walk(position, position + size, inner, depth + 1)
                elif width is not None:
                    self._count(position, size, width)
                position += size
            elif kind == _VARINT:
                position = self._varint(position)[1]
            elif kind in (_EIGHT, _FOUR):
                position += 8 if kind == _EIGHT else 4
            else:
                raise IndexError

    def _count(self, position, size, width):
        """Counts packed numbers: those of no fixed width end with a byte below 128."""
        if width:
            self._numbers -= size // width
        else:
            self._numbers -= int((np.frombuffer(self._data, np.uint8, size, position) < 128).sum()) if size else 0
        if self._numbers < 0:
            most = _TENSORS * self._limits.max_tensor_elements
            raise invalid(f"A message may have {most} numbers and has more")

    def _varint(self, position):
        """Returns (value, position behind it)."""
        value = self._data[position]
        position += 1
        if value < 128:
            return value, position
        value, shift = value & 127, 7
        while True:
            byte = self._data[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, position
            shift += 7
            if shift > 63:
                raise IndexError


@functools.cache
def _parts(message):
    """Returns {field number: (type of the message in it, None) or (None, width of its packed numbers)}."""
    parts = {}
    for field in message.fields:
        if field.message_type is not None:
            parts[field.number] = (field.message_type, None)
        elif field.cpp_type in _WIDTHS:
            parts[field.number] = (None, _WIDTHS[field.cpp_type])
    return parts


# === Wire ===


# number in DataType: (numpy type, field of the values)
_DTYPES = {
    1: (np.float32, "float_val"),
    2: (np.float64, "double_val"),
    3: (np.int32, "int_val"),
    4: (np.uint8, "int_val"),
    5: (np.int16, "int_val"),
    6: (np.int8, "int_val"),
    7: (np.object_, "string_val"),
    9: (np.int64, "int64_val"),
    10: (np.bool_, "bool_val"),
    17: (np.uint16, "int_val"),
    19: (np.float16, "half_val"),
    22: (np.uint32, "uint32_val"),
    23: (np.uint64, "uint64_val"),
}
_FIELDS = {number: field for number, (_, field) in _DTYPES.items()} | {14: "half_val"}  # bfloat16, which numpy lacks
_NUMBERS = {np.dtype(dtype): number for number, (dtype, _) in _DTYPES.items()}
_STRING = 7
_MOST_AXES = 64  # of an array of NumPy
_MOST_REPEATS = 2**10  # values that an answer leaves out: sixty bytes could ask for all memory
_MOST_REPEATED_BYTES = 2**16  # of a string that stands for others
_LAST_SHIFT = 63  # of a varint


def fill_tensor(tensor, values, name: str):
    """Writes an array, or nested lists, into a tensor message.

    Python's integers become int32 and its floats float32, as in TensorFlow; str is sent as UTF-8.

    Raises:
        ValueError: the values are uneven, or of a type that tensors do not have; `name` says which input it was.
    """
    array = _as_array(values, name)
    tensor.dtype = _NUMBERS[array.dtype]
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if tensor.dtype == _STRING:
        tensor.string_val.extend(_as_bytes(value, name) for value in array.ravel().tolist())
    else:
        tensor.tensor_content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def wire_to_array(tensor) -> np.ndarray:
    """Returns the array of a tensor message; strings as objects of type bytes.

    Raises:
        ValueError: it has a type that numpy has not, or values that do not fit its shape.
    """
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"An answer must be of a type that numpy knows. Received DataType {tensor.dtype}.")
    dtype, field = _DTYPES[tensor.dtype]
    shape = _shape(tensor)
    count = math.prod(shape)  # exact, where numpy's would overflow
    if tensor.tensor_content and tensor.dtype == _STRING:
        return _texts(tensor.tensor_content, count).reshape(shape)
    if tensor.tensor_content:
        _check_count(len(tensor.tensor_content) / np.dtype(dtype).itemsize, count, exact=True)
        return np.frombuffer(tensor.tensor_content, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
    given = getattr(tensor, field)
    _check_count(len(given), count)
    if dtype is np.object_ and len(given) and (count - len(given)) * len(given[-1]) > _MOST_REPEATED_BYTES:
        raise ValueError(f"An answer must hold the strings of its shape, {count}. Received {len(given)}.")
    try:
        # Without a list of Python's numbers, which takes eight times the memory.
        values = np.fromiter(given, np.uint16 if dtype is np.float16 else dtype, len(given))
    except OverflowError as error:
        name = np.dtype(dtype).name
        raise ValueError(f"An answer must hold numbers of its type, {name}. Received larger ones.") from error
    if dtype is np.float16:
        values = values.view(np.float16)  # half_val holds the bits
    missing = count - values.size
    if missing > 0:  # a sender may leave out repetitions of the last value, and zeros altogether
        values = np.pad(values, (0, missing), "edge") if values.size else np.full(shape, _zero(dtype), dtype)
    return values.reshape(shape)


def check_missing(tensors: Iterable):
    """Raises ValueError where the tensors of one answer together leave out more values than a sender has reason to."""
    missing = 0
    for tensor in tensors:
        if not tensor.tensor_content and tensor.dtype in _FIELDS:
            missing += max(0, math.prod(_shape(tensor)) - len(getattr(tensor, _FIELDS[tensor.dtype])))
    if missing > _MOST_REPEATS:
        raise ValueError(f"An answer must hold the values of its outputs. Received one without {missing} of them.")


def _shape(tensor):
    shape = [dim.size for dim in tensor.tensor_shape.dim[: _MOST_AXES + 1]]
    if tensor.tensor_shape.unknown_rank or len(shape) > _MOST_AXES or min(shape, default=0) < 0:
        raise ValueError(
            f"An answer must have a shape of sizes from 0 on, {_MOST_AXES} at most. Received {shape}; is that a model "
            "server?"
        )
    return shape


def _check_count(given, count, exact=False):
    """Raises ValueError where an answer has not the values that its shape promises."""
    if given > count or given < count and (exact or count - given > _MOST_REPEATS):
        raise ValueError(f"An answer must hold the values of its shape, {count}. Received {given:g}.")


def _texts(content, count):
    """Returns the strings of raw content, object array [count]: the length of each as a varint, then all of them."""
    ends, place = [0], 0
    try:
        for _ in range(count):
            size = shift = 0
            while content[place] & 0x80 and shift < _LAST_SHIFT:
                size, shift, place = size | (content[place] & 0x7F) << shift, shift + 7, place + 1
            ends.append(ends[-1] + (size | content[place] << shift))
            place += 1
    except IndexError:
        ends.append(len(content) + 1)
    if place + ends[-1] != len(content):
        raise ValueError(f"An answer must hold all of its {count} strings. Received {len(content)} bytes of others.")
    texts = np.empty(count, object)
    texts[:] = [content[place + start : place + end] for start, end in itertools.pairwise(ends)]
    return texts


def _zero(dtype):
    return b"" if dtype is np.object_ else 0


def _as_array(values, name):
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"Input {name!r} must be an array or even lists. Received uneven ones: {error}.") from error
    if array.dtype.kind in "US":
        return np.asarray(values, object)
    if not isinstance(values, (np.ndarray, np.generic)):
        narrow = {np.dtype(np.int64): np.int32, np.dtype(np.float64): np.float32}
        array = _checked_cast(array, narrow.get(array.dtype, array.dtype), name)
    if array.dtype not in _NUMBERS:
        raise ValueError(f"Input {name!r} must be numbers or strings. Received numpy type {array.dtype}.")
    return array


def _checked_cast(array, dtype, name):
    cast = array.astype(dtype)
    if array.dtype.kind == "i" and (cast != array).any():
        raise ValueError(f"Input {name!r} must fit int32. Received larger ones; pass numpy.int64 if they are meant.")
    return cast


def _as_bytes(value, name):
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")  # bytes of a command line that are not UTF-8 stay as they were
    raise ValueError(f"Input {name!r} must be strings throughout. Received a {type(value).__name__}.")


def dtype_name(number: int) -> str:
    """Returns what numpy calls a DataType, "string" for strings, and its number where numpy does not know it."""
    if number == _STRING:
        return "string"
    return np.dtype(_DTYPES[number][0]).name if number in _DTYPES else f"DataType {number}"
