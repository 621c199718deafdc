"""The few messages of TensorFlow Serving's API that the client needs, without TensorFlow.

`tensorflow_serving.apis` imports all of TensorFlow (seconds, and half a gigabyte) for its tensor message. The numbers
here are the published ones, so the bytes are the same: tensorflow/core/framework/{tensor,tensor_shape,types}.proto,
tensorflow_serving/apis/{model,predict}.proto. They live in a pool of their own, where they cannot meet TensorFlow's.
"""

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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

# message: rows of (number, name, type), where "*" marks what is repeated. An enum travels as int32.
_MESSAGES = {
    "Dim": ((1, "size", "int64"),),
    "TensorShape": ((2, "dim", "*Dim"),),
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
    "ModelSpec": ((1, "name", "string"), (2, "version", "Int64"), (3, "signature_name", "string")),
    # What a map<string, Tensor> is on the wire.
    "Named": ((1, "key", "string"), (2, "value", "Tensor")),
    "PredictRequest": ((1, "model_spec", "ModelSpec"), (2, "inputs", "*Named"), (3, "output_filter", "*string")),
    "PredictResponse": ((1, "outputs", "*Named"), (2, "model_spec", "ModelSpec")),
}
_PACKAGE = "bert_tf.serving"

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
_NUMBERS = {np.dtype(dtype): number for number, (dtype, _) in _DTYPES.items()}
_STRING = 7


def _message_classes():
    file = descriptor_pb2.FileDescriptorProto(name="bert_tf/serving/wire.proto", package=_PACKAGE, syntax="proto3")
    for message, rows in _MESSAGES.items():
        target = file.message_type.add(name=message)
        for number, name, kind in rows:
            label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
            field = target.field.add(name=name, number=number, label=label)
            kind = kind.lstrip("*")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES = _message_classes()
PredictRequest = _CLASSES["PredictRequest"]
PredictResponse = _CLASSES["PredictResponse"]


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


def to_array(tensor) -> np.ndarray:
    """Returns the array of a tensor message; strings as objects of type bytes.

    Raises:
        ValueError: it has a type that numpy has not.
    """
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"An answer must be of a type that numpy knows. Received DataType {tensor.dtype}.")
    dtype, field = _DTYPES[tensor.dtype]
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
    values = np.array(getattr(tensor, field), np.uint16 if dtype is np.float16 else dtype)
    if dtype is np.float16:
        values = values.view(np.float16)  # half_val holds the bits
    missing = int(np.prod(shape)) - values.size
    if missing > 0:  # a sender may leave out repetitions of the last value, and zeros altogether
        values = np.pad(values, (0, missing), "edge") if values.size else np.full(shape, _zero(dtype), dtype)
    return values.reshape(shape)


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
