"""KServe's V2 protocol: health, metadata and infer, with tensors in JSON and in bytes."""

import json
import struct
import types
import urllib.request

import numpy as np
import pytest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import LIMITS
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.protocols import kserve_binary, kserve_v2
from bert_tf.serving.server.protocols.kserve_tensors import KINDS
from bert_tf.serving.server.tensorflow_messages import model_pb2
from tests import other_envs
from tests.serving.requests import send

PATH = "/v2/models/film/infer"
TEXT = {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["good", "no"]}
X = {"name": "x", "shape": [2, 3], "datatype": "FP32", "data": [1, 2, 3, 4.5, 5, 6]}
SCALE = {"name": "scale", "shape": [2], "datatype": "INT32", "data": [2, 3]}
NUMBERS = {"parameters": {"signature_name": "numbers"}}
CLIENT = """
import json, sys
import numpy as np
import tritonclient.http as http
client = http.InferenceServerClient(f"localhost:{sys.argv[1]}")
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("film", "3")
text = http.InferInput("text", [2], "BYTES")
answers = []
for in_bytes in (False, True):
    text.set_data_from_numpy(np.array(["good", "no"], object), binary_data=in_bytes)
    wanted = [http.InferRequestedOutput(name, binary_data=in_bytes) for name in ("label", "probabilities")]
    found = client.infer("film", [text], outputs=wanted, request_id="a")
    answers.append([found.as_numpy("probabilities").tolist(), found.as_numpy("label").tolist()])
print(json.dumps([client.get_model_metadata("film"), *answers, found.get_response()], default=bytes.decode))
"""


@pytest.fixture(scope="module")
def kserve(film):
    return lambda body=None, path=PATH, **headers: send(film, path, body, **headers)


def outputs(answer):
    status, found = answer
    assert status == 200, found
    return {each["name"]: np.reshape(each["data"], each["shape"]).tolist() for each in found["outputs"]}


def test_health_and_metadata(kserve):
    assert kserve(path="/v2/health/ready")[0] == 200
    assert kserve(path="/v2/models/film/ready") == (200, {"name": "film", "ready": True})
    assert kserve(path="/v2")[1]["name"] == "bert_tf"
    found = kserve(path="/v2/models/film/versions/3")
    assert found == kserve(path="/v2/models/film")
    assert found == (200, {
        "name": "film",
        "versions": ["3"],
        "platform": "tensorflow_savedmodel",
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [-1]},
            {"name": "labels", "datatype": "BYTES", "shape": [-1, 2]},
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, 2]},
        ],
    })  # fmt: skip


def test_texts(kserve):
    status, found = kserve({"inputs": [TEXT], "id": "a"})
    assert status == 200
    assert [found[name] for name in ("id", "model_name", "model_version")] == ["a", "film", "3"]
    assert [(each["name"], each["datatype"]) for each in found["outputs"]] == [
        ("label", "BYTES"), ("labels", "BYTES"), ("probabilities", "FP32")
    ]  # fmt: skip
    assert outputs((status, found))["probabilities"] == [[0.25, 0.75], [0.75, 0.25]]
    assert "id" not in kserve({"inputs": [TEXT | {"parameters": {}}]}, "/v2/models/film/versions/3/infer")[1]


def test_numbers_of_another_signature_flat_or_nested(kserve):
    expected = {"y": [[2.0, 4.0, 6.0], [13.5, 15.0, 18.0]], "total": [2, 3]}
    for x in (X, X | {"data": [[1, 2, 3], [4.5, 5, 6]]}):
        status, found = kserve({"inputs": [x, SCALE], **NUMBERS})
        assert outputs((status, found)) == expected
    assert {each["name"]: each["datatype"] for each in found["outputs"]} == {"y": "FP32", "total": "INT64"}
    wanted = [{"name": "total", "parameters": {"binary_data": False}}]
    assert outputs(kserve({"inputs": [SCALE, X], "outputs": wanted, **NUMBERS})) == {"total": [2, 3]}


def test_a_model_without_a_default_signature(film, kserve, monkeypatch):
    with film._registry.lease(model_pb2.ModelSpec(name="film")) as version:
        monkeypatch.delitem(version.model.signatures, "serving_default")
    assert kserve(path="/v2/models/film/ready")[0] == 200
    assert outputs(kserve({"inputs": [X, SCALE], **NUMBERS}))["total"] == [2, 3]
    rows = {"signature_name": "numbers", "instances": [{"x": [1, 2, 3], "scale": 2}]}
    assert kserve(rows, "/invocations") == (200, {"predictions": [{"y": [2.0, 4.0, 6.0], "total": 2}]})
    refused = 400, {"error": 'Serving signature name: "serving_default" not found in signature def'}
    for path, body in ((PATH, {"inputs": [TEXT]}), ("/v2/models/film", None), ("/invocations", ["a"])):
        assert kserve(body, path) == refused
    assert kserve(b"a\n", "/invocations", content_type="text/csv") == refused


@pytest.mark.parametrize(
    "datatype, least, most",
    [("UINT8", 0, 255), ("INT8", -128, 127), ("UINT16", 0, 65535), ("INT16", -32768, 32767), ("FP16", -65504, 65504)],
)
def test_narrow_numbers_are_those_of_the_type(datatype, least, most):
    kind = KINDS[datatype]
    endpoint = types.SimpleNamespace(tensor="x:0", dtype=as_dtype(kind), shape=None)
    signature = types.SimpleNamespace(inputs={"x": endpoint}, is_fragile=False, checks_shapes=False)

    def read(*data):
        tensor = {"name": "x", "shape": [len(data)], "datatype": datatype, "data": list(data)}
        return kserve_v2._inputs([tensor], signature, LIMITS, kserve_binary.TensorBytes())["x"]

    found = read(least, most)
    assert (found.dtype, found.tolist()) == (kind, [least, most])
    message = f"The input x must be {datatype}, from {least} to {most}; got "
    for outside in (least - 33, most + 33):
        with pytest.raises(ServingError, match=message):
            read(0, outside)


@pytest.mark.parametrize(
    "body, message",
    [
        ({}, "The body must have the member 'inputs'"),
        ({"inputs": [TEXT], "model": "film"}, 'unsupported member "model"'),
        ({"inputs": []}, "Missing but required: {text}"),
        ({"inputs": [TEXT, TEXT]}, "must not repeat the input text"),
        ({"inputs": [TEXT | {"name": "words"}]}, "Sent extra: {words}"),
        ({"inputs": [TEXT | {"name": ["text"]}]}, "'name' must be a string"),
        ({"inputs": [TEXT | {"parameters": {"binary_data_size": 9}}]}, "must have either the member 'data' or the"),
        ({"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES"}]}, "either the member 'data' or the"),
        ({"inputs": [TEXT | {"parameters": {"classification": 9}}]}, '"classification"; it may have binary_data_size'),
        ({"inputs": [X | {"shape": [0, 10**9], "data": []}], **NUMBERS}, "and x has the shape [0, 1000000000]"),
        ({"inputs": [TEXT | {"parameters": []}]}, "'parameters' must be a JSON object"),
        ({"inputs": [TEXT | {"shape": [3]}]}, "'data' of the input text must have 3 elements"),
        ({"inputs": [TEXT | {"shape": [-1]}]}, "must be a list of sizes; got [-1]"),
        ({"inputs": [TEXT | {"shape": [0] * 99, "data": []}]}, "A tensor may have 32 axes"),
        ({"inputs": [TEXT | {"shape": [10**6, 10**6]}]}, "4096 rows"),
        ({"inputs": [TEXT | {"datatype": "STRING"}]}, "'datatype' of the input text must be BOOL, "),
        ({"inputs": [TEXT | {"datatype": "INT64", "data": [1, 2]}]}, "Expects arg[0] to be string but int64"),
        ({"inputs": [TEXT | {"data": ["a", 2]}]}, "is not of expected type"),
        ({"inputs": [TEXT], "outputs": [{"name": "score"}]}, "'outputs' must be different ones of label, "),
        ({"inputs": [TEXT], "outputs": [{"name": "label"}] * 2}, "'outputs' must be different ones"),
        ({"inputs": [TEXT], "outputs": [{"name": "label", "parameters": {"classification": 1}}]}, '"classification"'),
        ({"inputs": [TEXT], "outputs": [{"name": "label", "parameters": {"binary_data": 1}}]}, "must be true or false"),
        ({"inputs": [TEXT], "parameters": {"binary_data_output": "yes"}}, "must be true or false"),
        ({"inputs": [TEXT], "parameters": {"priority": 1}}, 'unsupported member "priority"'),
        ({"inputs": [TEXT], "parameters": {"signature_name": "nothing"}}, '"nothing" not found'),
    ],
)
def test_refusals(kserve, body, message):
    status, answer = kserve(body)
    assert (status, set(answer)) == (400, {"error"})
    assert message in answer["error"]


def test_other_models_methods_and_forms(kserve):
    assert kserve(path="/v2/models/nobody") == (404, {"error": "Servable not found for request: Latest(nobody)"})
    assert kserve({"inputs": [TEXT]}, "/v2/models/film/versions/4/infer")[0] == 404
    for digits in (str(2**63), "9" * 30):
        status, answer = kserve({"inputs": [TEXT]}, f"/v2/models/film/versions/{digits}/infer")
        assert (status, answer["error"]) == (400, f"Failed to convert version: {digits} to numeric.")
    assert kserve(path=PATH) == (400, {"error": f"Malformed request: GET {PATH}"})
    assert kserve(path="/v2/repository/index") == (404, "")


def in_bytes(name, datatype, shape, data):
    """Returns the description of a tensor in bytes, and the bytes."""
    parameters = {"binary_data_size": len(data)}
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": parameters}, data


def packed(*texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def send_bytes(server, document, *tensors, length=None, more=b""):
    """Sends JSON and bytes; returns (HTTP status, JSON, {output in bytes: its bytes})."""
    document = {"inputs": [each for each, _ in tensors]} | document
    head = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(head) if length is None else length)}
    body = b"".join([head, *(data for _, data in tensors), more])
    request = urllib.request.Request(f"http://localhost:{server.rest_port}{PATH}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            text, split = response.read(), int(response.headers.get("Inference-Header-Content-Length", 10**9))
            answer, at, found = json.loads(text[:split]), split, {}
            for each in answer["outputs"]:
                if size := each.get("parameters", {}).get("binary_data_size", 0):
                    found[each["name"]], at = text[at : at + size], at + size
            assert at in (len(text), 10**9)
            return response.status, answer, found
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()), {}


def test_tensors_in_bytes(film):
    text = in_bytes("text", "BYTES", [2], packed(b"good", b"no"))
    wanted = {"outputs": [{"name": "label"}, {"name": "probabilities", "parameters": {"binary_data": False}}],
              "parameters": {"binary_data_output": True}}  # fmt: skip
    status, answer, found = send_bytes(film, wanted, text)
    assert status == 200 and found == {"label": packed(b"good", b"bad")}
    label, probabilities = answer["outputs"]
    assert "data" not in label and np.reshape(probabilities["data"], [2, 2]).tolist() == [[0.25, 0.75], [0.75, 0.25]]
    x = np.array([[1, 2, 3], [4.5, 5, 6]], "<f4").tobytes()
    scale = np.array([2, 3], "<i4").tobytes()
    numbers = {"parameters": {"signature_name": "numbers", "binary_data_output": True}}
    given = in_bytes("x", "FP32", [2, 3], x), in_bytes("scale", "INT32", [2], scale)
    status, _, found = send_bytes(film, numbers, *given)
    assert np.frombuffer(found["y"], "<f4").tolist() == [2.0, 4.0, 6.0, 13.5, 15.0, 18.0]
    assert np.frombuffer(found["total"], "<i8").tolist() == [2, 3]
    status, answer, found = send_bytes(film, {}, text)  # outputs in JSON
    assert (status, found) == (200, {}) and outputs((status, answer))["label"] == ["good", "bad"]


TWO = packed(b"good", b"no")


@pytest.mark.parametrize(
    "tensor, more, message",
    [
        (in_bytes("text", "BYTES", [2], TWO), {"length": -1}, "must be a number of bytes, at most"),
        (in_bytes("text", "BYTES", [2], TWO), {"length": 10**12}, "must be a number of bytes, at most"),
        (in_bytes("text", "BYTES", [2], TWO), {"more": b"xy"}, "The body has 2 bytes after its tensors"),
        (in_bytes("text", "BYTES", [3], TWO), {}, "must be 3 strings, each after its length in four bytes; got 2"),
        (in_bytes("text", "BYTES", [1], TWO), {}, "must be 1 string, each after its length in four bytes; got 1"),
        (in_bytes("text", "BYTES", [2], TWO[:-1]), {}, "must be 2 strings"),
        (in_bytes("text", "BYTES", [1], b"\xff\xff\xff\x7f"), {}, "A text may have"),
        (in_bytes("text", "INT64", [2], bytes(16)), {}, "Expects arg[0] to be string but int64"),
    ],
)
def test_bytes_that_are_refused(film, tensor, more, message):
    status, answer, _ = send_bytes(film, {}, tensor, **more)
    assert status == 400 and message in answer["error"]


def test_sizes_of_tensors_in_bytes_are_checked(film):
    numbers = {"parameters": {"signature_name": "numbers"}}
    scale = in_bytes("scale", "INT32", [2], bytes(8))
    for size, message in ((20, "must have 24 bytes, according to its shape and type; got 20"),
                          (999, "must be from 0 to 32"), (-1, "from 0 to 32, the bytes left; got -1")):
        tensor, data = in_bytes("x", "FP32", [2, 3], bytes(20 if size == 20 else 24))
        tensor["parameters"]["binary_data_size"] = size
        status, answer, _ = send_bytes(film, numbers, (tensor, data), scale)
        assert status == 400 and message in answer["error"]


def test_flags_in_bytes_are_0_or_1():
    read = kserve_binary.read_tensor
    assert read(memoryview(b"\x00\x01"), [2], np.bool_, "x", LIMITS).tolist() == [False, True]
    with pytest.raises(ServingError, match="must be 0 or 1, because it is BOOL; got 2"):
        read(memoryview(b"\x00\x02"), [2], np.bool_, "x", LIMITS)


@pytest.mark.slow
def test_tritons_client(film):
    out = other_envs.run(other_envs.clients_python(), CLIENT, film.rest_port)
    metadata, in_json, in_bytes, response = json.loads(out.splitlines()[-1])
    assert metadata["name"] == "film" and in_json == in_bytes == [[[0.25, 0.75], [0.75, 0.25]], ["good", "bad"]]
    assert response["id"] == "a" and all("binary_data_size" in each["parameters"] for each in response["outputs"])
