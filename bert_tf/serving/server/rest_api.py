"""The REST API: from method, path and body to status and JSON.

The URL rules are those of TensorFlow Serving's `http_rest_api_util.cc`.
"""

import contextlib
import functools
import re
import types
import urllib.parse
from collections.abc import Callable, Mapping

from bert_tf.serving.errors import JSON_BYTES, ServingError, from_fault, invalid
from bert_tf.serving.server import json_requests, json_responses, metrics
from bert_tf.serving.server.classify import classify, regress
from bert_tf.serving.server.http_body import HttpError
from bert_tf.serving.server.model_status import model_metadata, model_status
from bert_tf.serving.server.predict import run_predict
from bert_tf.serving.server.protocols.adapter import AdapterRequest, BinaryResponse
from bert_tf.serving.server.protocols.enabled import NO_PROTOCOLS, EnabledProtocols
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.rest_targets import find_signature, read_version
from bert_tf.serving.server.tensorflow_messages import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    regression_pb2,
)
from bert_tf.utils.json_files import json_text

_VERSION = r"(?:(?:/versions/(\d+))|(?:/labels/([^/:]+)))?"
_POST = re.compile(rf"/v1/models/([^/:]+){_VERSION}:(classify|regress|predict)", re.I | re.A)
_GET = re.compile(rf"/v1/models(?:/([^/:]+))?{_VERSION}(?:/(metadata))?", re.I | re.A)


def answer(
    registry,
    method: str,
    path: str,
    body: bytes,
    call: RequestContext = INTERNAL,
    unpack: Callable | None = None,
    routes: Mapping[str, Callable] = types.MappingProxyType({}),
    protocols: EnabledProtocols = NO_PROTOCOLS,
) -> tuple[int, str | BinaryResponse]:
    """Returns (HTTP status, JSON) for a request; the text is empty for an unknown path.

    In place of JSON, a further protocol may return a BinaryResponse.

    Args:
        registry: registry of the served models.
        method: "GET", "POST" or any other, which is rejected.
        path: without the query, still percent-encoded.
        body: body of the request.
        call: context of the request.
        unpack: unpack(body, call) of a compressed body; if None, it was not compressed.
        routes: {path: function from a JSON object and `call` to a JSON object}, for POST to other paths than models'.
        protocols: further protocols, in whose form their requests are answered, also with an error.

    Raises:
        HttpError: the body cannot be decompressed.
    """
    protocol = protocols.find(path)
    request = protocol and AdapterRequest(registry, protocol, path, call=call)
    if request is None and not re.match("/v1/", path, re.I):
        return 404, ""
    try:
        body = unpack(body, call) if unpack else body
        if request:
            request.body = body
            return 200, _answer_adapted(request, method)
        with call.work.begun(call, len(body)), _counted(registry, method, path, call, routes) as (spec, what):
            if what in routes:
                return 200, json_text(routes[what](json_requests.parse_body(body, call.limits), call))
            return 200, _ANSWERS[what](registry, spec, body, call)
    except HttpError:
        raise
    except ServingError as error:
        return _write_error(request, error)  # within the block: an error that is kept keeps the arrays of its frames
    except Exception as error:
        return _write_error(request, from_fault(error, f"{method} {path}"))


def _write_error(request, error):
    """Returns (HTTP status, text) of an error in the form of the request's protocol; None for TensorFlow Serving's."""
    message = error.cut_message(JSON_BYTES)
    if request:
        return request.protocol.write_error(error.http_status, message)
    return error.http_status, json_responses.error(message)


def _answer_adapted(request, method):
    """Returns the text of the response in another protocol, or a BinaryResponse.

    The request is counted under the protocol's name, which an adapter may choose by the body.
    """
    call = request.call
    counted = metrics.request(request.registry, request.spec, lambda: request.protocol.name, call.entrypoint)
    with call.work.begun(call, len(request.body)), counted:
        call.check()
        return request.protocol.answer(method, request)


@contextlib.contextmanager
def _counted(registry, method, path, call, routes):
    """Yields the kind of request; all requests are counted, including those about a model, as in TensorFlow Serving."""
    try:
        spec, what = _target(method, path, routes)
    except ServingError as error:
        metrics.observe_request("", "", call.entrypoint, error.code.name, 0)
        raise
    with metrics.request(registry, spec, what if what in _PREDICTIONS else "", call.entrypoint):
        yield spec, what


def count_rejection(registry, method: str, path: str, error: HttpError):
    """Counts a request that was rejected before `answer`, under the model in its path."""
    try:
        spec, what = _target(method, path, {})
    except ServingError:
        spec, what = model_pb2.ModelSpec(), ""
    name = spec.name if spec.name in registry.names() else ""
    metrics.observe_request(name, what if what in _PREDICTIONS else "", "REST", error.code.name, 0)


def _target(method, path, routes):
    """Returns (ModelSpec, "predict", "classify", "regress", "status", "metadata" or the path of a route)."""
    if method == "POST" and path in routes:
        return model_pb2.ModelSpec(), path
    pattern = {"POST": _POST, "GET": _GET}.get(method)
    match = pattern.fullmatch(path) if pattern else None
    if not match:
        raise invalid(f"Malformed request: {method} {path}")
    return _spec(*match.groups()[:3]), (match[4] or "status").lower()


def _spec(name, number, label):
    """Returns the ModelSpec that a path names."""
    spec = model_pb2.ModelSpec(name=urllib.parse.unquote(name or ""))
    if number:
        spec.version.value = read_version(number)
    if label:
        spec.version_label = urllib.parse.unquote(label)
    return spec


def _document(spec, body, call):
    """Returns the JSON object of a body, whose signature goes into `spec`."""
    call.check()
    document = json_requests.parse_body(body, call.limits)
    spec.signature_name = document.get("signature_name", "")
    return document


def _predict(registry, spec, body, call):
    with registry.lease(spec) as version:
        inputs, row, signature = _inputs(version, spec, body, call)
        return json_responses.predictions(run_predict(version, signature, inputs, call=call), signature, row)


def _inputs(version, spec, body, call):
    """Returns ({alias: array}, whether they came as rows, the Signature)."""
    document = _document(spec, body, call)
    signature = find_signature(version, spec.signature_name)
    return *json_requests.predict_inputs(document, signature, call.limits), signature


def _answer_examples(request_type, infer, write, registry, spec, body, call):
    """Returns the JSON, by `write`, of the result of `infer` (Classify or Regress) for the examples of a body."""
    request = request_type()
    json_requests.fill_examples(_document(spec, body, call), request.input, call.limits)
    request.model_spec.CopyFrom(spec)
    with registry.lease(spec) as version:
        return write(infer(version, request, call).result)


def _status(registry, spec, body, call):
    _check_name(spec)
    request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
    return json_responses.message(model_status(registry, request))


def _metadata(registry, spec, body, call):
    _check_name(spec)
    request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
    response = model_metadata(registry, request)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return json_responses.metadata(response, signatures)


def _check_name(spec):
    if not spec.name:
        raise invalid("Missing model name in request.")


_PREDICTIONS: dict[str, Callable[..., str]] = {
    "predict": _predict,
    "classify": functools.partial(
        _answer_examples, classification_pb2.ClassificationRequest, classify, json_responses.classifications
    ),
    "regress": functools.partial(
        _answer_examples, regression_pb2.RegressionRequest, regress, json_responses.regressions
    ),
}
# answer(registry, spec, body, call) -> JSON
_ANSWERS: dict[str, Callable[..., str]] = {**_PREDICTIONS, "status": _status, "metadata": _metadata}
