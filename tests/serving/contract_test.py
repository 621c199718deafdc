"""TensorFlow Serving's contract as one table: what is wrong with a request, the code and the words that it gets.

The rows are asked of our server or, with BERT_TF_MODEL_SERVER=/path/to/tensorflow_model_server, of the real one
(`make test-serving`). Where words are a parser's or a graph's own, the real server is held to the code alone.
"""


import numpy as np
import pytest
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.serving.grpc_test import Code, check, examples_request, predict_request, proto
from tests.serving.rest_test import MODEL


def _spec(name="film", version=None, label=None, signature="", **inputs):
    request = predict_request(signature, **(inputs or {"text": ["x"]}))
    request.model_spec.name = name
    if version is not None:
        request.model_spec.version.value = version
    if label:
        request.model_spec.version_label = label
    return request


def _filtered(*aliases):
    request = _spec()
    request.output_filter.extend(aliases)
    return request


_BROKEN = proto([1.0, 2.0, 3.0])
_BROKEN.tensor_content = b"123"
_SCALE = np.ones([1], np.int32)

PREDICTS = {
    "no spec": (predict_pb2.PredictRequest(), Code.INVALID_ARGUMENT, "Missing ModelSpec"),
    "no name": (_spec(name=""), Code.INVALID_ARGUMENT, "ModelSpec has no name specified."),
    "model": (_spec(name="no"), Code.NOT_FOUND, "Servable not found for request: Latest(no)"),
    "model's version": (_spec("no", 1), Code.NOT_FOUND, "Servable not found for request: Specific(no, 1)"),
    "version": (_spec(version=7), Code.NOT_FOUND, "Servable not found for request: Specific(film, 7)"),
    "label": (_spec(label="stable"), Code.INVALID_ARGUMENT, "Unrecognized servable version label: stable"),
    "signature": (_spec(signature="q"), Code.FAILED_PRECONDITION, 'Serving signature key "q" not found.'),
    "extra input": (
        _spec(text=["x"], q=["x"]),
        Code.INVALID_ARGUMENT,
        "input size does not match signature: 2!=1 len({q,text}) != len({text}). Sent extra: {q}. "
        "Missing but required: {}.",
    ),
    "missing input": (
        _spec(signature="pair", text_a=["x"]),
        Code.INVALID_ARGUMENT,
        "input size does not match signature: 1!=2 len({text_a}) != len({text_a,text_b}). Sent extra: {}. "
        "Missing but required: {text_b}.",
    ),
    "name of input": (
        _spec(txet=["x"]),
        Code.INVALID_ARGUMENT,
        "Signature input alias: text(feed name: serving_default_text:0) not found in request and no default value "
        "provided. Inputs expected to be in the request {txet}, or default input alias set: ",
    ),
    "tensor": (_spec(text=_BROKEN), Code.INVALID_ARGUMENT, "tensor parsing error: text"),
    "dtype": (_spec(text=[1.0]), Code.INVALID_ARGUMENT, "Expects arg[0] to be string but float is provided"),
    "dtype of the second": (
        _spec(signature="numbers", x=np.ones([1, 3]), scale=_SCALE),
        Code.INVALID_ARGUMENT,
        "Expects arg[1] to be float but double is provided",
    ),
    "shape": (_spec(text=[["x"], ["y"]]), Code.INVALID_ARGUMENT, "..."),
    "batch sizes": (
        _spec(signature="numbers", x=np.ones([3, 3], np.float32), scale=np.ones([2], np.int32)),
        Code.INVALID_ARGUMENT,
        "...",
    ),
    "filter": (
        _filtered("q"),
        Code.INVALID_ARGUMENT,
        "output tensor alias not found in signature: q Outputs expected to be in the set {label,labels,probabilities}.",
    ),
    "filter twice": (
        _filtered("label", "label"),
        Code.INVALID_ARGUMENT,
        "duplicate output tensor alias: label",
    ),
}


def _examples(kind, signature, *texts):
    return examples_request(kind, signature, texts)


def _about(kind, name=None, version=None, **fields):
    """A request of that kind for a model's metadata or status; None has no ModelSpec."""
    request = kind(**fields)
    if name is not None:
        request.model_spec.name = name
    if version is not None:
        request.model_spec.version.value = version
    return request


def _inference(method):
    request = inference_pb2.MultiInferenceRequest()
    request.input.example_list.examples.add()
    task = request.tasks.add(method_name=method)
    task.model_spec.name, task.model_spec.signature_name = "film", "echo"
    return request


_CLASSES, _VALUES = classification_pb2.ClassificationRequest, regression_pb2.RegressionRequest
_METADATA, _STATUS = get_model_metadata_pb2.GetModelMetadataRequest, get_model_status_pb2.GetModelStatusRequest
_NO_SIGNATURE = "No signature was found with the name: q"
# what: (method, request, code, message); "..." stands for words that nobody promises
OTHERS = {
    "classify without spec": ("Classify", _CLASSES(), Code.INVALID_ARGUMENT, "Missing ModelSpec"),
    "regress without spec": ("Regress", _VALUES(), Code.INVALID_ARGUMENT, "Missing ModelSpec"),
    "classify nothing": ("Classify", _examples(_CLASSES, "classify"), Code.INVALID_ARGUMENT, "Input is empty."),
    "regress nothing": ("Regress", _examples(_VALUES, "regress"), Code.INVALID_ARGUMENT, "Input is empty."),
    "classify's signature": ("Classify", _examples(_CLASSES, "q", "x"), Code.INVALID_ARGUMENT, _NO_SIGNATURE),
    "regress's signature": ("Regress", _examples(_VALUES, "q", "x"), Code.INVALID_ARGUMENT, _NO_SIGNATURE),
    "classify two inputs": (
        "Classify", _examples(_CLASSES, "pair", "x"), Code.INVALID_ARGUMENT, "Expected one input Tensor.",
    ),
    "regress two inputs": (
        "Regress", _examples(_VALUES, "pair", "x"), Code.INVALID_ARGUMENT, "Expected one input Tensor.",
    ),
    "classify three outputs": (
        "Classify", _examples(_CLASSES, "", "x"), Code.INVALID_ARGUMENT,
        "Expected one or two output Tensors, found 3",
    ),
    "regress three outputs": (
        "Regress", _examples(_VALUES, "", "x"), Code.INVALID_ARGUMENT, "Expected one output Tensor.",
    ),
    "regress another input": ("Regress", _examples(_VALUES, "echo", "x"), Code.INVALID_ARGUMENT, "..."),
    "classify another input": ("Classify", _examples(_CLASSES, "echo", "x"), Code.INVALID_ARGUMENT, "..."),
    "inference of another kind": ("MultiInference", _inference("foo"), Code.UNIMPLEMENTED, "..."),
    "metadata without spec": ("GetModelMetadata", _about(_METADATA), Code.INVALID_ARGUMENT, "Missing ModelSpec"),
    "metadata of nothing": (
        "GetModelMetadata", _about(_METADATA, "film"), Code.INVALID_ARGUMENT,
        "GetModelMetadataRequest must specify at least one metadata_field",
    ),
    "metadata of another kind": (
        "GetModelMetadata", _about(_METADATA, "film", metadata_field=["foo"]), Code.INVALID_ARGUMENT,
        "Metadata field foo is not supported",
    ),
    "metadata of no model": (
        "GetModelMetadata", _about(_METADATA, "no", metadata_field=["signature_def"]), Code.NOT_FOUND,
        "Servable not found for request: Latest(no)",
    ),
    "status without spec": ("GetModelStatus", _about(_STATUS), Code.INVALID_ARGUMENT, "Missing ModelSpec"),
    "status of no model": (
        "GetModelStatus", _about(_STATUS, "foo"), Code.NOT_FOUND, "Could not find any versions of model foo",
    ),
    "status of no version": (
        "GetModelStatus", _about(_STATUS, "film", 9), Code.NOT_FOUND, "Could not find version 9 of model film",
    ),
}  # fmt: skip


_BOTH = {"instances": ["x"], "inputs": ["x"]}
_ROW = "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
_NUMBERS = {"signature_name": "numbers"}
REST = {
    "model": ("/v1/models/no:predict", {"instances": ["x"]}, 404, "Servable not found for request: Latest(no)"),
    "version": (
        f"{MODEL}/versions/7:predict",
        {"instances": ["x"]},
        404,
        "Servable not found for request: Specific(film, 7)",
    ),
    "huge version": (
        f"{MODEL}/versions/99999999999999999999:predict",
        {"instances": ["x"]},
        400,
        "Failed to convert version: 99999999999999999999 to numeric.",
    ),
    "label": (f"{MODEL}/labels/a%20b:predict", {"instances": ["x"]}, 400, "Unrecognized servable version label: a b"),
    "signature": (
        f"{MODEL}:predict",
        {"signature_name": "q", "instances": ["x"]},
        400,
        'Serving signature name: "q" not found in signature def',
    ),
    "signature's type": (
        f"{MODEL}:predict",
        {"signature_name": 1},
        400,
        'JSON Value: {\n    "signature_name": 1\n} not formatted correctly. '
        "'signature_name' key must be a string value.",
    ),
    "verb": (f"{MODEL}:explain", {}, 400, f"Malformed request: POST {MODEL}:explain"),
    "no verb": (MODEL, {}, 400, f"Malformed request: POST {MODEL}"),
    "no body": (f"{MODEL}:predict", b"", 400, "JSON Parse error: The document is empty"),
    "no JSON": (
        f"{MODEL}:predict",
        b"{x",
        400,
        "JSON Parse error: Expecting property name enclosed in double quotes at offset: 1",
    ),
    "no object": (f"{MODEL}:predict", [1], 400, "JSON Value: [1] Is not object"),
    "no inputs": (f"{MODEL}:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
    "both": (
        f"{MODEL}:predict",
        _BOTH,
        400,
        'JSON Value: {\n    "instances": ["x"],\n    "inputs": ["x"]\n} Not formatted correctly expecting only one of '
        "'inputs' or 'instances' keys to exist ",
    ),
    "no rows": (
        f"{MODEL}:predict",
        {"instances": []},
        400,
        "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array",
    ),
    "dtype": (
        f"{MODEL}:predict",
        {"instances": ["x", 7]},
        400,
        f"{_ROW}JSON Value: 7 Type: Number is not of expected type: string",
    ),
    "ragged": (
        f"{MODEL}:predict",
        {**_NUMBERS, "instances": [{"x": [1, 2, 3], "scale": 1}, {"x": [1, 2], "scale": 1}]},
        400,
        "Failed to process element: 1 key: x of 'instances' list. Error: INVALID_ARGUMENT: Expecting tensor size: 3 "
        "but got: 2",
    ),
    "uneven": (
        f"{MODEL}:predict",
        {**_NUMBERS, "inputs": {"x": [[1, 2, 3], [1, 2]], "scale": [1]}},
        400,
        "Encountered list at unexpected size: 2 at level: 1 expected size: 3",
    ),
    "depth": (
        f"{MODEL}:predict",
        {**_NUMBERS, "inputs": {"x": [[1, 2, 3], 4], "scale": [1]}},
        400,
        "JSON Value: 4 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
    ),
    "input's name": (
        f"{MODEL}:predict",
        {"instances": [{"txet": "x"}]},
        400,
        "Failed to process element: 0 key: txet of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not "
        "have named input: txet",
    ),
    "missing input": (
        f"{MODEL}:predict",
        {**_NUMBERS, "inputs": {"x": [[1, 2, 3]]}},
        400,
        "Missing named input: scale in 'inputs' object.",
    ),
    "plain rows": (
        f"{MODEL}:predict",
        {**_NUMBERS, "instances": [[1, 2, 3]]},
        400,
        "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
        "tensorinfo_map",
    ),
    "int32": (
        f"{MODEL}:predict",
        {**_NUMBERS, "inputs": {"x": [[1, 2, 3]], "scale": [2**31]}},
        400,
        "JSON Value: 2147483648 Type: Number is not of expected type: int32",
    ),
    "list for rows": (
        f"{MODEL}:predict",
        {"instances": "x"},
        400,
        "JSON Value: {\n    \"instances\": \"x\"\n} Expecting 'instances' to be an list/array",
    ),
    "two of a key": (
        f"{MODEL}:predict", b'{"instances": [{"text": "x", "text": "y"}]}', 400, "tensor parsing error: text"
    ),
    "too big": (
        f"{MODEL}:predict", b'{"signature_name": "numbers", "inputs": {"x": [[1e999, 1, 1]], "scale": [1]}}', 400,
        "JSON Parse error: Number too big to be stored in double.",
    ),
    "uint64": (
        f"{MODEL}:classify",
        {"examples": [{"text": 2**63}]},
        400,
        "Feature: text has uint64_t element. Only int64_t is supported.",
    ),
    "base64": (f"{MODEL}:predict", {"inputs": [{"b64": "?"}]}, 400, "Unable to base64 decode"),
    "no examples": (
        f"{MODEL}:classify",
        {},
        400,
        "JSON Value: {} When method is classify, key 'examples' is expected and was not found",
    ),
    "empty examples": (
        f"{MODEL}:classify",
        {"examples": []},
        400,
        "JSON Value: {\n    \"examples\": []\n} 'examples' value is an empty array",
    ),
    "example": (f"{MODEL}:classify", {"examples": [7]}, 400, "Example must be JSON object but got JSON Number"),
    "feature": (
        f"{MODEL}:classify",
        {"examples": [{"text": ["x", 1.5]}]},
        400,
        "Unexpected element type in feature: text expecting type: bytes",
    ),
    "signature to classify": (
        f"{MODEL}:classify",
        {"signature_name": "q", "examples": [{"text": "x"}]},
        400,
        "No signature was found with the name: q",
    ),
    "status": ("/v1/models/no", None, 404, "Could not find any versions of model no"),
    "status of a version": (f"{MODEL}/versions/9", None, 404, "Could not find version 9 of model film"),
    "no name": ("/v1/models", None, 400, "Missing model name in request."),
    "path": ("/v1/foo", None, 400, "Malformed request: GET /v1/foo"),
    "metadata": ("/v1/models/no/metadata", None, 404, "Servable not found for request: Latest(no)"),
    "status of a huge version": (
        f"{MODEL}/versions/{2**63}",
        None,
        400,
        f"Failed to convert version: {2**63} to numeric.",
    ),
    "method": (MODEL, b"", 400, f"Malformed request: POST {MODEL}"),
    "filter of nothing": ("/v1/models/film:predict", None, 400, "Malformed request: GET /v1/models/film:predict"),
}


# Rows whose words are those of a parser or a graph, or tell the machine's own types.
VARIES = {"dtype", "dtype of the second", "shape", "batch sizes", "no JSON", "no body", "too big", "filter of nothing"}


@pytest.mark.parametrize("fault", PREDICTS)
def test_predict(stubs, model_server, fault):
    request, code, message = PREDICTS[fault]
    check(stubs[0].Predict, request, code, "..." if model_server.real and fault in VARIES else message)


@pytest.mark.parametrize("fault", OTHERS)
def test_other_methods(stubs, fault):
    method, request, code, message = OTHERS[fault]
    check(getattr(stubs[method == "GetModelStatus"], method), request, code, message)


@pytest.mark.parametrize("fault", REST)
def test_rest(rest, model_server, fault):
    path, body, status, message = REST[fault]
    found, answer = rest(path, body)
    assert (found, list(answer)) == (status, ["error"])
    if not (model_server.real and fault in VARIES):
        assert answer["error"] == message
