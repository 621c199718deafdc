"""The client: as a class, as a program, and byte for byte as tensorflow-serving-api would write."""

import dataclasses
import json
import re
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from bert_tf.serving import messages, tensor_messages
from bert_tf.serving.client.client import Client
from bert_tf.serving.client.requests import TensorKind, VersionStatus
from bert_tf.serving.client.results import (
    Answer,
    Choice,
    Classification,
    Entities,
    Entity,
    MaskPrediction,
    Score,
    SparseEmbedding,
    to_dataclass,
)
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.utils.answers import split_answer
from tests.serving.programs import run_program

GOOD = {"label": "good", "probabilities": {"bad": 0.25, "good": 0.75}}
BAD = {"label": "bad", "probabilities": {"bad": 0.75, "good": 0.25}}


@pytest.fixture
def client(film):
    with Client(f"localhost:{film.port}", "film") as client:
        yield client


def test_classify(client):
    assert client.classify(["fine", "x"]) == [GOOD, BAD]
    assert client.classify([]) == []


def test_classify_pairs(pairs):
    with Client(f"localhost:{pairs.port}", "pairs") as client:
        assert client.classify(["a", "b"], ["x", "fine"]) == [BAD, GOOD]
        with pytest.raises(ValueError, match="Text pairs need as many second texts as first ones; got 1 and 2."):
            client.classify(["a"], ["x", "fine"])


def test_ask_classifies(client):
    assert client.ask({"text": ["fine", "x"]}) == [GOOD, BAD]
    assert client.ask({"text": []}) == []


def test_uneven_inputs(client):
    with pytest.raises(ValueError, match="got question: 2, context: 1."):
        client.ask({"question": ["a", "b"], "context": ["c"]})
    with pytest.raises(ValueError, match="`text` must be several texts, such as a list; got one text, "):
        client.ask({"text": "fine"})


def test_rows():
    outputs = {
        "probability": np.array([[0.1, 0.2], [1, 0]], np.float32),
        "token": np.array([["ä".encode(), b"\xff"], [b"b", b""]], object),
        "entity_count": np.array([2, 1], np.int32),
        "wide": np.array([1 / 3, np.inf]),
    }
    first, second = split_answer(outputs, 2)
    assert list(first) == ["token", "probability", "entity_count", "wide"]
    assert first == {"token": ["ä", "\ufffd"], "probability": [0.1, 0.2], "entity_count": 2, "wide": 1 / 3}
    assert second == {"token": ["b", ""], "probability": [1.0, 0.0], "entity_count": 1, "wide": np.inf}
    with pytest.raises(ValueError, match="Output 'y' must have one row for each of the 2 texts"):
        split_answer({"y": np.array(1.0)}, 2)


def test_predict(client):
    found = client.predict({"x": [[1.0, 2.0, 0.5]], "scale": [3]}, "numbers")
    np.testing.assert_array_equal(found["y"], np.array([[3, 6, 1.5]], np.float32))
    assert found["y"].dtype == np.float32 and found["total"].dtype == np.int64
    assert set(client.predict({"text": ["x"]}, outputs=["label"])) == {"label"}


def test_signatures_and_status_of_a_model(client):
    signatures = client.signatures()
    assert list(signatures) == ["classify", "echo", "numbers", "pair", "regress", "serving_default"]
    x, scale = TensorKind("float32", (None, 3)), TensorKind("int32", (None,))
    assert signatures["numbers"].inputs == {"scale": scale, "x": x}
    assert signatures["numbers"].outputs["total"].dtype == "int64"
    assert signatures["classify"].method == "tensorflow/serving/classify"
    assert signatures["pair"].text_inputs == ("text_a", "text_b") and client.text_inputs() == ("text",)
    assert client.status() == [VersionStatus(3, "AVAILABLE", 0, "")]


ROWS = [
    (GOOD, Classification("good", {"bad": 0.25, "good": 0.75})),
    ({"score": 0.5}, Score(0.5)),
    ({"choice": 1, "probabilities": [0.1, 0.9]}, Choice(1, (0.1, 0.9))),
    ({"token": ["a", "b"], "probability": [0.9, 0.1]}, MaskPrediction(("a", "b"), (0.9, 0.1))),
    ({"indices": [7, 3], "weights": [1.5, 0.5]}, SparseEmbedding((7, 3), (1.5, 0.5))),
    (
        {"answer": "x", "start": 0, "end": 1, "score": 2.0, "null_score": -1.0},
        Answer("x", 0, 1, 2.0, -1.0),
    ),
    (
        {"entities": [{"text": "Ann", "type": "PER", "start": 0, "end": 3, "score": 0.9}]},
        Entities((Entity("Ann", "PER", 0, 3, 0.9),)),
    ),
]


@pytest.mark.parametrize("row, result", ROWS, ids=[type(result).__name__ for _, result in ROWS])
def test_rows_as_types(row, result):
    assert to_dataclass(row) == result


@dataclasses.dataclass(frozen=True)
class _Rating:
    """The prediction of a task that only this file knows."""

    rating: int
    expected_rating: float
    above: tuple[float, ...] = ()


def test_the_results_of_an_unknown_task_have_a_class_of_its_own():
    row = {"rating": 3, "expected_rating": 2.5}
    assert to_dataclass(row, _Rating) == _Rating(3, 2.5)
    assert to_dataclass({**row, "above": [0.5, 0.25]}, _Rating) == _Rating(3, 2.5, (0.5, 0.25))
    message = "whose fields are the outputs of the model: rating; _Rating has rating, expected_rating, above."
    with pytest.raises(ValueError, match=message):
        to_dataclass({"rating": 3}, _Rating)
    with pytest.raises(ValueError, match="expected_rating, other, rating; _Rating has"):
        to_dataclass({**row, "other": 1}, _Rating)
    with pytest.raises(ValueError, match="`typed` requires a model whose `rating` is as in _Rating; got 'high'"):
        to_dataclass({**row, "rating": "high"}, _Rating)
    with pytest.raises(ValueError, match="`typed` must be a bool or a dataclass; got <class 'dict'>"):
        to_dataclass(row, dict)


def test_typed_results_need_known_outputs(client):
    assert client.ask({"text": ["fine"]}, typed=True) == [ROWS[0][1]] == client.classify(["fine"], typed=True)
    with pytest.raises(ValueError, match="`typed` requires a model of a known kind, .* got y. Without"):
        to_dataclass({"y": 1})


def test_answers_of_more_than_four_mebibytes_arrive(client):
    images = [b"\xff" * 2**22, b"\xfe" * 2**22]
    assert client.predict({"image_bytes": images}, "echo")["image_bytes"].tolist() == images


@pytest.mark.parametrize(
    "arguments, message",
    [
        (({"text": ["x"]}, "q"), "`signature` must be one of those of model 'film': classify, echo, numbers, pair,"),
        (({"x": [["a"]], "scale": [1]}, "numbers"), "Input 'x' must be float32 of shape [n, 3]; got string of"),
        (({"text": [["x"], ["y", "z"]]},), "Input 'text' must be an array or lists of equal lengths"),
        (({"text": [b"x", 1]},), "Input 'text' must only have strings; got a int."),
        (({"text": [1j]},), "Input 'text' must be numbers or strings; got NumPy type complex128."),
        (({"x": [2**40]},), "Input 'x' exceeds int32. Pass numpy.int64"),
    ],
)
def test_wrong_calls(client, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        client.predict(*arguments)


def test_wrong_places(film):
    client = Client(f"localhost:{film.port}", "no")
    with client, pytest.raises(ValueError, match="does not serve a model 'no'"):
        client.classify(["x"])
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        client = Client(f"127.0.0.1:{closed.getsockname()[1]}", "film")
        with client, pytest.raises(ConnectionError, match="No model server responded at 127.0.0.1"):
            client.classify(["x"])


def test_a_late_answer_is_a_timeout_error(film, monkeypatch):
    late, ended = threading.Event(), threading.Event()

    def run(*arguments):
        assert late.wait(60)
        ended.set()

    monkeypatch.setattr(SavedModel, "run", run)
    with Client(f"localhost:{film.port}", "film", 0.1) as client, pytest.raises(TimeoutError, match="within 0.1 s"):
        client.classify(["x"])
    late.set()
    ended.wait(1)  # the request may still run, and must not meet what the next test serves


VALUES = [
    np.arange(6, dtype=np.int32).reshape(2, 3),
    np.array([2**40], np.int64),
    np.array(1.5, np.float32),
    np.array([[True], [False]]),
    np.array([1, 2], np.float16),
    np.array([250], np.uint8),
    np.zeros([0, 4], np.float64),
    np.array([["ä", b"\xff"]], object),
]


@pytest.mark.parametrize("array", VALUES, ids=lambda array: array.dtype.name)
def test_the_wire_is_tensorflow_s(array):
    ours = messages.PredictRequest(output_filter=["o"])
    ours.model_spec.name, ours.model_spec.signature_name, ours.model_spec.version.value = "m", "s", 0
    tensor_messages.fill_tensor(ours.inputs.add(key="x").value, array, "x")
    theirs = predict_pb2.PredictRequest.FromString(ours.SerializeToString())
    assert (theirs.model_spec.name, theirs.model_spec.signature_name) == ("m", "s")
    assert theirs.model_spec.HasField("version") and list(theirs.output_filter) == ["o"]
    bytes_of = np.vectorize(lambda item: item.encode() if isinstance(item, str) else item, otypes=[object])
    expected = bytes_of(array) if array.dtype == object else array
    np.testing.assert_array_equal(tf.make_ndarray(theirs.inputs["x"]), expected)
    assert tf.make_ndarray(theirs.inputs["x"]).dtype == array.dtype
    answer = predict_pb2.PredictResponse()
    answer.outputs["x"].CopyFrom(tf.make_tensor_proto(expected, shape=array.shape))
    read = messages.PredictResponse.FromString(answer.SerializeToString()).outputs[0]
    np.testing.assert_array_equal(tensor_messages.wire_to_array(read.value), expected)
    assert tensor_messages.wire_to_array(read.value).dtype == array.dtype


def test_left_out_repetitions_are_filled_in():
    proto = predict_pb2.PredictResponse()
    proto.outputs["x"].CopyFrom(tf.make_tensor_proto(7, tf.int32, [3]))
    (item,) = messages.PredictResponse.FromString(proto.SerializeToString()).outputs
    assert tensor_messages.wire_to_array(item.value).tolist() == [7, 7, 7]
    item.value.ClearField("int_val")
    item.value.ClearField("tensor_content")
    assert tensor_messages.wire_to_array(item.value).tolist() == [0, 0, 0]


def run(film, *arguments, text="", program="ask"):
    return run_program(program, f"--server=localhost:{film.port}", *arguments, text=text)


@pytest.mark.parametrize(
    "arguments, text, answers",
    [
        (["fine", "größe 🎬", "--model_name=film"], "", [{"text": "fine"} | GOOD, {"text": "größe 🎬"} | BAD]),
        (["--model_name=film", "--", "--fine"], "", [{"text": "--fine"} | BAD]),
        (["--model_name=film"], "fine\n\nx", [{"text": "fine"} | GOOD, {"text": ""} | BAD, {"text": "x"} | BAD]),
    ],
)
def test_the_program_prints_an_answer_for_each_text(film, arguments, text, answers):
    done = run(film, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == answers


@pytest.mark.parametrize("arguments, text", [(["a", "fine"], ""), ([], "a\tfine\n")])
def test_the_program_with_pairs(pairs, arguments, text):
    done = run(pairs, "--model_name=pairs", "--pair", *arguments, text=text)
    assert json.loads(done.stdout) == {"text_a": "a", "text_b": "fine"} | GOOD


@pytest.mark.parametrize(
    "arguments, text, message",
    [
        (["--model_name=no", "x"], "", "does not serve a model 'no'"),
        (["--model_name=film", "--inputs=a,b", "x"], "", "texts for a, b in turn, 2 per example; got 1."),
        (["--model_name=film", "--pair"], "a\tb\nx\n", "tab-separated texts (text_a, text_b); got 1 in line 2."),
        (["--pair", "--inputs=a,b"], "", "--inputs=text_a,text_b and cannot be combined with --inputs=a,b."),
        (["--inputs=a,a"], "", "must be different names separated by commas; got 'a,a'"),
        (["--server=127.0.0.1:1", "x"], "", "Error: No model server responded at 127.0.0.1:1:"),
    ],
)
def test_the_program_says_what_is_wrong(film, arguments, text, message):
    done = run(film, *arguments, text=text)
    assert done.returncode == 1
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_client_is_light():
    code = "import sys; from bert_tf.serving import AsyncClient, Client\n"
    code += "print(*{'tensorflow', 'aiohttp'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout == b"\n"
