"""Arrays to tensor messages and back.

A `tensor` is the client's message or TensorFlow's TensorProto, whose fields are the same.
"""

import itertools
import math
from collections.abc import Iterable

import numpy as np

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
_BFLOAT16 = 14  # which NumPy lacks
FIELDS = {number: field for number, (_, field) in _DTYPES.items()} | {_BFLOAT16: "half_val"}
_NUMBERS = {np.dtype(dtype): number for number, (dtype, _) in _DTYPES.items()}
STRING = 7
_MOST_AXES = 64  # of an array of NumPy
_MOST_REPEATS = 2**10  # values that a response may omit: sixty bytes could otherwise claim all memory
_MOST_REPEATED_BYTES = 2**16  # of a string that is repeated
_LAST_SHIFT = 63  # of a varint
_VALUES_AT_A_TIME = 2**16  # as Python numbers, each in eight times the memory


def fill_tensor(tensor, values, name: str):
    """Writes an array, or nested lists, into a tensor message.

    Python's integers become int32 and its floats float32, as in TensorFlow; str is sent as UTF-8.

    Raises:
        ValueError: the values are uneven, or of a type that tensors do not have; `name` is the input's name for the
            message.
    """
    array = _as_array(values, name)
    write_array(tensor, array, _NUMBERS[array.dtype], as_content=array.dtype != object)


def write_array(tensor, array: np.ndarray, number: int, as_content: bool):
    """Writes an array into an empty tensor message.

    Args:
        tensor: the message.
        array: array of any shape; strings as objects of type bytes.
        number: its type in DataType, one of FIELDS unless `as_content`.
        as_content: whether to write raw bytes into `tensor_content`, where the lengths of all strings, as varints,
            precede them; otherwise, one value per element in the field of its type, such as `float_val`.
    """
    tensor.dtype = number
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if as_content and number == STRING:
        texts = array.ravel().tolist()
        tensor.tensor_content = b"".join([*(_write_varint(len(text)) for text in texts), *texts])
    elif as_content:
        tensor.tensor_content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    else:
        # half_val holds the bits
        flat = (array.view(np.uint16) if FIELDS[number] == "half_val" else array).ravel()
        values = getattr(tensor, FIELDS[number])
        for start in range(0, len(flat), _VALUES_AT_A_TIME):
            values.extend(flat[start : start + _VALUES_AT_A_TIME].tolist())


def wire_to_array(tensor, is_checked: bool = False, bfloat16: type | None = None) -> np.ndarray:
    """Returns the array of a tensor message; strings as objects of type bytes.

    Args:
        tensor: the message.
        is_checked: whether it may omit any number of repetitions of its last value, because something else has
            bounded its size.
        bfloat16: numpy's type for it, which TensorFlow brings.

    Raises:
        ValueError: its type does not exist in NumPy, or its values do not match its shape.
    """
    if tensor.dtype not in _DTYPES and not (bfloat16 and tensor.dtype == _BFLOAT16):
        raise ValueError(f"The response has a type that NumPy does not support: DataType {tensor.dtype}.")
    dtype, field = _DTYPES.get(tensor.dtype, (bfloat16, FIELDS[_BFLOAT16]))
    shape = _shape(tensor)
    count = math.prod(shape)  # exact, while NumPy's would overflow
    if tensor.tensor_content and tensor.dtype == STRING:
        return _read_strings(tensor.tensor_content, count).reshape(shape)
    if tensor.tensor_content:
        given = len(tensor.tensor_content) / np.dtype(dtype).itemsize
        if given != count:
            raise ValueError(f"The response must have the {count} values of its shape; got {given:g}.")
        return np.frombuffer(tensor.tensor_content, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
    given = getattr(tensor, field)
    missing = count - len(given)
    if missing < 0 or missing > _MOST_REPEATS and not is_checked:
        raise ValueError(f"The response must have the {count} values of its shape; got {len(given)}.")
    if dtype is np.object_ and len(given) and missing * len(given[-1]) > _MOST_REPEATED_BYTES and not is_checked:
        raise ValueError(f"The response must have the {count} strings of its shape; got {len(given)}.")
    try:
        # Without a list of Python numbers, which takes eight times the memory.
        values = np.fromiter(given, np.uint16 if field == "half_val" else dtype, len(given))
    except OverflowError as error:
        name = np.dtype(dtype).name
        raise ValueError(f"The response has numbers that exceed its type, {name}.") from error
    if field == "half_val":
        values = values.view(dtype)  # it holds the bits
    if missing:  # a sender may omit repetitions of the last value, and all zeros
        zero = b"" if dtype is np.object_ else 0
        values = np.pad(values, (0, missing), "edge") if values.size else np.full(shape, zero, dtype)
    return values.reshape(shape)


def string_sizes(content: bytes, count: int) -> tuple[list[int], int]:
    """Returns (the sizes of the strings in raw content, where they begin): a varint for each precedes them all.

    Raises:
        ValueError: the content is not that of `count` strings.
    """
    sizes, position = [], 0
    try:
        for _ in range(count):
            size = shift = 0
            while content[position] & 0x80 and shift < _LAST_SHIFT:
                size, shift, position = size | (content[position] & 0x7F) << shift, shift + 7, position + 1
            sizes.append(size | content[position] << shift)
            position += 1
    except IndexError:
        sizes.append(len(content) + 1)
    if position + sum(sizes) != len(content):
        raise ValueError(f"The response must have {count} strings; got {len(content)} bytes that do not match.")
    return sizes, position


def check_missing(tensors: Iterable):
    """Raises ValueError if the tensors of one response together omit more values than is usual."""
    missing = 0
    for tensor in tensors:
        if not tensor.tensor_content and tensor.dtype in FIELDS:
            missing += max(0, math.prod(_shape(tensor)) - len(getattr(tensor, FIELDS[tensor.dtype])))
    if missing > _MOST_REPEATS:
        raise ValueError(f"The response lacks {missing} of the values of its outputs.")


def dtype_name(number: int) -> str:
    """Returns NumPy's name of a DataType, "string" for strings, or its number if NumPy does not support it."""
    if number == STRING:
        return "string"
    return np.dtype(_DTYPES[number][0]).name if number in _DTYPES else f"DataType {number}"


def _shape(tensor):
    shape = [dim.size for dim in tensor.tensor_shape.dim[: _MOST_AXES + 1]]
    if tensor.tensor_shape.unknown_rank or len(shape) > _MOST_AXES or min(shape, default=0) < 0:
        raise ValueError(
            f"The response has an invalid shape: at most {_MOST_AXES} non-negative sizes are allowed; got {shape}. "
            "Check that this is a model server."
        )
    return shape


def _read_strings(content, count):
    """Returns the strings of raw content, object array [count]."""
    sizes, position = string_sizes(content, count)
    ends = list(itertools.accumulate(sizes, initial=position))
    texts = np.empty(count, object)
    texts[:] = [content[start:end] for start, end in itertools.pairwise(ends)]
    return texts


def _write_varint(number):
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(number & 0x7F)
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def _as_array(values, name):
    """Converts values to an array of a tensor type; strings as objects of type bytes."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"Input {name!r} must be an array or lists of equal lengths; got uneven ones: {error}."
        ) from error
    if array.dtype.kind in "US":
        array = np.asarray(values, object)
    elif not isinstance(values, (np.ndarray, np.generic)):
        narrow = {np.dtype(np.int64): np.int32, np.dtype(np.float64): np.float32}.get(array.dtype, array.dtype)
        cast = array.astype(narrow)
        if array.dtype.kind == "i" and (cast != array).any():
            raise ValueError(
                f"Input {name!r} exceeds int32. Pass numpy.int64 for larger numbers."
            )
        array = cast
    if array.dtype not in _NUMBERS:
        raise ValueError(f"Input {name!r} must be numbers or strings; got NumPy type {array.dtype}.")
    if array.dtype == object:
        texts = np.empty(array.size, object)
        texts[:] = [_as_bytes(value, name) for value in array.ravel().tolist()]
        return texts.reshape(array.shape)
    return array


def _as_bytes(value, name):
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")  # bytes of a command line that are not UTF-8 are unchanged
    raise ValueError(f"Input {name!r} must only have strings; got a {type(value).__name__}.")
