"""Requests to the model `Film` over gRPC and REST, and what it answers."""

import base64
import json
import urllib.error
import urllib.request

import grpc
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2

from tests.serving.models import example

Code = grpc.StatusCode
MODEL = "/v1/models/film"
GOOD = {"label": "good", "labels": ["bad", "good"], "probabilities": [0.25, 0.75]}
BAD = {"label": "bad", "labels": ["bad", "good"], "probabilities": [0.75, 0.25]}


def predict_request(signature="", **inputs):
    request = predict_pb2.PredictRequest()
    fill_spec(request.model_spec, signature=signature)
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(value if isinstance(value, tensor_pb2.TensorProto) else proto(value))
    return request


def examples_request(kind, signature, texts, **spec):
    request = kind()
    fill_spec(request.model_spec, signature=signature, **spec)
    request.input.example_list.examples.extend(example(text) for text in texts)
    return request


def fill_spec(model_spec, name="film", version=None, label="", signature=""):
    model_spec.name, model_spec.signature_name = name, signature
    if version is not None:
        model_spec.version.value = version
    if label:
        model_spec.version_label = label


def proto(value, dtype=None):
    return tf.make_tensor_proto(value, dtype)


def b64(data: bytes):
    return {"b64": base64.b64encode(data).decode()}


def check(call, request, code, message):
    """The call fails with exactly that; a message of "..." stands for words of the graph's own."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request)
    assert caught.value.code() == code
    if message == "...":
        assert caught.value.details()
    else:
        assert caught.value.details() == message


def send(server, path, body=None, method=None, **headers):
    """Sends a body, bytes or a JSON value, to a server's REST port; returns (HTTP status, JSON or "")."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://localhost:{server.rest_port}{path}", data, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            status, text = response.status, response.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
    return status, json.loads(text) if text else ""
