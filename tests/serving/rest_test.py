"""The REST face: URL rules, row and column forms, TensorFlow Serving's statuses and messages; and curl."""

import base64
import gzip
import http.client
import json
import shutil
import subprocess

import numpy as np
import pytest

from bert_tf.serving.server.json_responses import decimal

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


def test_the_graph_s_own_refusal(rest):
    body = {"signature_name": "numbers", "inputs": {"x": [[1, 2, 3]], "scale": [[1, 2]]}}
    status, answer = rest(f"{MODEL}:predict", body)
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
    connection = http.client.HTTPConnection("localhost", film.rest_port, timeout=60)
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
        done = subprocess.run(command, input=body, capture_output=True, text=True, check=True, timeout=60)
        assert json.loads(done.stdout) == {"predictions": [GOOD]}
