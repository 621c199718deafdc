"""TensorFlow Serving's contract as tables: what is asked over gRPC and REST, and the answer or the words that it gets.

The rows are asked of our server or, with BERT_TF_MODEL_SERVER=/path/to/tensorflow_model_server, of the real one
(`make test-serving`). Where words are a parser's or a graph's own, the real server is held to the code alone.
"""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from bert_tf.serving.server.json_responses import decimal
from tests.serving.models import example
from tests.serving.requests import (
    BAD,
    GOOD,
    MODEL,
    Code,
    b64,
    check,
    examples_request,
    fill_spec,
    predict_request,
    proto,
)

_CLASSES, _VALUES = classification_pb2.ClassificationRequest, regression_pb2.RegressionRequest
_METADATA, _STATUS = get_model_metadata_pb2.GetModelMetadataRequest, get_model_status_pb2.GetModelStatusRequest

# === Answers ===

_TYPES = {"x": tf.float32, "scale": tf.int32}
_BOTH_TEXTS = {"label": ["good", "bad"], "labels": [["bad", "good"]] * 2, "probabilities": [[0.25, 0.75], [0.75, 0.25]]}
# what: (signature, inputs, outputs)
PREDICTED = {
    "texts": ("", {"text": ["a fine film", "dull"]}, _BOTH_TEXTS),
    "pairs": ("pair", {"text_a": ["a", "b"], "text_b": ["fine", "x"]}, _BOTH_TEXTS),
    "numbers": ("numbers", {"x": [[1, 2.5, 1e9]], "scale": [2]}, {"total": [2], "y": [[2.0, 5.0, 2e9]]}),
    "bytes": ("echo", {"image_bytes": [b"\xff\x00"]}, {"image_bytes": [b"\xff\x00"]}),
}


def _json(values):
    """Returns the values of an input or output as JSON has them."""
    return [b64(value) if isinstance(value, bytes) else value for value in values]


def _over_grpc(stubs, rest, signature, inputs, outputs):
    protos = {name: proto(value, _TYPES.get(name)) for name, value in inputs.items()}
    answer = stubs[0].Predict(predict_request(signature, **protos)).outputs
    assert {name: tf.make_ndarray(tensor).tolist() for name, tensor in answer.items()} == _encoded(outputs)


def _encoded(value):
    """Returns the value with bytes for strings, as gRPC has them."""
    if isinstance(value, dict):
        return {name: _encoded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [*map(_encoded, value)]
    return value.encode() if isinstance(value, str) else value


def _in_columns(stubs, rest, signature, inputs, outputs):
    body = {"signature_name": signature, "inputs": {name: _json(value) for name, value in inputs.items()}}
    wanted = {name: _json(value) for name, value in outputs.items()}
    assert rest(f"{MODEL}:predict", body) == (200, {"outputs": _alone(wanted)})


def _in_rows(stubs, rest, signature, inputs, outputs):
    inputs, outputs = ({name: _json(value) for name, value in side.items()} for side in (inputs, outputs))
    instances, wanted = ([dict(zip(side, row, strict=True)) for row in zip(*side.values(), strict=True)]
                         for side in (inputs, outputs))  # fmt: skip
    body = {"signature_name": signature, "instances": instances}
    assert rest(f"{MODEL}:predict", body) == (200, {"predictions": [*map(_alone, wanted)]})


def _alone(outputs):
    """Of a single output REST leaves out the name."""
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


@pytest.mark.parametrize("ask", [_over_grpc, _in_columns, _in_rows])
@pytest.mark.parametrize("what", PREDICTED)
def test_predict(stubs, rest, ask, what):
    ask(stubs, rest, *PREDICTED[what])


_LABELS = [[["bad", 0.25], ["good", 0.75]], [["bad", 0.75], ["good", 0.25]]]
# what: (method, texts of the examples, of their context, answer)
EXAMPLES = {
    "classes": ("Classify", ["fine", "x"], None, _LABELS),
    "classes in a context": ("Classify", [None, "x"], "fine", _LABELS),
    "values": ("Regress", ["fine", "x"], None, [0.75, 0.25]),
    "values in a context": ("Regress", [None, "dull"], "fine", [0.75, 0.25]),
}


@pytest.mark.parametrize("what", EXAMPLES)
def test_examples(stubs, rest, what):
    method, texts, context, expected = EXAMPLES[what]
    request = examples_request(_CLASSES if method == "Classify" else _VALUES, method.lower(), [])
    target = request.input.example_list
    if context:
        target = request.input.example_list_with_context
        target.context.CopyFrom(example(context))
    target.examples.extend(example(text) if text else tf.train.Example() for text in texts)
    result = getattr(stubs[0], method)(request).result
    if method == "Classify":
        found = [[[item.label, item.score] for item in row.classes] for row in result.classifications]
    else:
        found = [row.value for row in result.regressions]
    assert found == expected
    body = {"signature_name": method.lower(), "examples": [{"text": text} if text else {} for text in texts]}
    body |= {"context": {"text": [context]}} if context else {}
    assert rest(f"{MODEL}:{method.lower()}", body) == (200, {"results": expected})


# Other ways to write a request over REST: (path, body, answer)
FORMS = {
    "rows without a name": (":predict", {"instances": ["fine", "x"]}, {"predictions": [GOOD, BAD]}),
    "rows in base64": (":predict", {"instances": [b64(b"fine"), "x"]}, {"predictions": [GOOD, BAD]}),
    "a column without a name": (":predict", {"inputs": ["fine"]}, {"outputs": {name: [GOOD[name]] for name in GOOD}}),
    "a version": ("/versions/3:predict", {"instances": ["x"]}, {"predictions": [BAD]}),
    "capitals": (":PREDICT", {"instances": ["x"]}, {"predictions": [BAD]}),
    "an example in base64": (
        ":regress", {"signature_name": "regress", "examples": [{"text": b64(b"x")}]}, {"results": [0.25]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FORMS)
def test_forms_of_rest(rest, what):
    path, body, answer = FORMS[what]
    assert rest(MODEL + path, body) == (200, answer)


def test_predict_answers_in_typed_fields(stubs):
    response = stubs[0].Predict(predict_request(text=["a fine film", "dull"]))
    assert (response.model_spec.name, response.model_spec.version.value) == ("film", 3)
    assert response.model_spec.signature_name == "serving_default"
    assert list(response.outputs["label"].string_val) == [b"good", b"bad"]
    assert list(response.outputs["probabilities"].float_val) == [0.25, 0.75, 0.75, 0.25]
    assert [dim.size for dim in response.outputs["labels"].tensor_shape.dim] == [2, 2]


def test_predict_takes_a_version_and_a_filter(stubs):
    request = predict_request("numbers", x=np.ones([2, 3], np.float32), scale=np.array([2, 2**31 - 1], np.int32))
    request.model_spec.version.value = 3
    request.output_filter.append("total")
    response = stubs[0].Predict(request)
    assert list(response.outputs) == ["total"]
    assert list(response.outputs["total"].int64_val) == [2, 2**31 - 1]


def test_an_empty_batch_of_text_gives_an_empty_answer(stubs):
    response = stubs[0].Predict(predict_request(text=proto(np.zeros([0], object), tf.string)))
    assert tf.make_ndarray(response.outputs["probabilities"]).shape == (0, 2)


def test_status_and_metadata(stubs, rest):
    request = _METADATA(metadata_field=["signature_def"], model_spec={"name": "film"})
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert stubs[0].GetModelMetadata(request).metadata["signature_def"].Unpack(signatures)
    assert signatures.signature_def["classify"].method_name == "tensorflow/serving/classify"
    assert set(signatures.signature_def["pair"].inputs) == {"text_a", "text_b"}
    (status,) = stubs[1].GetModelStatus(_STATUS(model_spec={"name": "film"})).model_version_status
    assert (status.version, status.state) == (3, get_model_status_pb2.ModelVersionStatus.AVAILABLE)
    assert status.status.error_code == 0
    entry = {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for path in (MODEL, f"{MODEL}/versions/3", f"{MODEL}/labels/any", f"{MODEL}?verbose=1"):
        assert rest(path) == (200, {"model_version_status": [entry]})
    status, answer = rest(f"{MODEL}/metadata")
    assert status == 200 and answer["model_spec"] == {"name": "film", "signature_name": "", "version": "3"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["text"]["dtype"] == "DT_STRING"
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert signature["inputs"]["text"]["tensor_shape"] == shape
    assert signature["method_name"] == "tensorflow/serving/predict" and signature["defaults"] == {}


def test_sixteen_mebibytes_pass_both_ways(model_server):
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"localhost:{model_server.port}", options=unlimited) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.Predict(predict_request("echo", image_bytes=[b"\xff" * 2**22] * 4))
    assert list(response.outputs["image_bytes"].string_val) == [b"\xff" * 2**22] * 4


@pytest.mark.parametrize(
    "number, kind, text",
    [
        (0.2, np.float32, "0.2"),
        (1 / 3, np.float32, "0.333333343"),
        (1 / 3, np.float64, "0.33333333333333331"),
        (9e6, np.float32, "9e+06"),
        (100, np.float32, "100.0"),
        (-0.0, np.float32, "-0.0"),
        (np.nan, np.float32, "NaN"),
        (-np.inf, np.float64, "-Infinity"),
    ],
)
def test_decimals(number, kind, text):
    assert decimal(float(kind(number)), kind) == text


# === Refusals ===

_HTTP = {Code.INVALID_ARGUMENT: 400, Code.NOT_FOUND: 404}
# What is wrong with the model that is named, by any method: (ModelSpec, path, code, message)
SPECS = {
    "model": ({"name": "no"}, "no", Code.NOT_FOUND, "Servable not found for request: Latest(no)"),
    "model's version": (
        {"name": "no", "version": 1}, "no/versions/1", Code.NOT_FOUND,
        "Servable not found for request: Specific(no, 1)",
    ),
    "version": ({"version": 7}, "film/versions/7", Code.NOT_FOUND, "Servable not found for request: Specific(film, 7)"),
    "label": (
        {"label": "a b"}, "film/labels/a%20b", Code.INVALID_ARGUMENT, "Unrecognized servable version label: a b",
    ),
    "long name": (
        {"name": "n" * 2000}, "n" * 2000, Code.NOT_FOUND,
        f"Servable not found for request: Latest({'n' * 2000})"[:1024] + "...TRUNCATED",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", SPECS)
@pytest.mark.parametrize("method", ["Predict", "Classify", "Regress"])
def test_models_that_are_not_there(stubs, rest, method, fault):
    spec, path, code, message = SPECS[fault]
    if method == "Predict":
        request = predict_request(text=["x"])
        fill_spec(request.model_spec, **spec)
    else:
        request = examples_request(_CLASSES if method == "Classify" else _VALUES, "", ["x"], **spec)
    check(getattr(stubs[0], method), request, code, message)
    body = {"instances": ["x"]} if method == "Predict" else {"examples": [{"text": "x"}]}
    status, answer = rest(f"/v1/models/{path}:{method.lower()}", body)
    assert status == _HTTP[code] and answer["error"].startswith(message.removesuffix("...TRUNCATED"))


def _filtered(*aliases):
    request = predict_request(text=["x"])
    request.output_filter.extend(aliases)
    return request


def _about(kind, version=None, name="film", **fields):
    """A request of that kind for a model's metadata or status."""
    request = kind(**fields)
    fill_spec(request.model_spec, name, version)
    return request


def _inference(method):
    request = inference_pb2.MultiInferenceRequest()
    request.input.example_list.examples.add()
    fill_spec(request.tasks.add(method_name=method).model_spec, signature="echo")
    return request


def _without_feature(kind, signature):
    request = examples_request(kind, signature, [])
    request.input.example_list.examples.add()
    return request


_BROKEN = proto([1.0, 2.0, 3.0])
_BROKEN.tensor_content = b"123"
_ONE = np.ones([1], np.int32)
_NO_SIGNATURE = "No signature was found with the name: q"
# what: (method, request, message), refused as INVALID_ARGUMENT; "..." stands for words that nobody promises
GRPC = {
    "no spec": ("Predict", predict_pb2.PredictRequest(), "Missing ModelSpec"),
    "no name": ("Predict", predict_pb2.PredictRequest(model_spec={"name": ""}), "ModelSpec has no name specified."),
    "extra input": (
        "Predict", predict_request(text=["x"], q=["x"]),
        "input size does not match signature: 2!=1 len({q,text}) != len({text}). Sent extra: {q}. "
        "Missing but required: {}.",
    ),
    "missing input": (
        "Predict", predict_request("pair", text_a=["x"]),
        "input size does not match signature: 1!=2 len({text_a}) != len({text_a,text_b}). Sent extra: {}. "
        "Missing but required: {text_b}.",
    ),
    "name of input": (
        "Predict", predict_request(txet=["x"]),
        "Signature input alias: text(feed name: serving_default_text:0) not found in request and no default value "
        "provided. Inputs expected to be in the request {txet}, or default input alias set: ",
    ),
    "tensor": ("Predict", predict_request(text=_BROKEN), "tensor parsing error: text"),
    "dtype": ("Predict", predict_request(text=[1.0]), "Expects arg[0] to be string but float is provided"),
    "dtype of the second": (
        "Predict", predict_request("numbers", x=np.ones([1, 3]), scale=_ONE),
        "Expects arg[1] to be float but double is provided",
    ),
    "shape": ("Predict", predict_request(text=[["x"], ["y"]]), "..."),
    "batch sizes": (
        "Predict", predict_request("numbers", x=np.ones([3, 3], np.float32), scale=np.repeat(_ONE, 2)), "...",
    ),
    "filter": (
        "Predict", _filtered("q"),
        "output tensor alias not found in signature: q Outputs expected to be in the set {label,labels,probabilities}.",
    ),
    "filter twice": ("Predict", _filtered("label", "label"), "duplicate output tensor alias: label"),
    "classify without spec": ("Classify", _CLASSES(), "Missing ModelSpec"),
    "regress without spec": ("Regress", _VALUES(), "Missing ModelSpec"),
    "classify nothing": ("Classify", examples_request(_CLASSES, "classify", []), "Input is empty."),
    "regress nothing": ("Regress", examples_request(_VALUES, "regress", []), "Input is empty."),
    "classify's signature": ("Classify", examples_request(_CLASSES, "q", ["x"]), _NO_SIGNATURE),
    "regress's signature": ("Regress", examples_request(_VALUES, "q", ["x"]), _NO_SIGNATURE),
    "classify two inputs": ("Classify", examples_request(_CLASSES, "pair", ["x"]), "Expected one input Tensor."),
    "regress two inputs": ("Regress", examples_request(_VALUES, "pair", ["x"]), "Expected one input Tensor."),
    "classify three outputs": (
        "Classify", examples_request(_CLASSES, "", ["x"]), "Expected one or two output Tensors, found 3",
    ),
    "regress three outputs": ("Regress", examples_request(_VALUES, "", ["x"]), "Expected one output Tensor."),
    "regress another input": ("Regress", examples_request(_VALUES, "echo", ["x"]), "..."),
    "classify another input": ("Classify", examples_request(_CLASSES, "echo", ["x"]), "..."),
    "classify without the feature": ("Classify", _without_feature(_CLASSES, "classify"), "..."),
    "regress without the feature": ("Regress", _without_feature(_VALUES, "regress"), "..."),
    "inference of nothing": (
        "MultiInference", inference_pb2.MultiInferenceRequest(), "ModelSpec has no name specified.",
    ),
    "metadata without spec": ("GetModelMetadata", _METADATA(), "Missing ModelSpec"),
    "metadata of nothing": (
        "GetModelMetadata", _about(_METADATA), "GetModelMetadataRequest must specify at least one metadata_field",
    ),
    "metadata of another kind": (
        "GetModelMetadata", _about(_METADATA, metadata_field=["foo"]), "Metadata field foo is not supported",
    ),
    "status without spec": ("GetModelStatus", _STATUS(), "Missing ModelSpec"),
}  # fmt: skip
# what: (method, request, code, message)
OTHER_CODES = {
    "signature": (
        "Predict", predict_request("q", text=["x"]), Code.FAILED_PRECONDITION, 'Serving signature key "q" not found.',
    ),
    "inference of another kind": ("MultiInference", _inference("foo"), Code.UNIMPLEMENTED, "..."),
    "metadata of no model": (
        "GetModelMetadata", _about(_METADATA, name="no", metadata_field=["signature_def"]), Code.NOT_FOUND,
        "Servable not found for request: Latest(no)",
    ),
    "status of no model": (
        "GetModelStatus", _about(_STATUS, name="foo"), Code.NOT_FOUND, "Could not find any versions of model foo",
    ),
    "status of no version": (
        "GetModelStatus", _about(_STATUS, 9), Code.NOT_FOUND, "Could not find version 9 of model film",
    ),
}  # fmt: skip
# Rows whose words are those of a parser or a graph, or tell the machine's own types.
VARIES = {"dtype", "dtype of the second", "shape", "batch sizes", "no JSON", "no body", "too big", "get of a method"}


@pytest.mark.parametrize("fault", [*GRPC, *OTHER_CODES])
def test_grpc_refuses(stubs, model_server, fault):
    method, request, *code, message = (GRPC | OTHER_CODES)[fault]
    stub = stubs[method == "GetModelStatus"]
    words = "..." if model_server.real and fault in VARIES else message
    check(getattr(stub, method), request, *(code or [Code.INVALID_ARGUMENT]), words)


_ROW = "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
_NUMBERS = {"signature_name": "numbers"}
# what: (body, message) of requests to predict, refused with 400
BODIES = {
    "signature": (
        {"signature_name": "q", "instances": ["x"]}, 'Serving signature name: "q" not found in signature def',
    ),
    "signature's type": (
        {"signature_name": 1},
        'JSON Value: {\n    "signature_name": 1\n} not formatted correctly. '
        "'signature_name' key must be a string value.",
    ),
    "no body": (b"", "JSON Parse error: The document is empty"),
    "no JSON": (b"{x", "JSON Parse error: Expecting property name enclosed in double quotes at offset: 1"),
    "no object": ([1], "JSON Value: [1] Is not object"),
    "no inputs": ({}, "Missing 'inputs' or 'instances' key"),
    "both": (
        {"instances": ["x"], "inputs": ["x"]},
        'JSON Value: {\n    "instances": ["x"],\n    "inputs": ["x"]\n} Not formatted correctly expecting only one of '
        "'inputs' or 'instances' keys to exist ",
    ),
    "no rows": ({"instances": []}, "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array"),
    "dtype": ({"instances": ["x", 7]}, f"{_ROW}JSON Value: 7 Type: Number is not of expected type: string"),
    "ragged": (
        {**_NUMBERS, "instances": [{"x": [1, 2, 3], "scale": 1}, {"x": [1, 2], "scale": 1}]},
        "Failed to process element: 1 key: x of 'instances' list. Error: INVALID_ARGUMENT: Expecting tensor size: 3 "
        "but got: 2",
    ),
    "uneven": (
        {**_NUMBERS, "inputs": {"x": [[1, 2, 3], [1, 2]], "scale": [1]}},
        "Encountered list at unexpected size: 2 at level: 1 expected size: 3",
    ),
    "depth": (
        {**_NUMBERS, "inputs": {"x": [[1, 2, 3], 4], "scale": [1]}},
        "JSON Value: 4 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
    ),
    "input's name": (
        {"instances": [{"txet": "x"}]},
        "Failed to process element: 0 key: txet of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not "
        "have named input: txet",
    ),
    "missing input": (
        {**_NUMBERS, "inputs": {"x": [[1, 2, 3]]}}, "Missing named input: scale in 'inputs' object.",
    ),
    "plain rows": (
        {**_NUMBERS, "instances": [[1, 2, 3]]},
        "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
        "tensorinfo_map",
    ),
    "int32": (
        {**_NUMBERS, "inputs": {"x": [[1, 2, 3]], "scale": [2**31]}},
        "JSON Value: 2147483648 Type: Number is not of expected type: int32",
    ),
    "a graph's own refusal": ({**_NUMBERS, "inputs": {"x": [[1, 2, 3]], "scale": [[1, 2]]}}, "..."),
    "list for rows": (
        {"instances": "x"}, "JSON Value: {\n    \"instances\": \"x\"\n} Expecting 'instances' to be an list/array",
    ),
    "two of a key": (b'{"instances": [{"text": "x", "text": "y"}]}', "tensor parsing error: text"),
    "too big": (
        b'{"signature_name": "numbers", "inputs": {"x": [[1e999, 1, 1]], "scale": [1]}}',
        "JSON Parse error: Number too big to be stored in double.",
    ),
    "base64": ({"inputs": [{"b64": "?"}]}, "Unable to base64 decode"),
    "deep nesting": (b'{"instances":' + b"[" * 100000 + b"]" * 100000 + b"}", "..."),
}  # fmt: skip
# The same to classify.
EXAMPLE_BODIES = {
    "no examples": ({}, "JSON Value: {} When method is classify, key 'examples' is expected and was not found"),
    "empty examples": ({"examples": []}, "JSON Value: {\n    \"examples\": []\n} 'examples' value is an empty array"),
    "example": ({"examples": [7]}, "Example must be JSON object but got JSON Number"),
    "feature": (
        {"examples": [{"text": ["x", 1.5]}]}, "Unexpected element type in feature: text expecting type: bytes",
    ),
    "uint64": ({"examples": [{"text": 2**63}]}, "Feature: text has uint64_t element. Only int64_t is supported."),
    "signature to classify": ({"signature_name": "q", "examples": [{"text": "x"}]}, _NO_SIGNATURE),
}  # fmt: skip
# what: (path, body, status, message)
PATHS = {
    "huge version": (
        f"{MODEL}/versions/{'9' * 20}:predict", {"instances": ["x"]}, 400,
        f"Failed to convert version: {'9' * 20} to numeric.",
    ),
    "status of a huge version": (
        f"{MODEL}/versions/{2**63}", None, 400, f"Failed to convert version: {2**63} to numeric.",
    ),
    "verb": (f"{MODEL}:explain", {}, 400, f"Malformed request: POST {MODEL}:explain"),
    "no verb": (MODEL, {}, 400, f"Malformed request: POST {MODEL}"),
    "get of a method": (f"{MODEL}:predict", None, 400, f"Malformed request: GET {MODEL}:predict"),
    "path": ("/v1/foo", None, 400, "Malformed request: GET /v1/foo"),
    "no model": ("/v1/models", None, 400, "Missing model name in request."),
    "status": ("/v1/models/no", None, 404, "Could not find any versions of model no"),
    "status of a version": (f"{MODEL}/versions/9", None, 404, "Could not find version 9 of model film"),
    "metadata": ("/v1/models/no/metadata", None, 404, "Servable not found for request: Latest(no)"),
}  # fmt: skip
_REST = PATHS | {
    what: (f"{MODEL}:{verb}", body, 400, message)
    for verb, bodies in (("predict", BODIES), ("classify", EXAMPLE_BODIES))
    for what, (body, message) in bodies.items()
}


@pytest.mark.parametrize("fault", _REST)
def test_rest_refuses(rest, model_server, fault):
    path, body, status, message = _REST[fault]
    found, answer = rest(path, body)
    assert (found, list(answer)) == (status, ["error"]) and answer["error"]
    if message != "..." and not (model_server.real and fault in VARIES):
        assert answer["error"] == message


def test_paths_and_methods_that_there_are_not(rest):
    assert rest("/") == (404, "")
    assert rest(MODEL, method="DELETE") == (400, {"error": f"Malformed request: DELETE {MODEL}"})
