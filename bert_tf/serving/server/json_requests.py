"""Bodies of REST requests: `instances` and `inputs` to arrays, `examples` to tf.Example.

The rules and messages are those of TensorFlow Serving's `json_tensor.cc`.
"""

import base64
import binascii
import functools
import json
import math
import re
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from bert_tf.serving.errors import ServingError, invalid, unimplemented
from bert_tf.serving.limits import LIMITS, Limits
from bert_tf.serving.server.predict import check_input, wrong_count
from bert_tf.serving.server.signatures import count_rows, type_name

# === Values ===
# From JSON values to arrays.


_QUOTED = 256  # characters after which a quoted value is cut
_INDENT = "    "
_TOO_BIG = "JSON Parse error: Number too big to be stored in double."
_LONGEST = 1024  # characters of a string in it, which TensorFlow Serving does not cut
_FLOATS = (tf.float32, tf.float64)
_INTEGERS = (tf.int32, tf.int64, tf.uint32, tf.uint64, tf.int16, tf.int8, tf.uint8)
_NARROW = (tf.int16, tf.int8, tf.uint8)  # TensorFlow Serving takes any int32 for them and so do we


class Constant(float):
    """NaN or an infinity spelled out in a JSON text; 1e999 is parsed as infinity too, but is a number."""


def json_to_array(value, dtype: tf.DType, limits: Limits = LIMITS) -> np.ndarray:
    """Returns the array of a JSON scalar or of evenly nested lists; strings as objects of type bytes.

    Raises:
        ServingError: a value has another type or is too large, or sibling lists differ in length or depth.
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
        raise invalid(_TOO_BIG) from error
    if math.isinf(number) and not isinstance(value, Constant):
        raise invalid(_TOO_BIG)
    return number


def kind(value) -> str:
    """Returns RapidJSON's name for the type of a JSON value."""
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
    if dtype == tf.string:
        return _read_text
    if dtype in _FLOATS:
        largest = float(np.finfo(dtype.as_numpy_dtype).max)
        return functools.partial(_read_float, dtype, largest)
    if dtype in _INTEGERS:
        limits = np.iinfo(np.int32 if dtype in _NARROW else dtype.as_numpy_dtype)
        return functools.partial(_read_plain, int, dtype, int(limits.min), int(limits.max))
    if dtype == tf.bool:
        return functools.partial(_read_plain, bool, dtype, False, True)
    return functools.partial(_refuse, dtype)


def _read_text(value):
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return from_base64(value)
    raise _wrong_type(value, tf.string)


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


# === Limits of a JSON text ===
# Measures a JSON text before parsing: eighteen megabytes of `[]` would become gigabytes of Python lists.
#
# Whole chunks are searched with NumPy instead of single characters in Python, so it takes a tenth of the parsing time.


_CHUNK = 2**20  # bytes at a time, so that other threads get their turn in between
_OTHER = bytes(set(range(256)) - set(b'"[]{},'))
_STEP = np.zeros(256, np.int8)  # change of depth by a character
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1
_STARTS = np.zeros(256, bool)  # characters that may precede a value
_STARTS[list(b"[{,")] = True
# Escapes without surrogates, up to a thousand at once, or a whole pair; otherwise, half of one.
_ESCAPE = re.compile(rb"\\(?:[^u](?:\\[^u]){0,999}|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F]))")
_MAY_BE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def check_json(body: bytes, limits: Limits):
    """Raises ServingError if a JSON text is nested too deeply, has too many values or half of a surrogate pair.

    Invalid JSON may pass or fail with any of these, because the parser reports it.
    """
    depth = values = 0
    inside = 0  # whether a chunk starts inside a string
    for chunk in _chunks(body):
        marks = np.frombuffer(chunk.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _OTHER), np.uint8)
        if not len(marks):
            continue
        quotes = np.cumsum(marks == ord('"'), dtype=np.int32) + inside
        inside = int(quotes[-1]) & 1
        marks = marks[quotes & 1 == 0]  # includes quotes that end a string, which do not count
        levels = np.cumsum(_STEP[marks], dtype=np.int32) + depth
        if len(levels) and levels.max() > limits.max_nesting:
            raise invalid(f"JSON Parse error: Lists and objects may nest at most {limits.max_nesting} deep")
        depth = int(levels[-1]) if len(levels) else depth
        values += int(_STARTS[marks].sum())
        if values > limits.max_json_values:
            most = limits.max_json_values
            raise invalid(f"JSON Parse error: The document may have {most} values and has more; send it in parts")
    if _MAY_BE_SURROGATE.search(body):
        for match in _ESCAPE.finditer(body):
            if match[1]:
                raise invalid(f"JSON Parse error: The surrogate pair in string is invalid. at offset: {match.start()}")


def _chunks(body) -> Iterator[bytes]:
    """Yields the body in chunks that do not end in the middle of an escape."""
    start = 0
    while start < len(body):
        chunk = body[start : start + _CHUNK]
        if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2:
            chunk += body[start + _CHUNK : start + _CHUNK + 1]
        yield chunk
        start += len(chunk)


# === Bodies ===


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\n\r]*")


class RepeatedKeys(dict):
    """A JSON object with repeated keys; as a mapping, it has the first value of each.

    Attributes:
        pairs: [(key, value)] of all its members.
    """

    def __init__(self, pairs):
        super().__init__()
        for key, value in pairs:
            self.setdefault(key, value)
        self.pairs = pairs


def parse_body(body: bytes, limits: Limits = LIMITS) -> dict:
    """Returns the JSON object at the start of a request body; of equal keys, the first counts.

    Raises:
        ServingError: it is not an object, its `signature_name` is not a string, or it is too large.
    """
    body = body.removeprefix(_BYTE_ORDER_MARK)
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    check_json(body, limits)
    document = _first_value(body)
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {quoted(document)} Is not object")
    if not isinstance(document.get("signature_name", ""), str):
        raise invalid(
            f"JSON Value: {quoted(document)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return document


def predict_inputs(document: dict, signature, limits: Limits = LIMITS) -> tuple[dict[str, np.ndarray], bool]:
    """Returns ({input alias: array}, whether the request is in row form) of a predict request.

    Raises:
        ServingError: the document does not match the signature's inputs, or is too large.
    """
    if "instances" in document:
        _check_instances(document)
        limits.check_rows(len(document["instances"]))
        arrays = _rows(document["instances"], signature, limits)
        if len(arrays) < len(signature.inputs):
            raise wrong_count(arrays, signature.inputs)
        return arrays, True
    if "inputs" not in document:
        raise invalid("Missing 'inputs' or 'instances' key")
    return _columns(document["inputs"], signature, limits), False


def fill_examples(document: dict, request_input, limits: Limits = LIMITS):
    """Writes `examples` and `context` of a classify or regress request into the proto `Input`.

    Raises:
        ServingError: tf.Example cannot hold them, or there are too many.
    """
    target = request_input.example_list
    if "context" in document:
        target = request_input.example_list_with_context
        _fill_example(document["context"], target.context)
    if "examples" not in document:
        raise invalid(
            f"JSON Value: {quoted(document)} When method is classify, key 'examples' is expected and was not found"
        )
    if not isinstance(document["examples"], list):
        raise invalid(f"JSON Value: {quoted(document)} Expecting 'examples' value to be an list/array")
    if not document["examples"]:
        raise invalid(f"JSON Value: {quoted(document)} 'examples' value is an empty array")
    limits.check_rows(len(document["examples"]))
    for item in document["examples"]:
        _fill_example(item, target.examples.add())


def _check_instances(document):
    if "inputs" in document:
        raise invalid(
            f"JSON Value: {quoted(document)} Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist "
        )
    if not isinstance(document["instances"], list):
        raise invalid(f"JSON Value: {quoted(document)} Expecting 'instances' to be an list/array")
    if not document["instances"]:
        raise invalid(f"JSON Value: {quoted(document)} No values in 'instances' array")


def _columns(value, signature, limits):
    dtypes = {alias: endpoint.dtype for alias, endpoint in signature.inputs.items()}
    if not _is_object(value):
        if len(dtypes) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        value = {next(iter(dtypes)): value}
    for alias in dtypes:
        if alias not in value:
            raise invalid(f"Missing named input: {alias} in 'inputs' object.")
    for alias in dtypes:
        _check_shape(signature, alias, shape_of(value[alias], limits), limits)
    return {alias: json_to_array(value[alias], dtype, limits) for alias, dtype in dtypes.items()}


def _check_shape(signature, alias, shape, limits):
    datatype = signature.inputs[alias].dtype.as_datatype_enum
    limits.check_rows(count_rows(datatype, shape))
    check_input(signature, alias, datatype, shape)


def _rows(instances, signature, limits):
    """Stacks the rows of each input; a row is an object with all inputs, or a value of the first input."""
    dtypes = {alias: endpoint.dtype for alias, endpoint in signature.inputs.items()}
    if not isinstance(instances[0], dict) and len(dtypes) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    by_name = _is_object(instances[0])
    columns = {alias: [] for alias in dtypes}
    for i, row in enumerate(instances):
        if by_name and not _is_object(row):
            raise invalid(f"Expecting object but got list at item {i} of input list")
        if not by_name and _is_object(row):
            raise invalid(f"Expecting value/list but got object at item {i} of input list")
        for alias, value in (row if by_name else {next(iter(dtypes)): row}).items():
            try:
                if alias in dtypes and not columns[alias]:  # the other rows must have the shape of the first
                    _check_shape(signature, alias, [len(instances), *shape_of(value, limits)], limits)
                _add(columns, alias, value, dtypes, limits)
            except ServingError as error:
                key = f" key: {alias}" if by_name else ""
                message = f"Failed to process element: {i}{key} of 'instances' list. Error: {error.code.name}: "
                raise invalid(message + error.message) from error
        if by_name and set(row) != set(dtypes):
            raise invalid(
                f"Failed to process element: {i} of 'instances' list. JSON object: {quoted(row)} keys must be equal "
                f"to: {','.join(dtypes)}"
            )
        if by_name and isinstance(row, RepeatedKeys):
            names = [name for name, _ in row.pairs]
            repeated = next(name for i, name in enumerate(names) if name in names[:i])
            raise invalid(f"tensor parsing error: {repeated}")
    columns = {alias: column for alias, column in columns.items() if column}
    for alias, column in columns.items():
        if dtypes[alias] == tf.string:
            limits.check_texts([len(text) for array in column for text in array.ravel()])
    return {alias: np.stack(column) for alias, column in columns.items()}


def _add(columns, alias, value, dtypes, limits):
    """Adds a row's value to its column, whose rows must all have the same shape."""
    if alias not in dtypes:
        raise invalid(f"JSON object: does not have named input: {alias}")
    array = json_to_array(value, dtypes[alias], limits)
    first = columns[alias][0] if columns[alias] else array
    if first.size != array.size:
        raise invalid(f"Expecting tensor size: {first.size} but got: {array.size}")
    if first.shape != array.shape:
        shapes = [f"[{','.join(map(str, each.shape))}]" for each in (first, array)]
        raise invalid(f"Expecting shape {shapes[0]} but got: {shapes[1]}")
    columns[alias].append(array)


def _is_object(value):
    return isinstance(value, dict) and not is_base64(value)


def _fill_example(value, example):
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {kind(value)}")
    members = dict(value.pairs) if isinstance(value, RepeatedKeys) else value  # for equal features, the last counts
    for name, content in members.items():
        feature = example.features.feature[name]
        for item in content if isinstance(content, list) else [content]:
            _add_to_feature(item, name, feature)


def _add_to_feature(value, name, feature):
    """Appends a JSON scalar to a Feature, whose values must all have one type."""
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        field, value = "int64_list", int(value)
    elif isinstance(value, (int, float)):
        field, value = "float_list", as_double(value)
    elif isinstance(value, str) or is_base64(value):
        field, value = "bytes_list", value.encode() if isinstance(value, str) else from_base64(value)
    else:
        raise invalid(f"Feature: {name} has element with unexpected JSON type: {kind(value)}")
    before = feature.WhichOneof("kind")
    if before not in (None, field):
        raise invalid(f"Unexpected element type in feature: {name} expecting type: {before.removesuffix('_list')}")
    if field == "int64_list" and value >= 2**63:
        raise invalid(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
    getattr(feature, field).value.append(value)


def _first_value(body):
    """Returns the JSON value at the start of a body. TensorFlow Serving ignores the rest."""
    wrong = None
    try:
        text = body.decode("utf-8")  # with bytes, json would guess the encoding
    except UnicodeDecodeError as error:
        wrong, text = error, body[: error.start].decode("utf-8")
    try:
        return _DECODER.raw_decode(text, _SPACE.match(text).end())[0]
    except json.JSONDecodeError as error:
        if wrong:
            raise invalid(f"JSON Parse error: Invalid encoding in string. at offset: {wrong.start}") from wrong
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from error
    except ValueError as error:  # an integer with more digits than Python converts
        raise invalid(_TOO_BIG) from error


_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: found if len(found := dict(pairs)) == len(pairs) else RepeatedKeys(pairs),
    parse_constant=Constant,
)
