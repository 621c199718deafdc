"""The REST face, without sockets: method, path and body in, status and JSON out.

URL rules: TensorFlow Serving's `http_rest_api_util.cc`.
"""

import re
import urllib.parse

from absl import logging
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    regression_pb2,
)

from bert_tf.serving import json_requests, json_responses
from bert_tf.serving.call import INTERNAL, Call
from bert_tf.serving.classify import classify, regress
from bert_tf.serving.describe import model_metadata, model_status
from bert_tf.serving.errors import ServingError, invalid
from bert_tf.serving.predict import DEFAULT_SIGNATURE, run

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
        return 200, _route(catalog, method, path, body, call)
    except ServingError as error:
        return error.http_status, json_responses.error(error.message)
    except Exception as error:  # ours: the caller learns that it was not his fault, the log where it was
        logging.exception("%s %s failed", method, path)
        return 500, json_responses.error(f"{type(error).__name__}: {error}")


def _route(catalog, method, path, body, call):
    pattern = {"POST": _POST, "GET": _GET}.get(method)
    match = pattern.fullmatch(path) if pattern else None
    if not match:
        raise invalid(f"Malformed request: {method} {path}")
    spec = _spec(*match.groups()[:3])
    what = (match[4] or "status").lower()
    if method == "POST":
        document = json_requests.parse(body)
        spec.signature_name = document.get("signature_name", "")
        return _PREDICTION[what](catalog, spec, document, call)
    if not spec.name:
        raise invalid("Missing model name in request.")
    return _DESCRIPTION[what](catalog, spec)


def _spec(name, number, label):
    """Returns the ModelSpec that a path names."""
    spec = model_pb2.ModelSpec(name=urllib.parse.unquote(name or ""))
    if number:
        if int(number) >= 2**63:
            raise invalid(f"Failed to convert version: {number} to numeric.")
        spec.version.value = int(number)
    if label:
        spec.version_label = urllib.parse.unquote(label)
    return spec


def _predict(catalog, spec, document, call):
    with catalog.lease(spec) as version:
        name = spec.signature_name or DEFAULT_SIGNATURE
        signature = version.model.signatures.get(name)
        if signature is None:
            raise invalid(f'Serving signature name: "{name}" not found in signature def')
        if not signature.inputs:
            raise invalid(f"Failed to get input map for signature: {spec.signature_name or 'DEFAULT'}")
        inputs, row = json_requests.predict_inputs(document, signature)
        return json_responses.predictions(run(version, signature, inputs, call=call), signature, row)


def _classify(catalog, spec, document, call):
    request = classification_pb2.ClassificationRequest(model_spec=spec)
    json_requests.fill_examples(document, request.input)
    with catalog.lease(spec) as version:
        return json_responses.classifications(classify(version, request, call).result)


def _regress(catalog, spec, document, call):
    request = regression_pb2.RegressionRequest(model_spec=spec)
    json_requests.fill_examples(document, request.input)
    with catalog.lease(spec) as version:
        return json_responses.regressions(regress(version, request, call).result)


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
