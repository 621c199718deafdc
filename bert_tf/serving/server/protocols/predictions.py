"""Predictions for rows of any model in TensorFlow Serving's JSON, as SageMaker's and Vertex AI's containers return."""

from typing import Any

from bert_tf.serving.errors import invalid
from bert_tf.serving.server import json_requests, json_responses
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE, check_method, run_predict
from bert_tf.serving.server.protocols.adapter import AdapterRequest
from bert_tf.serving.server.protocols.served_tasks import leased


def find_signature(version, name: str):
    """Returns a signature that Predict may run; raises ServingError if the model has none of this name."""
    signature = version.model.signatures.get(name)
    if signature is None:
        raise invalid(f'Serving signature name: "{name}" not found in signature def')
    check_method(signature)
    if not signature.inputs:
        raise invalid(f'The signature "{name}" has no inputs')
    return signature


def predict_rows(request: AdapterRequest, document: dict[str, Any], name: str | None = None) -> str:
    """Returns `predictions` or `outputs` for `instances` or `inputs`, as TensorFlow Serving does.

    Args:
        request: the request.
        document: the JSON object of such a request.
        name: the model; if None, the only one.
    """
    with leased(request, name=name) as (version, _):
        signature = find_signature(version, document.get("signature_name") or DEFAULT_SIGNATURE)
        inputs, is_rows = json_requests.predict_inputs(document, signature, request.call.limits)
        outputs = run_predict(version, signature, inputs, call=request.call)
        return json_responses.predictions(outputs, signature, is_rows)
