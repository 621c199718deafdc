"""TensorProto to numpy and back, as TensorFlow Serving reads and writes it."""

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from bert_tf.serving.errors import invalid

_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int32: "int_val",
    tf.int16: "int_val",
    tf.int8: "int_val",
    tf.uint8: "int_val",
    tf.uint16: "int_val",
    tf.int64: "int64_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
    tf.float16: "half_val",
    tf.bfloat16: "half_val",
}


def to_array(proto: tensor_pb2.TensorProto, alias: str) -> np.ndarray:
    """Returns the array of a TensorProto; strings as objects of type bytes.

    Raises:
        ServingError: it is malformed; `alias` says which input it was.
    """
    try:
        return tf.make_ndarray(proto)
    except Exception as error:  # numpy and TensorFlow have many words for a shape that does not fit the values
        raise invalid(f"tensor parsing error: {alias}") from error


def fill_proto(proto: tensor_pb2.TensorProto, array: np.ndarray, dtype: tf.DType):
    """Writes an array into an empty TensorProto, one value per element in the field of its type, such as `float_val`.

    That is what TensorFlow Serving sends, and what callers read without TensorFlow; `tf.make_tensor_proto` would write
    the raw bytes of `tensor_content` instead.
    """
    array = np.asarray(array)
    if dtype not in _FIELDS:
        proto.CopyFrom(tf.make_tensor_proto(array, dtype))
        return
    proto.dtype = dtype.as_datatype_enum
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if dtype in (tf.float16, tf.bfloat16):
        array = array.view(np.uint16)  # half_val holds the bits
    getattr(proto, _FIELDS[dtype]).extend(array.ravel().tolist())


def type_name(datatype: int) -> str:
    """Returns the runtime's word for a DataType number: "float", "int64", "string"."""
    return types_pb2.DataType.Name(datatype).removeprefix("DT_").lower()
