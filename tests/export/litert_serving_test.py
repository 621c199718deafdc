"""The server with a model.tflite: the answers of the file's signatures, over gRPC and REST, for many callers."""

import json
import os
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bert_tf.export.export_options import ExportOptions
from bert_tf.serving.client.client import Client
from bert_tf.serving.server.options import Bundle
from bert_tf.serving.server.server import serve
from bert_tf.serving.server.tflite_model import TFLITE_MODEL, TfliteModel
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
    """Returns the exit status of a trial in a fork, which has imported TensorFlow already."""
    process = processes.start(litert_trial.run_all_signatures, data)
    process.join(processes.LIMIT_S)
    return process.exitcode


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
    interpreter = interpreter_class()(model_path=os.path.join(ids_only, TFLITE_MODEL))
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
        ({key: [[]] for key in right}, "has none"),
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
    with open(os.path.join(ids_only, TFLITE_MODEL), "rb") as file:
        whole = file.read()
    for number, (data, words) in enumerate(((b"", "model"), (b"TFL3" * 100, "model"), (whole[:5000], "model")), 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / TFLITE_MODEL).write_bytes(data)
        with pytest.raises(ValueError, match=words):
            TfliteModel(str(folder))


def refusal(path, folder, name):
    """Returns the message with which a crafted file is refused."""
    with open(os.path.join(path, TFLITE_MODEL), "rb") as file:
        (folder / TFLITE_MODEL).write_bytes(crafted_litert(file.read())[name]())
    with pytest.raises(ValueError, match="LiteRT cannot .*; export it again") as refused:
        TfliteModel(str(folder)).prepare((), ())
    return str(refused.value)


def test_a_file_that_ends_the_process_is_tried_in_another(ids_only, tmp_path):
    said = refusal(ids_only, tmp_path, "ADD, no_first_input")
    assert "the file is damaged: a trial run in a child process ended with SIGSEGV" in said


@pytest.mark.slow
def test_the_trial_of_a_server(ids_only, tmp_path):
    assert "ended with SIGSEGV" in refusal(ids_only, tmp_path, "ADD, no_first_input")
    with open(os.path.join(ids_only, TFLITE_MODEL), "rb") as file:
        assert litert_trial._run_in_child(file.read()) == 0


def test_many_sequences_are_computed_in_parts_and_come_back_in_order(ids_only):
    bundle, asked = Bundle(prefer_tflite_model=True), sequences(150, 12)
    with serve(os.path.dirname(ids_only), bundle=bundle) as server, Client(f"localhost:{server.port}") as client:
        together = client.predict(asked)["start_logits"]
        for row in (0, 41, 149):
            alone = client.predict({key: value[row : row + 1] for key, value in asked.items()})["start_logits"]
            np.testing.assert_array_equal(together[row : row + 1], alone)


def test_no_sequences_have_no_answers(ids_only):
    with open(os.path.join(ids_only, TFLITE_MODEL), "rb") as file:
        runner = LitertRunner(file.read(), threads=1)
    outputs = runner(sequences(0, 4))
    assert runner.lengths == [8, LENGTH] and all(each.shape == (0, 4) for each in outputs.values())
