"""Bodies of REST requests: `instances` and `inputs` to arrays, `examples` to tf.Example.

The rules and messages are those of TensorFlow Serving's `json_tensor.cc`.
"""

import json
import re
from typing import Any

import numpy as np

from bert_tf.serving.errors import ServingError, invalid
from bert_tf.serving.limits import LIMITS, Limits
from bert_tf.serving.server.dtypes import STRING
from bert_tf.serving.server.json_limits import check_json
from bert_tf.serving.server.json_values import (
    TOO_BIG,
    Constant,
    as_double,
    from_base64,
    is_base64,
    json_to_array,
    kind,
    quoted,
    shape_of,
)
from bert_tf.serving.server.predict import check_input, wrong_count
from bert_tf.serving.server.signature_tensors import count_rows

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
    document = _parse(body, limits)[0]
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {quoted(document)} Is not object")
    if not isinstance(document.get("signature_name", ""), str):
        raise invalid(
            f"JSON Value: {quoted(document)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return document


def parse_whole(body: bytes, limits: Limits = LIMITS) -> Any:
    """Returns the JSON value that a request body is; unlike in `parse_body`, nothing may follow it.

    Raises:
        ServingError: it is not one JSON value, or it is too large.
    """
    value, is_whole = _parse(body, limits)
    if not is_whole:
        raise invalid("JSON Parse error: The document must be one JSON value; got more after it")
    return value


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
        ServingError: tf.Example cannot represent them, or there are too many.
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
        if dtypes[alias] == STRING:
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


def _parse(body, limits):
    """Returns the JSON value at the start of a body, and whether nothing follows, which TensorFlow Serving ignores."""
    body = body.removeprefix(_BYTE_ORDER_MARK)
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    check_json(body, limits)
    wrong = None
    try:
        text = body.decode("utf-8")  # with bytes, json would guess the encoding
    except UnicodeDecodeError as error:
        wrong, text = error, body[: error.start].decode("utf-8")
    try:
        value, end = _DECODER.raw_decode(text, _SPACE.match(text).end())
        return value, wrong is None and _SPACE.match(text, end).end() == len(text)
    except json.JSONDecodeError as error:
        if wrong:
            raise invalid(f"JSON Parse error: Invalid encoding in string. at offset: {wrong.start}") from wrong
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from error
    except ValueError as error:  # an integer with more digits than Python converts
        raise invalid(TOO_BIG) from error


_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: found if len(found := dict(pairs)) == len(pairs) else RepeatedKeys(pairs),
    parse_constant=Constant,
)
