"""Tensors of requests and answers: checks, and TensorProto to numpy and back."""

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from bert_tf.serving import tensor_messages
from bert_tf.serving.errors import ServingError, invalid
from bert_tf.serving.limits import LIMITS, Limits
from bert_tf.serving.server.dtypes import STRING, DType, as_dtype
from bert_tf.serving.server.signatures import MAX_AXES
from bert_tf.serving.server.tensorflow_messages import tensor_pb2, types_pb2

_MOST_REPEATS = 2**16  # elements of a tensor with omitted values
_IDS = (types_pb2.DT_INT32, types_pb2.DT_INT64)
_OF_ANSWERS = Limits(max_message_bytes=2**35, max_batch_size=2**31)


def check_tensor(proto: tensor_pb2.TensorProto, alias: str, limits: Limits = LIMITS):
    """Raises ServingError if a TensorProto is malformed or too large, before memory is allocated for it.

    A shape may have more elements than there are values: the last value is then repeated, and without any, all are 0
    or "". TensorFlow Serving does not limit this; bert_tf's limit is small, because a request of 60 bytes could
    otherwise claim gigabytes. It drops values beyond the shape in silence; here, they are an error.

    Args:
        proto: message in a request.
        alias: alias of the input, for the message.
        limits: limits of a request.
    """
    fault = invalid(f"tensor parsing error: {alias}")
    field = tensor_messages.FIELDS.get(proto.dtype)
    sizes = [dim.size for dim in proto.tensor_shape.dim[: MAX_AXES + 1]]
    if field is None or proto.tensor_shape.unknown_rank or len(sizes) > MAX_AXES or min(sizes, default=0) < 0:
        raise fault
    elements = math.prod(sizes)
    # An empty tensor counts like a full one, because the graph derives tensors such as a mask from its other axes.
    extent = elements or math.prod(max(size, 1) for size in sizes)
    if extent > limits.max_tensor_elements:
        what = f"{elements} elements" if elements else f"the shape {sizes}, for {extent} elements"
        most = limits.max_tensor_elements
        raise invalid(f"{fault.message} has {what}, of which {most} are allowed; send it in parts")
    limits.check_rows(count_rows(proto.dtype, sizes))
    if proto.tensor_content:
        _check_content(proto, field, elements, fault, limits)
        return
    values = getattr(proto, field)
    if field == "string_val":
        sizes = list(map(len, values))
        limits.check_texts(sizes)
        if len(values) < elements:
            # TensorFlow copies the text for each repetition.
            limits.check_text(max(sizes, default=0) * (elements - len(values)))
    if len(values) > elements:
        raise fault
    if len(values) < elements and elements > _MOST_REPEATS:
        raise invalid(f"{fault.message} has {elements} elements but contains {len(values)}")


def _check_content(proto, field, elements, fault, limits):
    """Checks the raw bytes of a tensor; strings count as texts before any is made."""
    content = proto.tensor_content
    if field == "string_val":
        try:
            limits.check_texts(tensor_messages.string_sizes(content, elements)[0])
        except ValueError as error:
            raise fault from error
        return
    # What other bytes mean in place of false and true, no graph knows.
    is_odd = field == "bool_val" and content.translate(None, b"\0\1")
    if is_odd or len(content) != elements * as_dtype(proto.dtype).size:
        raise fault


def count_rows(datatype: int, sizes: Sequence[int]) -> int:
    """Returns the number of texts or sequences in a tensor, on any axis.

    Each string is a text. Numbers are tokens, and the last axis of ids of three is a sequence, such as a window of a
    text or a choice. For other numbers, such as images, each entry of the first axis counts.

    Args:
        datatype: number in DataType.
        sizes: sizes of the tensor's axes.
    """
    if datatype == types_pb2.DT_STRING:
        return math.prod(sizes)
    if datatype in _IDS and len(sizes) > 2:
        return math.prod(sizes[:-1])
    return sizes[0] if sizes else 1


def read_answer(proto: tensor_pb2.TensorProto, alias: str) -> np.ndarray:
    """Returns the array of a TensorProto from a model or a server; strings as objects of type bytes.

    Raises:
        ValueError: it is malformed, or larger than its message; `alias` is the output's name for the message.
    """
    try:
        if proto.dtype != types_pb2.DT_STRING or not proto.tensor_content:
            check_tensor(proto, alias, _OF_ANSWERS)
        return tensor_messages.wire_to_array(proto, bfloat16=ml_dtypes.bfloat16)
    except (ServingError, ValueError) as error:
        raise ValueError(f"Output {alias} is a tensor whose values do not match its shape: {error}.") from error


def proto_to_array(proto: tensor_pb2.TensorProto, alias: str) -> np.ndarray:
    """Returns the array of a TensorProto that `check_tensor` accepted; strings as objects of type bytes.

    Raises:
        ServingError: its values do not match its shape; `alias` is the input's name for the message.
    """
    try:
        return tensor_messages.wire_to_array(proto, is_checked=True, bfloat16=ml_dtypes.bfloat16)
    except ValueError as error:
        raise invalid(f"tensor parsing error: {alias}") from error


def fill_proto(proto: tensor_pb2.TensorProto, array: np.ndarray, dtype: DType, as_content: bool = False):
    """Writes an array into an empty TensorProto, one value per element in the field of its type, such as `float_val`.

    TensorFlow Serving does so too, unless raw bytes (`as_content`) are requested.
    """
    array = np.asarray(array, object if dtype == STRING else None)
    if as_content or dtype.as_datatype_enum in tensor_messages.FIELDS:
        tensor_messages.write_array(proto, array, dtype.as_datatype_enum, as_content)
    else:
        import tensorflow as tf  # which computed it

        proto.CopyFrom(tf.make_tensor_proto(array, dtype.as_datatype_enum))


def type_name(datatype: int) -> str:
    """Returns the runtime's name for a DataType number: "float", "int64", "string"."""
    return types_pb2.DataType.Name(datatype).removeprefix("DT_").lower()
