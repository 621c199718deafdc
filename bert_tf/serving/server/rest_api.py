"""The REST face, without sockets: method, path and body in, status and JSON out.

URL rules: TensorFlow Serving's `http_rest_api_util.cc`.
"""

import re
import urllib.parse

from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    regression_pb2,
)

from bert_tf.serving.limits import ServingError, from_fault, invalid
from bert_tf.serving.server import json_requests, json_responses, metrics
from bert_tf.serving.server.classify import classify, regress
from bert_tf.serving.server.health import model_metadata, model_status
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE, INTERNAL, Call, check_method, run_predict

_DIGITS = 19  # of the largest version
_VERSION = r"(?:(?:/versions/(\d+))|(?:/labels/([^/:]+)))?"
_POST = re.compile(rf"/v1/models/([^/:]+){_VERSION}:(classify|regress|predict)", re.I | re.A)
_GET = re.compile(rf"/v1/models(?:/([^/:]+))?{_VERSION}(?:/(metadata))?", re.I | re.A)


def answer(catalog, method: str, path: str, body: bytes, call: Call = INTERNAL) -> tuple[int, str]:
    """Returns (HTTP status, JSON) for a request; the text is empty for a path that is none of ours.

    Args:
        catalog: of the served models.
        method: "GET", "POST" or any other, which is refused.
        path: without the query, still percent-encoded.
        body: of the request, unpacked.
        call: what surrounds it.
    """
    if not re.match("/v1/", path, re.I):
        return 404, ""
    try:
        with call.work.begun(call, len(body)):
            return 200, _counted(catalog, method, path, body, call)
    except ServingError as error:
        return error.http_status, json_responses.error(error.json_message)
    except Exception as error:
        failure = from_fault(error, f"{method} {path}")
    return failure.http_status, json_responses.error(failure.json_message)


def _counted(catalog, method, path, body, call):
    """Returns the JSON of an answer; every request counts, also those about a model, as TensorFlow Serving's do."""
    try:
        spec, what = _target(method, path)
    except ServingError as error:
        metrics.observe_request("", "", call.entrypoint, error.code.name, 0)
        raise
    if what in _DESCRIPTION:
        with metrics.request(catalog, spec.name, "", call.entrypoint):
            if not spec.name:
                raise invalid("Missing model name in request.")
            return _DESCRIPTION[what](catalog, spec)
    with metrics.request(catalog, spec.name, what, call.entrypoint):
        return _PREDICTION[what](catalog, spec, body, call)


def _target(method, path):
    """Returns (ModelSpec, "predict", "classify", "regress", "status" or "metadata")."""
    pattern = {"POST": _POST, "GET": _GET}.get(method)
    match = pattern.fullmatch(path) if pattern else None
    if not match:
        raise invalid(f"Malformed request: {method} {path}")
    return _spec(*match.groups()[:3]), (match[4] or "status").lower()


def _spec(name, number, label):
    """Returns the ModelSpec that a path names."""
    spec = model_pb2.ModelSpec(name=urllib.parse.unquote(name or ""))
    if number:
        digits = number.lstrip("0") or "0"
        if len(digits) > _DIGITS or int(digits) >= 2**63:
            raise invalid(f"Failed to convert version: {number} to numeric.")
        spec.version.value = int(digits)
    if label:
        spec.version_label = urllib.parse.unquote(label)
    return spec


def _document(spec, body, call):
    """Returns the JSON object of a body, whose signature goes into `spec`."""
    call.check()
    document = json_requests.parse_body(body, call.limits)
    spec.signature_name = document.get("signature_name", "")
    return document


def _predict(catalog, spec, body, call):
    with catalog.lease(spec) as version:
        inputs, row, signature = _inputs(version, spec, body, call)
        return json_responses.predictions(run_predict(version, signature, inputs, call=call), signature, row)


def _inputs(version, spec, body, call):
    """Returns ({alias: array}, whether they came as rows, the Signature)."""
    document = _document(spec, body, call)
    name = spec.signature_name or DEFAULT_SIGNATURE
    signature = version.model.signatures.get(name)
    if signature is None:
        raise invalid(f'Serving signature name: "{name}" not found in signature def')
    check_method(signature)
    if not signature.inputs:
        raise invalid(f"Failed to get input map for signature: {spec.signature_name or 'DEFAULT'}")
    return *json_requests.predict_inputs(document, signature, call.limits), signature


def _classify(catalog, spec, body, call):
    request = classification_pb2.ClassificationRequest()
    _fill(request, spec, body, call)
    with catalog.lease(spec) as version:
        return json_responses.classifications(classify(version, request, call).result)


def _regress(catalog, spec, body, call):
    request = regression_pb2.RegressionRequest()
    _fill(request, spec, body, call)
    with catalog.lease(spec) as version:
        return json_responses.regressions(regress(version, request, call).result)


def _fill(request, spec, body, call):
    json_requests.fill_examples(_document(spec, body, call), request.input, call.limits)
    request.model_spec.CopyFrom(spec)


def _status(catalog, spec):
    return json_responses.message(model_status(catalog, get_model_status_pb2.GetModelStatusRequest(model_spec=spec)))


def _metadata(catalog, spec):
    request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
    response = model_metadata(catalog, request)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return json_responses.metadata(response, signatures)


_PREDICTION = {"predict": _predict, "classify": _classify, "regress": _regress}
_DESCRIPTION = {"status": _status, "metadata": _metadata}
