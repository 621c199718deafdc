"""KServe's V2 protocol over gRPC: health, metadata and infer, with tensors in fields and in bytes."""

import json
import struct

import grpc
import numpy as np
import pytest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.limits import LIMITS
from bert_tf.serving.server.dtypes import as_dtype
from bert_tf.serving.server.protocols import kserve_grpc
from bert_tf.serving.server.protocols import kserve_messages as messages
from bert_tf.serving.server.protocols.kserve_grpc import METHODS
from bert_tf.serving.server.protocols.kserve_tensors import KINDS
from bert_tf.serving.server.server import serve
from tests import other_envs

CLIENT = """
import json, sys
import numpy as np
import tritonclient.grpc as client
server = client.InferenceServerClient(f"localhost:{sys.argv[1]}")
assert server.is_server_live() and server.is_server_ready() and server.is_model_ready("film", "3")
text = client.InferInput("text", [2], "BYTES")
text.set_data_from_numpy(np.array(["good", "no"], object))
wanted = [client.InferRequestedOutput(name) for name in ("label", "probabilities")]
found = server.infer("film", [text], outputs=wanted, request_id="a")
x = client.InferInput("x", [2, 3], "FP32")
x.set_data_from_numpy(np.array([[1, 2, 3], [4.5, 5, 6]], np.float32))
scale = client.InferInput("scale", [2], "INT32")
scale.set_data_from_numpy(np.array([2, 3], np.int32))
numbers = server.infer("film", [x, scale], parameters={"signature_name": "numbers"})
metadata = server.get_model_metadata("film", as_json=True)
print(json.dumps([metadata, server.get_server_metadata(as_json=True), found.get_response(as_json=True)["id"],
                  found.as_numpy("label").tolist(), found.as_numpy("probabilities").tolist(),
                  numbers.as_numpy("total").tolist()], default=bytes.decode))
"""
TEXT = {"name": "text", "datatype": "BYTES", "shape": [2], "contents": {"bytes_contents": [b"good", b"no"]}}
X = {"name": "x", "datatype": "FP32", "shape": [2, 3], "contents": {"fp32_contents": [1, 2, 3, 4.5, 5, 6]}}
SCALE = {"name": "scale", "datatype": "INT32", "shape": [2], "contents": {"int_contents": [2, 3]}}
NUMBERS = [{"key": "signature_name", "value": {"string_param": "numbers"}}]
RAW = {"name": "text", "datatype": "BYTES", "shape": [2]}
PACKED = b"".join(struct.pack("<I", len(text)) + text for text in (b"good", b"no"))


@pytest.fixture(scope="module")
def call(film):
    """call(method, **fields of the request) -> response."""
    with grpc.insecure_channel(f"localhost:{film.port}") as channel:

        def ask(kind, **fields):
            method = METHODS[messages.SERVICE][kind]
            response = getattr(messages, f"{kind}Response")
            send = channel.unary_unary(f"/{messages.SERVICE}/{kind}", method.request.SerializeToString,
                                       response.FromString)  # fmt: skip
            return send(method.request(**fields), timeout=60)

        yield ask


def contents(answer):
    return {each.name: next(list(values) for _, values in each.contents.ListFields()) for each in answer.outputs}


def test_health_and_metadata(call):
    assert call("ServerLive").live and call("ServerReady").ready and call("ModelReady", name="film", version="3").ready
    assert not call("ModelReady", name="film", version="4").ready and not call("ModelReady", name="nobody").ready
    assert call("ServerMetadata").name == "bert_tf"
    found = call("ModelMetadata", name="film")
    assert (found.name, list(found.versions), found.platform) == ("film", ["3"], "tensorflow_savedmodel")
    assert [(each.name, each.datatype, list(each.shape)) for each in (*found.inputs, *found.outputs)] == [
        ("text", "BYTES", [-1]), ("label", "BYTES", [-1]), ("labels", "BYTES", [-1, 2]),
        ("probabilities", "FP32", [-1, 2]),
    ]  # fmt: skip


def test_tensors_in_fields(call):
    found = call("ModelInfer", model_name="film", id="a", inputs=[TEXT])
    assert (found.id, found.model_name, found.model_version) == ("a", "film", "3")
    assert contents(found)["label"] == [b"good", b"bad"]
    assert contents(found)["probabilities"] == [0.25, 0.75, 0.75, 0.25]
    found = call("ModelInfer", model_name="film", model_version="3", inputs=[X, SCALE], parameters=NUMBERS,
                 outputs=[{"name": "total"}])  # fmt: skip
    assert contents(found) == {"total": [2, 3]} and not found.raw_output_contents


def test_tensors_in_bytes(call):
    found = call("ModelInfer", model_name="film", inputs=[RAW], raw_input_contents=[PACKED])
    assert [each.name for each in found.outputs] == ["label", "labels", "probabilities"]
    assert np.frombuffer(found.raw_output_contents[2], "<f4").tolist() == [0.25, 0.75, 0.75, 0.25]
    assert found.raw_output_contents[0] == PACKED.replace(struct.pack("<I", 2) + b"no", struct.pack("<I", 3) + b"bad")


INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    "fields, code, message",
    [
        ({"inputs": [TEXT], "model_name": ""}, INVALID, "must not be empty"),
        ({"inputs": [TEXT], "model_name": "nobody"}, NOT_FOUND, "Servable not found"),
        ({"inputs": [TEXT], "model_version": "4"}, NOT_FOUND, "Servable not found"),
        ({"inputs": [TEXT], "model_version": "x"}, INVALID, 'must be a number; got "x"'),
        ({"inputs": []}, INVALID, "Missing but required: {text}"),
        ({"inputs": [TEXT, TEXT]}, INVALID, "must not repeat the input text"),
        ({"inputs": [TEXT | {"name": "words"}]}, INVALID, "Sent extra: {words}"),
        ({"inputs": [TEXT | {"shape": [3]}]}, INVALID, "'bytes_contents' of the input text must have 3"),
        ({"inputs": [TEXT | {"shape": [-1]}]}, INVALID, "must be a list of sizes; got [-1]"),
        ({"inputs": [TEXT | {"shape": [10**6, 10**6]}]}, INVALID, "4096 rows"),
        ({"inputs": [TEXT | {"datatype": "STRING"}]}, INVALID, "'datatype' of the input text must be BOOL"),
        ({"inputs": [TEXT | {"parameters": NUMBERS}]}, INVALID, "index 0 has the parameter"),
        ({"inputs": [X | {"shape": [0, 10**9]}], "parameters": NUMBERS}, INVALID, "the shape [0, 1000000"),
        ({"inputs": [TEXT], "outputs": [{"name": "score"}]}, INVALID, "must be different ones of label"),
        ({"inputs": [TEXT], "outputs": [{"name": "label"}] * 2}, INVALID, "must be different ones of label"),
        ({"inputs": [TEXT], "parameters": NUMBERS * 2}, INVALID, "signature_name, once"),
        ({"inputs": [TEXT], "parameters": [{"key": "priority"}]}, INVALID, '"priority"; it may have'),
        ({"inputs": [RAW], "raw_input_contents": [PACKED] * 2}, INVALID, "for each of 1 inputs; got 2"),
        ({"inputs": [RAW], "raw_input_contents": [PACKED[:-1]]}, INVALID, "must be 2 strings"),
        ({"inputs": [TEXT | {"shape": [1] * 10**6}]}, INVALID, "A tensor may have 32 axes and text has 1000000"),
        ({"inputs": [TEXT], "raw_input_contents": [PACKED]}, INVALID, "text must have no elements, because"),
        ({"inputs": [TEXT | {"contents": {"int_contents": [1, 2]}}]}, INVALID, "must have bytes_contents, because"),
        ({"inputs": [TEXT], "parameters": [{"key": "signature_name", "value": {"int64_param": 3}}]}, INVALID,
         "must be a non-empty string; got int64_param"),
        ({"inputs": [TEXT], "parameters": [{"key": "signature_name"}]}, INVALID, "a non-empty string; got none"),
        ({"inputs": [TEXT | {"datatype": "FP16"}]}, INVALID, "Expects arg[0] to be string but half"),
    ],
)
def test_refusals(call, fields, code, message):
    with pytest.raises(grpc.RpcError) as caught:
        call("ModelInfer", **{"model_name": "film"} | fields)
    assert caught.value.code() == code and message in caught.value.details(), caught.value.details()


def test_bytes_that_are_no_message(film):
    with grpc.insecure_channel(f"localhost:{film.port}") as channel:
        send = channel.unary_unary(f"/{messages.SERVICE}/ModelInfer")
        with pytest.raises(grpc.RpcError, match="The message is not a valid ModelInferRequest"):
            send(b"\xff\xff\xff", timeout=60)


def test_numbers_in_fields():
    """Of types that the model has not: narrow ones are checked, and those without a field must be in bytes."""

    def read(datatype, **contents):
        tensor = messages.ModelInferRequest(inputs=[{"name": "x", "datatype": datatype, "shape": [1],
                                                     "contents": contents}]).inputs[0]  # fmt: skip
        return kserve_grpc._contents(tensor, as_dtype(KINDS[datatype]), LIMITS)

    assert read("INT8", int_contents=[-128]).dtype == np.int8 and read("BOOL", bool_contents=[True]).tolist() == [True]
    with pytest.raises(ServingError, match="The input x must be INT8, from -128 to 127; got 200"):
        read("INT8", int_contents=[200])
    with pytest.raises(ServingError, match="The input x must be in 'raw_input_contents', because it is FP16"):
        read("FP16")


def test_outputs_that_no_field_has_are_in_bytes():
    answer = messages.ModelInferResponse()
    arrays = {"a": np.array([1.5], np.float16), "b": np.array([2], np.int32)}
    kserve_grpc._add_outputs(answer, arrays, {"a": "FP16", "b": "INT32"}, False)
    assert [len(each) for each in answer.raw_output_contents] == [2, 4]


def test_without_the_protocol_there_is_no_service(film_path):
    with (
        serve(str(film_path), "film", poll_seconds=0, rest_api_protocols=()) as server,
        grpc.insecure_channel(f"localhost:{server.port}") as channel,
    ):
        send = channel.unary_unary(f"/{messages.SERVICE}/ServerLive")
        with pytest.raises(grpc.RpcError) as caught:
            send(b"", timeout=60)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.slow
def test_tritons_client(film):
    out = other_envs.run(other_envs.clients_python(), CLIENT, film.port)
    metadata, server, identity, label, probabilities, total = json.loads(out.splitlines()[-1])
    assert (metadata["name"], server["name"], identity) == ("film", "bert_tf", "a")
    assert (label, probabilities, total) == (["good", "bad"], [[0.25, 0.75], [0.75, 0.25]], [2, 3])
