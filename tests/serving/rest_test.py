"""The REST face: URL rules, row and column forms, TensorFlow Serving's statuses and messages; and curl."""

import base64
import gzip
import http.client
import json
import shutil
import subprocess

import numpy as np
import pytest

from bert_tf.serving.json_responses import decimal

MODEL = "/v1/models/film"
GOOD = {"label": "good", "labels": ["bad", "good"], "probabilities": [0.25, 0.75]}
BAD = {"label": "bad", "labels": ["bad", "good"], "probabilities": [0.75, 0.25]}


def b64(data: bytes):
    return {"b64": base64.b64encode(data).decode()}


RIGHT = {
    "rows": (":predict", {"instances": ["fine", "x"]}, {"predictions": [GOOD, BAD]}),
    "rows by name": (":predict", {"instances": [{"text": "fine"}]}, {"predictions": [GOOD]}),
    "rows in base64": (":predict", {"instances": [b64(b"fine"), "x"]}, {"predictions": [GOOD, BAD]}),
    "one column": (
        ":predict",
        {"inputs": ["fine"]},
        {"outputs": {"label": ["good"], "labels": [["bad", "good"]], "probabilities": [[0.25, 0.75]]}},
    ),
    "columns": (
        ":predict",
        {"signature_name": "numbers", "inputs": {"x": [[1, 2.5, 1e9]], "scale": [2]}},
        {"outputs": {"total": [2], "y": [[2.0, 5.0, 2e9]]}},
    ),
    "version": ("/versions/3:predict", {"instances": ["x"]}, {"predictions": [BAD]}),
    "case": (":PREDICT", {"instances": ["x"]}, {"predictions": [BAD]}),
    "bytes": (
        ":predict",
        {"signature_name": "echo", "instances": [b64(b"\xff\x00")]},
        {"predictions": [b64(b"\xff\x00")]},
    ),
    "pair": (
        ":predict",
        {"signature_name": "pair", "instances": [{"text_a": "a", "text_b": "fine"}]},
        {"predictions": [GOOD]},
    ),
    "classify": (
        ":classify",
        {"signature_name": "classify", "examples": [{"text": "fine"}, {"text": ["x"]}]},
        {"results": [[["bad", 0.25], ["good", 0.75]], [["bad", 0.75], ["good", 0.25]]]},
    ),
    "regress": (
        ":regress",
        {"signature_name": "regress", "context": {"text": "fine"}, "examples": [{}, {"text": b64(b"x")}]},
        {"results": [0.75, 0.25]},
    ),
}


@pytest.mark.parametrize("what", RIGHT)
def test_right_requests(rest, what):
    path, body, answer = RIGHT[what]
    assert rest(MODEL + path, body) == (200, answer)


def value(document):
    """A JSON value as error messages quote it."""
    return json.dumps(document, indent=4)


_BOTH = {"instances": ["x"], "inputs": ["x"]}
_ROW = "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
_NUMBERS = {"signature_name": "numbers"}
WRONG = {
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
        f"JSON Value: {value({'signature_name': 1})} not formatted correctly. 'signature_name' key must be a string "
        "value.",
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
    "no object": (f"{MODEL}:predict", [1], 400, f"JSON Value: {value([1])} Is not object"),
    "no inputs": (f"{MODEL}:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
    "both": (
        f"{MODEL}:predict",
        _BOTH,
        400,
        f"JSON Value: {value(_BOTH)} Not formatted correctly expecting only one of 'inputs' or 'instances' keys to "
        "exist ",
    ),
    "no rows": (
        f"{MODEL}:predict",
        {"instances": []},
        400,
        f"JSON Value: {value({'instances': []})} No values in 'instances' array",
    ),
    "dtype": (
        f"{MODEL}:predict",
        {"instances": ["x", 7]},
        400,
        f"{_ROW}JSON Value: 7 Type: Number is not of expected type: string",
    ),
    "ragged": (
        f"{MODEL}:predict",
        {"instances": [["x"], ["x", "y"]]},
        400,
        f"{_ROW}Expecting tensor size: 1 but got: 2",
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
    "float": (
        f"{MODEL}:predict",
        {**_NUMBERS, "inputs": {"x": [[1, 2, 2**24 + 1]], "scale": [1]}},
        400,
        "Cannot convert JSON value: 16777217 to float without loss of precision.",
    ),
    "base64": (f"{MODEL}:predict", {"inputs": {"b64": "?"}}, 400, "Unable to base64 decode"),
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
        f"JSON Value: {value({'examples': []})} 'examples' value is an empty array",
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
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_requests(rest, fault):
    path, body, status, message = WRONG[fault]
    assert rest(path, body) == (status, {"error": message})


def test_the_graph_s_own_refusal(rest):
    status, answer = rest(f"{MODEL}:predict", {**_NUMBERS, "inputs": {"x": [[1, 2, 3]], "scale": [[1, 2]]}})
    assert status == 400 and set(answer) == {"error"}


def test_deep_nesting_is_a_bad_request(rest):
    status, answer = rest(f"{MODEL}:predict", b'{"instances":' + b"[" * 100000 + b"]" * 100000 + b"}")
    assert status == 400 and answer["error"].startswith("JSON Parse error: ")


def test_paths_and_methods(rest):
    assert rest("/") == (404, "")
    assert rest(MODEL, method="DELETE") == (400, {"error": f"Malformed request: DELETE {MODEL}"})
    assert rest(f"{MODEL}?verbose=1")[0] == 200


def test_status_and_metadata(rest):
    entry = {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for path in (MODEL, f"{MODEL}/versions/3", f"{MODEL}/labels/any"):
        assert rest(path) == (200, {"model_version_status": [entry]})
    status, answer = rest(f"{MODEL}/metadata")
    assert status == 200
    assert answer["model_spec"] == {"name": "film", "signature_name": "", "version": "3"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["text"]["dtype"] == "DT_STRING"
    assert signature["inputs"]["text"]["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]


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


def test_a_connection_serves_chunked_and_gzipped_bodies_and_survives_errors(film):
    body = json.dumps({"instances": ["fine"]}).encode()
    connection = http.client.HTTPConnection("localhost", film.rest_port, timeout=20)
    for data, headers, status in (
        (iter([body[:5], body[5:]]), {}, 200),  # sent in chunks
        (b"{", {}, 400),
        (gzip.compress(body), {"Content-Encoding": "gzip"}, 200),
    ):
        connection.request("POST", f"{MODEL}:predict", data, headers)
        response = connection.getresponse()
        assert response.getheader("Content-Type") == "application/json"
        answer = json.loads(response.read())
        assert response.status == status, answer
    assert answer == {"predictions": [GOOD]}
    connection.request("POST", f"{MODEL}:predict", b"no gzip", {"Content-Encoding": "gzip"})
    response = connection.getresponse()
    assert response.status == 400 and response.getheader("Connection") == "close"
    connection.close()


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_curl(film):
    url = f"http://localhost:{film.rest_port}{MODEL}:predict"
    big = json.dumps({"instances": ["fine " * 300000]})  # over 1 MiB, for which curl asks whether to go on
    for body in ('{"instances": ["fine"]}', big):
        command = ["curl", "--silent", "--fail", "--data-binary", "@-", url]
        done = subprocess.run(command, input=body, capture_output=True, text=True, check=True, timeout=30)
        assert json.loads(done.stdout) == {"predictions": [GOOD]}
