"""Bodies of REST responses from arrays and protos, digit for digit as in TensorFlow Serving's `json_tensor.cc`.

Python's own `json` would write 1.0 as TensorFlow Serving does, but float32 0.2 as 0.20000000298023224.
"""

import base64
import json
import math
from typing import Any

import numpy as np
from google.protobuf import json_format

from bert_tf.serving.errors import invalid
from bert_tf.serving.server.dtypes import BOOL, FLOAT64, STRING, as_dtype

_encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes an encoder for each text


def predictions(outputs: dict[str, np.ndarray], signature, row: bool) -> str:
    """Returns the body of a predict response.

    Args:
        outputs: {output alias: array}.
        signature: signature of the outputs.
        row: `predictions`, a list with one item per row; otherwise `outputs`, one list per output. If there is only one
            output, its name is left out.

    Raises:
        ServingError: there are no outputs, or the row form is requested and they have no common batch dimension.
    """
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    if row:
        return _body("predictions", _rows(outputs, signature))
    values = {alias: _value(array, alias, signature) for alias, array in outputs.items()}
    return _body("outputs", _object(values) if len(values) > 1 else next(iter(values.values())))


def classifications(result) -> str:
    """Returns the body of a classify response: one list of [label, score] per example."""
    rows = [
        [f"[{_string(item.label)}, {decimal(item.score, np.float32)}]" for item in row.classes]
        for row in result.classifications
    ]
    return _body("results", _list(map(_list, rows)))


def regressions(result) -> str:
    """Returns the body of a regress response: one number per example."""
    return _body("results", _list(decimal(row.value, np.float32) for row in result.regressions))


def message(proto) -> str:
    """Returns a proto as JSON, with its own field names, and including fields that are 0 or empty."""
    return json_format.MessageToJson(
        proto, always_print_fields_with_no_presence=True, preserving_proto_field_name=True, ensure_ascii=False
    )


def metadata(response, signatures) -> str:
    """Returns the body of a metadata response, with unpacked signatures."""
    inner = f'{{"signature_def": {message(signatures)}}}'
    return f'{{\n"model_spec": {message(response.model_spec)},\n"metadata": {inner}\n}}\n'


def document(value: Any) -> str:
    """Returns a value as JSON: objects and lists of Python whose leaves may be arrays, whose digits are as above."""
    if isinstance(value, np.ndarray):
        return _nested(value, _writer(as_dtype(value.dtype), as_bytes=False))
    if isinstance(value, np.generic):
        return document(np.asarray(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_encode(str(key))}: {document(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return _list(map(document, value))
    return _string(value) if isinstance(value, bytes) else _encode(value)


def error(text: str) -> str:
    return _encode({"error": text})


def decimal(value: float, kind: type) -> str:
    """Returns a number of numpy type `kind`: with six digits if they round-trip, otherwise with all."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = f"{value:g}"
    if kind(text) != kind(value):
        text = f"{value:.{9 if kind is np.float32 else 17}g}"
    return text if "." in text or "e" in text else f"{text}.0"


def _rows(outputs, signature):
    size = None
    for alias, array in outputs.items():
        if np.ndim(array) == 0:
            raise invalid(f"Tensor name: {alias} has no shape information ")
        if size not in (None, len(array)):
            raise invalid(f"Tensor name: {alias} has inconsistent batch size: {len(array)} expecting: {size}")
        size = len(array)
    columns = {alias: [_value(item, alias, signature) for item in array] for alias, array in outputs.items()}
    if len(columns) == 1:
        return _list(next(iter(columns.values())))
    return _list(_object({alias: column[i] for alias, column in columns.items()}) for i in range(size))


def _value(array, alias, signature):
    """Returns an array as nested lists; an output named `..._bytes` is written in base64."""
    dtype = signature.outputs[alias].dtype
    return _nested(np.asarray(array, object if dtype == STRING else None), _writer(dtype, alias.endswith("_bytes")))


def _nested(array, write):
    if array.ndim == 0:
        return write(array.item())
    if array.ndim == 1:
        return _list(map(write, array.tolist()))
    return _list(_nested(item, write) for item in array)


def _writer(dtype, as_bytes):
    """Returns a function that writes one element of `dtype`."""
    if dtype == STRING:
        return (lambda value: _object({"b64": _string(base64.b64encode(value))})) if as_bytes else _string
    if dtype == BOOL:
        return json.dumps
    if dtype.is_integer:
        return str
    if dtype.is_floating:
        kind = np.float64 if dtype == FLOAT64 else np.float32
        return lambda value: decimal(value, kind)
    raise invalid(f"Failed to write JSON value for tensor type: {dtype.name}")


def _string(value):
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return _encode(text)


def _object(values):
    return "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in values.items()) + "}"


def _list(values):
    return f"[{', '.join(values)}]"


def _body(key, value):
    return f'{{\n    "{key}": {value}\n}}'
