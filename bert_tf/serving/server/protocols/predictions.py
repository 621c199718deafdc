"""Predictions for rows of any model in TensorFlow Serving's JSON, as SageMaker's and Vertex AI's containers return."""

from typing import Any

from bert_tf.serving.server import json_requests, json_responses
from bert_tf.serving.server.predict import run_predict
from bert_tf.serving.server.protocols.adapter import AdapterRequest
from bert_tf.serving.server.protocols.served_tasks import leased_model
from bert_tf.serving.server.rest_targets import find_signature


def predict_rows(request: AdapterRequest, document: dict[str, Any], name: str | None = None) -> str:
    """Returns `predictions` or `outputs` for `instances` or `inputs`, as TensorFlow Serving does.

    Args:
        request: the request.
        document: the JSON object of such a request.
        name: the model; if None, the only one.
    """
    with leased_model(request, name) as version:
        signature = find_signature(version, document.get("signature_name"))
        inputs, is_rows = json_requests.predict_inputs(document, signature, request.call.limits)
        outputs = run_predict(version, signature, inputs, call=request.call)
        return json_responses.predictions(outputs, signature, is_rows)
