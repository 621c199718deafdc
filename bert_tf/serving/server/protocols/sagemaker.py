"""The contract of SageMaker's containers: GET /ping and POST /invocations, in JSON, JSON lines or CSV."""

import csv
import io
import re
from typing import Any

from bert_tf.serving.errors import invalid
from bert_tf.serving.server import json_requests
from bert_tf.serving.server.json_limits import check_json
from bert_tf.serving.server.protocols.adapter import AdapterRequest, Protocol, checked_members, member
from bert_tf.serving.server.protocols.predictions import predict_rows
from bert_tf.serving.server.protocols.served_tasks import leased_model
from bert_tf.serving.server.rest_targets import find_signature

_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
_MODEL = "tfs-model-name"  # as in SageMaker's container of TensorFlow Serving
_JSON = "application/json"
_UNSTATED = "application/x-www-form-urlencoded"  # what curl and other clients state if nobody chose
_MOST_OF_A_CELL = 2**17  # characters
_KINDS = (_JSON, "application/jsonlines", "application/x-jsonlines", "text/csv")


def _invocations(request: AdapterRequest) -> str:
    name, kind = _model_name(request), _content_type(request)
    accepted = _header(request, "Accept") or "*/*"
    if not re.search(r"application/json(?![\w/+.-])|application/\*|\*/\*", accepted.lower()):
        raise invalid(f"Accept must allow {_JSON}, the only form of responses; got {accepted}")
    if kind == _JSON:
        document = _document(request.document)
    elif kind == "text/csv":
        document = {"instances": _csv_rows(request, name)}
    else:
        document = {"instances": _json_lines(request)}
    return predict_rows(request, document, name)


def _document(value: Any) -> dict[str, Any]:
    """Returns the request of a JSON body: an object as in TensorFlow Serving, or a list of instances."""
    if isinstance(value, list):
        return {"instances": value}
    members = checked_members(value, (), ("instances", "inputs", "signature_name"), "The body")
    member(members, "signature_name", str)
    return members


def _json_lines(request):
    """Returns the JSON values of the lines of a body that are not blank."""
    body, limits = request.body.strip(), request.call.limits
    limits.check_rows(body.count(b"\n") + 1)
    lines = [line for line in body.split(b"\n") if line.strip()]
    check_json(b"[" + b",".join(lines) + b"]", limits)  # limits of the body, not of each line
    return [json_requests.parse_whole(line, limits) for line in lines]


def _csv_rows(request, name):
    """Returns the instances of CSV without a header, whose columns are the model's inputs in alphabetical order."""
    with leased_model(request, name) as version:
        aliases = list(find_signature(version).inputs)
    body, limits, rows = request.body, request.call.limits, []
    if sum(map(body.count, (b",", b"\n", b"\r"))) > limits.max_json_values:
        raise invalid(f"The CSV may have {limits.max_json_values} cells and has more; send it in parts")
    try:
        for row in csv.reader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True):
            if any(len(cell) > _MOST_OF_A_CELL for cell in row):  # csv has such a limit, but a library may raise it
                raise csv.Error(f"field larger than field limit ({_MOST_OF_A_CELL})")
            rows += [row] if row else []
            limits.check_rows(len(rows))
    except (UnicodeDecodeError, csv.Error) as error:
        raise invalid(f"The body must be CSV in UTF-8: {error}") from error
    for i, row in enumerate(rows):
        if len(row) != len(aliases):
            raise invalid(f"Row {i} of the CSV must have {len(aliases)} columns, {', '.join(aliases)}; got {len(row)}")
    return [dict(zip(aliases, row, strict=True)) for row in rows]


def _content_type(request):
    kind = (_header(request, "Content-Type") or _JSON).partition(";")[0].strip().lower()
    if kind == _UNSTATED:
        return _JSON
    if kind not in _KINDS:
        raise invalid(f"Content-Type must be {', '.join(_KINDS)}; got {kind}")
    return kind


def _model_name(request) -> str | None:
    """Returns the model that the custom attributes name, or None."""
    found = {}
    for part in filter(None, _header(request, _ATTRIBUTES).split(",")):
        key, _, value = part.strip().partition("=")
        if key != _MODEL:
            raise invalid(f"{_ATTRIBUTES} has {key}, which is not supported; it may have {_MODEL}")
        found[key] = value
    return found.get(_MODEL)


def _header(request, name) -> str:
    """Returns the values of a header with commas between them, "" if there is none.

    Raises:
        ServingError: they are not ASCII.
    """
    found = ", ".join(value for each, value in request.call.headers.items() if each.lower() == name.lower())
    if not found.isascii():
        raise invalid(f"The header {name} must be ASCII; got {found}")
    return found


SAGEMAKER = Protocol("sagemaker", {("POST", "/invocations"): _invocations}, ready_paths=("/ping",))
