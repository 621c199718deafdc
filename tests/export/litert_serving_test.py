"""The server with a model.tflite: the answers of the file's signatures, over gRPC and REST, for many callers."""

import json
import os
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import flatbuffers
import numpy as np
import pytest
import tensorflow as tf
from flatbuffers import flexbuffers
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.lite.python import schema_py_generated as schema

from bert_tf.export.export_options import ExportOptions
from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.session_bundle import Bundle
from bert_tf.serving.server.tflite_model import TfliteModel
from bert_tf.utils import litert_trial
from bert_tf.utils.litert_runner import LitertRunner, interpreter_class
from tests import processes, tiny
from tests.export.hostile_litert import crafted_litert
from tests.export.models import LENGTH

LITERT = ExportOptions(export_for="litert")


def sequences(count, width, seed=0):
    """Returns {input: int32 [count, width]} with two texts each; the last of several is a token shorter."""
    ids = np.random.default_rng(seed).integers(5, len(tiny.VOCAB), (count, width)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[1:, -1] = 0
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": (np.arange(width) > 5).astype(np.int32) * mask}


def forked(data):
    """Returns the exit status of a trial in a fork, which has imported TensorFlow already, and no errors."""
    process = processes.start(litert_trial.run_all_signatures, data)
    process.join(processes.LIMIT_S)
    return process.exitcode, ""


@pytest.fixture(autouse=True)
def fast_trials(request, monkeypatch):
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(litert_trial, "_run_in_child", forked)


@pytest.fixture
def ids_only(exported):
    return exported("questions", LITERT)


@pytest.fixture
def server(ids_only):
    bundle = Bundle(prefer_tflite_model=True, num_tflite_pools=2)
    with serve(os.path.dirname(ids_only), bundle=bundle) as server:
        yield server


def ask_rest(server, body):
    url = f"http://localhost:{server.rest_port}/v1/models/default:predict"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())) as answer:
        return json.load(answer)


def test_it_answers_as_the_file_does_whatever_the_length(ids_only, server):
    interpreter = interpreter_class()(model_path=os.path.join(ids_only, MODEL_FILE))
    with Client(f"localhost:{server.port}") as client:
        assert list(client.signatures()) == ["serving_default"]
        for name, length, width in (("ids_8", 8, 7), ("ids", LENGTH, 12), ("ids", LENGTH, LENGTH)):
            feeds, answers = sequences(3, width), []
            for i in range(3):
                row = {key: np.pad(value[i : i + 1], [(0, 0), (0, length - width)]) for key, value in feeds.items()}
                answers.append(interpreter.get_signature_runner(name)(**row))
            found = client.predict(feeds)
            rest = ask_rest(server, {"inputs": {key: value.tolist() for key, value in feeds.items()}})["outputs"]
            for output in ("start_logits", "end_logits"):
                wanted = np.concatenate([each[output] for each in answers])[:, :width]
                np.testing.assert_array_equal(found[output], wanted)
                np.testing.assert_allclose(rest[output], wanted, rtol=1e-6)


def test_many_callers_at_a_time_get_their_own_answers(server):
    asked = [sequences(2, 5 + number % 12, seed=number) for number in range(24)]
    with Client(f"localhost:{server.port}") as client:
        alone = [client.predict(each)["start_logits"] for each in asked]
        with ThreadPoolExecutor(8) as callers:
            together = list(callers.map(lambda each: client.predict(each)["start_logits"], asked))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_it_cannot_compute_is_refused_and_loses_nothing(server):
    right = {key: value.tolist() for key, value in sequences(1, 8).items()}
    too_long = {key: value.tolist() for key, value in sequences(1, LENGTH + 1).items()}
    unequal = right | {"segment_ids": [[0] * 7]}
    flat = right | {"input_ids": right["input_ids"][0]}
    unknown = [right | {"input_ids": [[number] * 8]} for number in (9_999, 8_888)]
    refusals = (
        (flat, "must have 2 axes"),
        ({key: [[]] for key in right}, "must have at least one token per sequence; got none"),
        (too_long, f"may have {LENGTH} tokens in a sequence and has {LENGTH + 1}"),
        (unequal, "shape"),
        ({"input_ids": right["input_ids"]}, "input_mask"),
    )
    for body, words in refusals:
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask_rest(server, {"inputs": body})
        assert refused.value.code == 400 and words in json.load(refused.value)["error"]
    for body in 2 * unknown:
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask_rest(server, {"inputs": body})
        said = json.load(refused.value)["error"]
        assert said.startswith("LiteRT rejects these inputs:") and said.count("out of bounds") < 2 and len(said) < 400
    assert ask_rest(server, {"inputs": right})["outputs"]


def test_a_file_that_is_damaged_or_of_others_is_refused(ids_only, tmp_path):
    with open(os.path.join(ids_only, MODEL_FILE), "rb") as file:
        whole = file.read()
    for number, (data, words) in enumerate(((b"", "model"), (b"TFL3" * 100, "model"), (whole[:5000], "model")), 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / MODEL_FILE).write_bytes(data)
        with pytest.raises(ValueError, match=words):
            TfliteModel(str(folder))


def refusal(path, folder, name):
    """Returns the message with which a crafted file is refused."""
    with open(os.path.join(path, MODEL_FILE), "rb") as file:
        (folder / MODEL_FILE).write_bytes(crafted_litert(file.read())[name]())
    with pytest.raises(ValueError, match="LiteRT cannot .*; export it again") as refused:
        TfliteModel(str(folder)).prepare((), ())
    return str(refused.value)


def test_a_file_that_ends_the_process_is_tried_in_another(ids_only, tmp_path):
    said = refusal(ids_only, tmp_path, "ADD, no_first_input")
    assert "the file is damaged: a trial run in a child process ended with SIGSEGV" in said


def test_a_file_that_cannot_be_tried_is_not_loaded(ids_only, monkeypatch):
    monkeypatch.setattr(litert_trial, "_passed", set())
    monkeypatch.setattr(litert_trial, "_run_in_child", lambda data: (-9, ""))
    with pytest.raises(OSError, match="model.tflite is not loaded, because it could not be tried: .*SIGKILL") as said:
        TfliteModel(ids_only)
    assert "export it again" not in str(said.value)


def test_integers_of_8_bits_are_tried_too():
    @tf.function(input_signature=[tf.TensorSpec([1, 1], tf.int8, "x")])
    def half(x):
        return tf.cast(x, tf.float32) / 2

    data = tf.lite.TFLiteConverter.from_concrete_functions([half.get_concrete_function()]).convert()
    assert forked(data) == (0, "")


@pytest.mark.slow
def test_the_trial_of_a_server(ids_only, tmp_path):
    assert "ended with SIGSEGV" in refusal(ids_only, tmp_path, "ADD, no_first_input")
    with open(os.path.join(ids_only, MODEL_FILE), "rb") as file:
        assert litert_trial._run_in_child(file.read())[0] == 0


def test_many_sequences_are_computed_in_parts_and_come_back_in_order(ids_only):
    bundle, asked = Bundle(prefer_tflite_model=True), sequences(150, 12)
    with serve(os.path.dirname(ids_only), bundle=bundle) as server, Client(f"localhost:{server.port}") as client:
        together = client.predict(asked)["start_logits"]
        for row in (0, 41, 149):
            alone = client.predict({key: value[row : row + 1] for key, value in asked.items()})["start_logits"]
            np.testing.assert_array_equal(together[row : row + 1], alone)


def test_no_sequences_have_no_answers(ids_only):
    with open(os.path.join(ids_only, MODEL_FILE), "rb") as file:
        runner = LitertRunner(file.read(), threads=1)
    outputs = runner(sequences(0, 4))
    assert runner.lengths == [8, LENGTH] and all(each.shape == (0, 4) for each in outputs.values())


def half_plus_two(folder, with_signature=False):
    """Writes a file of others into `folder`: x / 2 + 2, if wanted with a signature in which x is `number`."""

    @tf.function(input_signature=[tf.TensorSpec([1, 1], tf.float32, "x")])
    def half(x):
        return x / 2 + 2

    data = tf.lite.TFLiteConverter.from_concrete_functions([half.get_concrete_function()]).convert()
    if with_signature:
        output = interpreter_class()(model_content=data).get_output_details()[0]["name"]
        definition = meta_graph_pb2.SignatureDef(method_name="tensorflow/serving/predict")
        for infos, alias, tensor in ((definition.inputs, "number", "x:0"), (definition.outputs, "half", output)):
            infos[alias].CopyFrom(meta_graph_pb2.TensorInfo(name=tensor, dtype=types_pb2.DT_FLOAT))
            infos[alias].tensor_shape.dim.add(size=-1)
        data = with_signatures(data, {"serving_default": definition})
    folder.mkdir(parents=True)
    (folder / MODEL_FILE).write_bytes(data)


def with_signatures(data, definitions):
    """Adds SignatureDefs to a file, as TensorFlow's converter did before LiteRT had signatures of its own."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, definition in definitions.items():
            builder.Key(name)
            builder._WriteBlob(definition.SerializeToString(), append_zero=True, type_=flexbuffers.Type.STRING)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    entry, buffer = schema.MetadataT(), schema.BufferT()
    entry.name, entry.buffer, buffer.data = "signature_defs_metadata", len(model.buffers), list(builder.Finish())
    model.metadata = [*(model.metadata or []), entry]
    model.buffers.append(buffer)
    file = flatbuffers.Builder()
    file.Finish(model.Pack(file), b"TFL3")
    return bytes(file.Output())


@pytest.mark.parametrize("with_signature", [False, True])
def test_a_file_of_others_is_served_as_tensorflow_serving_does(tmp_path, with_signature):
    half_plus_two(tmp_path / "1", with_signature)
    bundle = Bundle(prefer_tflite_model=True)
    with serve(str(tmp_path), bundle=bundle) as server, Client(f"localhost:{server.port}") as client:
        signature = client.signatures()["serving_default"]
        (x,), (y,) = signature.inputs, signature.outputs
        assert x == ("number" if with_signature else "x")
        for value in ([2.0], [[2.0]], [[1.0], [2.0], [4.0]], [2.0]):
            wanted = np.reshape(np.array(value) / 2 + 2, [-1, 1])
            np.testing.assert_array_equal(client.predict({x: np.array(value, np.float32)})[y], wanted)
        assert ask_rest(server, {"instances": [2.0, 4.0]})["predictions"] == [[3.0], [4.0]]
        for wrong, words in (([[1.0, 2.0]], "x must have the shape [?, 1] and has [1, 2]"), ([], "at least one")):
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask_rest(server, {"inputs": wrong})
            assert refused.value.code == 400 and words in json.load(refused.value)["error"]
        assert client.predict({x: np.float32([2.0])})[y].tolist() == [[3.0]]


def test_a_signature_of_another_file_is_refused(tmp_path):
    half_plus_two(tmp_path / "1", with_signature=True)
    data = (tmp_path / "1" / MODEL_FILE).read_bytes()
    (tmp_path / "1" / MODEL_FILE).write_bytes(data.replace(b"\x03x:0", b"\x03z:0"))
    with pytest.raises(ValueError, match="its signature serving_default has number in an unknown tensor, 'z'"):
        TfliteModel(str(tmp_path / "1"))
