"""JSON values to arrays.

The rules and messages are those of TensorFlow Serving's `json_tensor.cc`.
"""

import base64
import binascii
import functools
import json
import math
from collections.abc import Callable, Iterator

import numpy as np

from bert_tf.serving.errors import invalid, unimplemented
from bert_tf.serving.limits import LIMITS, Limits
from bert_tf.serving.server.dtypes import BOOL, FLOAT32, FLOAT64, STRING, DType, as_dtype
from bert_tf.serving.server.signature_tensors import type_name

_QUOTED = 256  # characters after which a quoted value is cut
_INDENT = "    "
TOO_BIG = "JSON Parse error: Number too big to be stored in double."
_LONGEST = 1024  # characters of a string in it, which TensorFlow Serving does not cut
_FLOATS = (FLOAT32, FLOAT64)
_NARROW = tuple(map(as_dtype, (np.int16, np.int8, np.uint8)))  # any int32 is taken, as in TensorFlow Serving
_INTEGERS = (*map(as_dtype, (np.int32, np.int64, np.uint32, np.uint64)), *_NARROW)


class Constant(float):
    """NaN or an infinity spelled out in a JSON text; 1e999 is parsed as infinity too, but is a number."""


def json_to_array(value, dtype: DType, limits: Limits = LIMITS) -> np.ndarray:
    """Returns the array of a JSON scalar or of evenly nested lists; strings as objects of type bytes.

    Raises:
        ServingError: a value has another type or is too large, or sibling lists differ in length or depth.
    """
    shape = shape_of(value, limits)
    values = list(map(_reader(dtype), _leaves(value, shape, 0)))
    if dtype == STRING:
        limits.check_texts(list(map(len, values)))
        array = np.empty(len(values), object)
        array[:] = values
        return array.reshape(shape)
    wide = np.int32 if dtype in _NARROW else dtype.as_numpy_dtype
    with np.errstate(over="ignore"):
        return np.array(values, wide).astype(dtype.as_numpy_dtype, copy=False).reshape(shape)


def shape_of(value, limits: Limits = LIMITS) -> list[int]:
    """Returns the shape of a JSON value according to the first element of each list.

    Raises:
        ServingError: the shape has too many elements.
    """
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    if math.prod(shape) > limits.max_tensor_elements:
        most = limits.max_tensor_elements
        raise invalid(f"A tensor may have {most} elements and one has {math.prod(shape)}; send it in parts")
    return shape


def is_base64(value) -> bool:
    """Whether a JSON value is {"b64": "..."}, the notation for bytes that are not UTF-8."""
    members = getattr(value, "pairs", value)  # for an object with a repeated key
    return isinstance(value, dict) and len(members) == 1 and isinstance(value.get("b64"), str)


def from_base64(value) -> bytes:
    """Returns the bytes of {"b64": "..."}; padding may be missing.

    Raises:
        ServingError: it is not base64.
    """
    if not is_base64(value):
        raise invalid(f"JSON Value: {quoted(value)} not formatted correctly for base64 data")
    text = "".join(value["b64"].split()).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Unable to base64 decode") from error


def quoted(value) -> str:
    """Returns a JSON value for an error message, as RapidJSON writes it; a long one is cut."""
    text = ""
    for token in _tokens(value):
        if len(text) >= _QUOTED:
            break
        text += token
    return text[:_LONGEST]


def as_double(value: int | float) -> float:
    """Returns a JSON number as a float.

    Raises:
        ServingError: it exceeds the range of a float.
    """
    try:
        number = float(value)
    except OverflowError as error:
        raise invalid(TOO_BIG) from error
    if math.isinf(number) and not isinstance(value, Constant):
        raise invalid(TOO_BIG)
    return number


def kind(value) -> str:
    """Returns RapidJSON's name for the type of a JSON value."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):
        return "Object"
    return {type(None): "Null", list: "Array", str: "String"}.get(type(value), "Number")


def _tokens(value, level=0, before="") -> Iterator[str]:
    """Yields the text of a JSON value: each member of an object on its own line, a list on one."""
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
    """Yields the scalars of `value` in order, while the structure matches `shape`."""
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
    """Returns a function from a JSON scalar to the Python value of an element of `dtype`."""
    if dtype == STRING:
        return _read_text
    if dtype in _FLOATS:
        largest = float(np.finfo(dtype.as_numpy_dtype).max)
        return functools.partial(_read_float, dtype, largest)
    if dtype in _INTEGERS:
        limits = np.iinfo(np.int32 if dtype in _NARROW else dtype.as_numpy_dtype)
        return functools.partial(_read_plain, int, dtype, int(limits.min), int(limits.max))
    if dtype == BOOL:
        return functools.partial(_read_plain, bool, dtype, False, True)
    return functools.partial(_refuse, dtype)


def _read_text(value):
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return from_base64(value)
    raise _wrong_type(value, STRING)


def _read_plain(kind_of_value, dtype, least, most, value):
    if type(value) is not kind_of_value or not least <= value <= most:  # a bool is an int to isinstance
        raise _wrong_type(value, dtype)
    return value


def _read_float(dtype, largest, value):
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _wrong_type(value, dtype)
    number = as_double(value)
    if abs(number) > largest and not math.isinf(number):  # it would become infinite
        target = type_name(dtype.as_datatype_enum)
        raise invalid(f"Cannot convert JSON value: {quoted(value)} to {target} without loss of precision.")
    return number


def _refuse(dtype, value):
    if isinstance(value, dict):
        raise _wrong_type(value, dtype)
    raise unimplemented(f"Conversion of JSON Value: {quoted(value)} to type: {type_name(dtype.as_datatype_enum)}")


def _wrong_type(value, dtype):
    return invalid(
        f"JSON Value: {quoted(value)} Type: {kind(value)} is not of expected type: {type_name(dtype.as_datatype_enum)}"
    )
