"""JSON values to arrays, by the rules and in the words of TensorFlow Serving's `json_tensor.cc`."""

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from bert_tf.serving.limits import LIMITS, Limits, ServingError, invalid, unimplemented
from bert_tf.serving.server.tensors import MAX_AXES, type_name

_QUOTED = 256  # characters after which a quoted value goes no further
_INDENT = "    "
_LONGEST = 1024  # characters of a string in it, which TensorFlow Serving never cuts
_FLOATS = (tf.float32, tf.float64)
_INTEGERS = (tf.int32, tf.int64, tf.uint32, tf.uint64, tf.int16, tf.int8, tf.uint8)
_NARROW = (tf.int16, tf.int8, tf.uint8)  # TensorFlow Serving takes any int32 for them and so do we


class Constant(float):
    """NaN or an infinity that a JSON text names: 1e999 is read as an infinity too, and is none."""


def json_to_array(value, dtype: tf.DType, limits: Limits = LIMITS) -> np.ndarray:
    """Returns the array of a JSON scalar or of evenly nested lists; strings as objects of type bytes.

    Raises:
        ServingError: a value is not of that type or too large, or lists beside each other differ in length or depth.
    """
    shape = shape_of(value, limits)
    values = list(map(_reader(dtype), _leaves(value, shape, 0)))
    if dtype == tf.string:
        limits.check_texts(list(map(len, values)))
        array = np.empty(len(values), object)
        array[:] = values
        return array.reshape(shape)
    wide = np.int32 if dtype in _NARROW else dtype.as_numpy_dtype
    with np.errstate(over="ignore"):
        return np.array(values, wide).astype(dtype.as_numpy_dtype, copy=False).reshape(shape)


def shape_of(value, limits: Limits = LIMITS) -> list[int]:
    """Returns the shape that the first element of each list of a JSON value promises.

    Raises:
        ServingError: it has too many axes or elements.
    """
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    if len(shape) > MAX_AXES:
        raise invalid(f"A tensor may have {MAX_AXES} axes and one has {len(shape)}")
    if math.prod(shape) > limits.max_tensor_elements:
        raise invalid(f"A tensor may have {limits.max_tensor_elements} elements and one has {math.prod(shape)}")
    return shape


def is_base64(value) -> bool:
    """Whether a JSON value is {"b64": "..."}, the way to write bytes that are not UTF-8."""
    members = getattr(value, "pairs", value)  # of an object that has a key twice
    return isinstance(value, dict) and len(members) == 1 and isinstance(value.get("b64"), str)


def from_base64(value) -> bytes:
    """Returns the bytes of {"b64": "..."}; padding may be missing.

    Raises:
        ServingError: it is something else.
    """
    if not is_base64(value):
        raise invalid(f"JSON Value: {quoted(value)} not formatted correctly for base64 data")
    text = "".join(value["b64"].split()).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Unable to base64 decode") from error


def encode(text: str) -> bytes:
    """Returns a JSON string in UTF-8."""
    return text.encode("utf-8")


def quoted(value) -> str:
    """Returns a JSON value for an error message, as RapidJSON writes it, and the beginning of a long one."""
    text = ""
    for token in _tokens(value):
        if len(text) >= _QUOTED:
            break
        text += token
    return text[:_LONGEST]


def as_double(value: int | float) -> float:
    """Returns a JSON number as a float.

    Raises:
        ServingError: it is beyond what a float holds.
    """
    try:
        number = float(value)
    except OverflowError as error:
        raise too_big() from error
    if math.isinf(number) and not isinstance(value, Constant):
        raise too_big()
    return number


def too_big() -> ServingError:
    """Returns the error of a number beyond what a float holds."""
    return invalid("JSON Parse error: Number too big to be stored in double.")


def kind(value) -> str:
    """Returns RapidJSON's word for the type of a JSON value."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):
        return "Object"
    return {type(None): "Null", list: "Array", str: "String"}.get(type(value), "Number")


def _tokens(value, level=0, before="") -> Iterator[str]:
    """Yields the text of a JSON value: members of objects on lines of their own, lists on one."""
    if isinstance(value, dict):
        yield before + "{"
        for i, (key, item) in enumerate(value.items()):
            yield f"{',' if i else ''}\n{_INDENT * (level + 1)}{_plain(key)}"
            yield from _tokens(item, level + 1, ": ")
        yield f"\n{_INDENT * level}}}" if value else "}"
    elif isinstance(value, list):
        yield before + "["
        for i, item in enumerate(value):
            yield from _tokens(item, level + 1, ", " if i else "")
        yield "]"
    else:
        yield before + _plain(value)


def _plain(value):
    return json.dumps(value[:_LONGEST] if isinstance(value, str) else value, ensure_ascii=False)


def _leaves(value, shape, level) -> Iterator:
    """Yields the scalars of `value` in order, while everything is as `shape` says."""
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {quoted(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                f"Expected at level: {len(shape)}"
            )
        yield value
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    for item in value:
        yield from _leaves(item, shape, level + 1)


def _reader(dtype) -> Callable:
    """Returns what makes of a JSON scalar the Python value of an element of `dtype`; made once, called for each."""
    if dtype == tf.string:
        return _read_text
    if dtype in _FLOATS:
        return _float_reader(dtype)
    if dtype in _INTEGERS:
        limits = np.iinfo(np.int32 if dtype in _NARROW else dtype.as_numpy_dtype)
        return _plain_reader(int, dtype, int(limits.min), int(limits.max))
    if dtype == tf.bool:
        return _plain_reader(bool, dtype, False, True)
    return _refuser(dtype)


def _read_text(value):
    if isinstance(value, str):
        return encode(value)
    if isinstance(value, dict):
        return from_base64(value)
    raise _wrong_type(value, tf.string)


def _plain_reader(kind_of_value, dtype, least, most):
    def read(value):
        if type(value) is not kind_of_value or not least <= value <= most:  # a bool is an int to isinstance
            raise _wrong_type(value, dtype)
        return value

    return read


def _float_reader(dtype):
    largest = float(np.finfo(dtype.as_numpy_dtype).max)

    def read(value):
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise _wrong_type(value, dtype)
        number = as_double(value)
        if abs(number) > largest and not math.isinf(number):  # it would only become infinite
            target = type_name(dtype.as_datatype_enum)
            raise invalid(f"Cannot convert JSON value: {quoted(value)} to {target} without loss of precision.")
        return number

    return read


def _refuser(dtype):
    def read(value):
        if isinstance(value, dict):
            raise _wrong_type(value, dtype)
        raise unimplemented(f"Conversion of JSON Value: {quoted(value)} to type: {type_name(dtype.as_datatype_enum)}")

    return read


def _wrong_type(value, dtype):
    return invalid(
        f"JSON Value: {quoted(value)} Type: {kind(value)} is not of expected type: {type_name(dtype.as_datatype_enum)}"
    )
