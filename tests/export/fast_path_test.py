"""An export for CPUs answers few texts with LiteRT, and many with its SavedModel."""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import time
from concurrent import futures

import numpy as np
import pytest

import bert_tf
from bert_tf import lite
from bert_tf.export import fast_path
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained, load_trained_model
from bert_tf.lite.fast_path import FOLDER, INTERPRETERS, MOST_TEXTS, ONLY_SHORT, SPEED, FastPath, open_fast_path
from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.lite.text_model import LitertTextModel
from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import session_bundle
from bert_tf.serving.server.batching import Batcher
from bert_tf.serving.server.batching_limits import BatchingLimits
from bert_tf.serving.server.dtypes import STRING
from bert_tf.serving.server.model_registry import ModelRegistry
from bert_tf.serving.server.model_status import is_ready, ready
from bert_tf.serving.server.predict import check_input, run_predict
from bert_tf.serving.server.request_context import INTERNAL, RequestContext
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.session_bundle import Bundle, session_config
from bert_tf.serving.server.tensorflow_messages import model_pb2
from bert_tf.serving.server.tflite_texts import TfliteTexts
from bert_tf.serving.server.versions import Loading, ServedModel
from bert_tf.serving.verification import verify
from bert_tf.utils.litert_runner import LitertRunner
from tests.processor import needs_int8

INT8 = ExportOptions("int8", "cpu")
TEXT = "the film is a warm story"
MANY = [TEXT] * 9


def speed_of(most_texts):
    """Returns the contents of speed.json."""
    return json.dumps({MOST_TEXTS: most_texts, INTERPRETERS: 2, ONLY_SHORT: False})


@pytest.fixture
def version(exported, tmp_path):
    """An export of a classifier of which LiteRT answers up to four short texts."""
    path = tmp_path / "models" / "1"
    shutil.copytree(exported("classification", INT8), path)
    assert json.loads((path / FOLDER / SPEED).read_text())[MOST_TEXTS].keys() == {"8", "16"}
    (path / FOLDER / SPEED).write_text(speed_of({"8": 4, "16": 4}))
    return path


@pytest.mark.slow
@needs_int8
def test_an_export_does_not_warn_of_its_sample_texts(trained, tmp_path, caplog):
    export_trained(str(trained("classification")), str(tmp_path / "export"), INT8)
    assert "unknown" not in caplog.text


def probabilities(answers):
    return np.array([list(each["probabilities"].values()) for each in answers])


def answers_by(version, engine, texts):
    return probabilities(bert_tf.Predictor(version, engine=engine)(texts))


def test_few_texts_get_the_answers_of_litert_and_many_those_of_the_saved_model(version):
    by_litert, by_saved_model = (answers_by(version, engine, MANY) for engine in ("litert", "saved_model"))
    assert 0 < np.abs(by_litert - by_saved_model).max() < 0.05
    auto = bert_tf.Predictor(version)
    np.testing.assert_array_equal(probabilities(auto(MANY)), by_saved_model)
    np.testing.assert_array_equal(probabilities(auto(MANY[:4])), by_litert[:4])
    assert auto.token_counts.total.texts == len(MANY) + 4
    np.testing.assert_array_equal(probabilities(lite.Predictor(version.parent)(MANY)), by_litert)


@pytest.mark.slow
def test_the_rows_of_a_file_are_all_answered_by_the_saved_model(version, tmp_path):
    (tmp_path / "texts.txt").write_text(f"{TEXT}\n")
    found = list(bert_tf.Predictor(version).predict_file(tmp_path / "texts.txt"))
    np.testing.assert_array_equal(probabilities(found), answers_by(version, "saved_model", [TEXT]))


@pytest.mark.parametrize(
    "engine, texts, by",
    [
        ("auto", [TEXT.encode()], "litert"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("auto", [TEXT.encode()] * 5, "saved_model"),
                ("auto", [TEXT.encode() + b"\xff"], "litert"),  # as both drop the byte
                ("saved_model", [TEXT.encode()], "saved_model"),
                ("litert", [TEXT.encode()] * 5, "litert"),
                ("saved_model", [TEXT.encode() + b"\xff"], "saved_model"),
                ("litert", [TEXT.encode() + b"\xff"], "litert"),
            )
        ),
    ],
)
def test_a_server_asks_the_engine_that_is_faster(version, engine, texts, by):
    model = ServedModel("film", str(version.parent), loading=Loading(Bundle(engine=engine)))
    model.poll()
    with model.lease() as served:
        signature, before = served.model.signatures["serving_default"], served.model.token_counts.total.texts
        found = run_predict(served, signature, {"text": np.array(texts, object)}, ["label", "probabilities"])
        assert served.model.token_counts.total.texts - before == len(texts)
    model.close()
    assert set(found) == {"label", "probabilities"}
    np.testing.assert_allclose(found["probabilities"], answers_by(version, by, [TEXT] * len(texts)), rtol=1e-6)


def test_texts_that_wait_together_are_answered_as_one_request_of_them_would_be(version):
    batcher = Batcher(BatchingLimits(num_batch_threads=1))
    model = ServedModel("film", str(version.parent), loading=Loading(Bundle(), batcher_of=lambda _: (batcher, False)))
    model.poll()
    with model.lease() as served, futures.ThreadPoolExecutor(len(MANY)) as pool:
        ask = functools.partial(run_predict, served, served.model.signatures["serving_default"])
        texts = {"text": np.array([TEXT.encode()], object)}
        alone = ask(texts)["probabilities"]
        with batcher._turns:  # as if another batch were running
            waiting = [pool.submit(ask, texts) for _ in MANY]
            while len(batcher._queue) < len(MANY):
                time.sleep(0.001)
        together = np.concatenate([each.result(60)["probabilities"] for each in waiting])
    model.close()
    batcher.close()
    np.testing.assert_allclose(alone, answers_by(version, "litert", [TEXT]), rtol=1e-6)
    np.testing.assert_allclose(together, answers_by(version, "saved_model", MANY), rtol=1e-6)


def test_litert_answers_no_text_without_a_batch_axis(version):
    """Its characters would be taken for texts."""
    assert not open_fast_path(str(version), 1).takes({"text": np.array(TEXT.encode(), object)})
    signature = TfliteTexts(str(version)).signatures["serving_default"]
    check_input(signature, "text", STRING.as_datatype_enum, [1])
    with pytest.raises(ServingError, match=r"The input text must have the shape \[\?\] and has \[\]"):
        check_input(signature, "text", STRING.as_datatype_enum, [])


def test_a_version_without_litert_is_refused_if_it_must_answer(exported):
    with pytest.raises(ValueError, match=r"`engine=litert` requires a version with .* which .* lacks"):
        bert_tf.Predictor(exported("classification"), engine="litert")
    with pytest.raises(ValueError, match="`engine` must be one of auto, litert, saved_model; got 'lite'"):
        bert_tf.Predictor(exported("classification"), engine="lite")
    assert open_fast_path(exported("classification"), 1) is None


DAMAGE = {
    SPEED: (lambda data: b"{}", r"speed.json must contain 'most_texts' by length, .*; got '\{\}'. Export"),
    MODEL_FILE: (lambda data: data[:1000], r"model.tflite must be a .tflite file exported by bert_tf"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [SPEED, pytest.param(MODEL_FILE, marks=pytest.mark.slow)])
def test_with_a_damaged_file_the_saved_model_answers(version, name, caplog):
    damage, message = DAMAGE[name]
    expected = answers_by(version, "saved_model", [TEXT])
    file = version / FOLDER / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=message):
        FastPath(str(version), 1)
    with caplog.at_level("WARNING"):
        assert open_fast_path(str(version), 1) is None
    assert re.search(f"is not used, and the SavedModel answers all requests: .*{message}", caplog.text)
    np.testing.assert_array_equal(answers_by(version, "auto", [TEXT]), expected)


def test_only_the_lengths_that_are_faster_are_prepared_and_asked(version, monkeypatch):
    (version / FOLDER / SPEED).write_text(speed_of({"8": 4, "16": 0}))
    widths, call = [], LitertRunner.__call__

    def noted(self, features):
        widths.append(features["input_ids"].shape)
        return call(self, features)

    monkeypatch.setattr(LitertRunner, "__call__", noted)
    fast_path = open_fast_path(str(version), 2, is_warmed=True)
    assert fast_path.lengths == [8] and widths == [(1, 8)] * 2  # with each interpreter
    few, many = ({"text": np.array([b"a film" * n], object)} for n in (1, 9))
    assert fast_path.takes(few) and not fast_path.takes(many)
    assert open_fast_path(str(version), 2, engine="litert").lengths == [8, 16]
    (version / FOLDER / SPEED).write_text(speed_of({"8": 0, "16": 0}))
    assert open_fast_path(str(version), 2) is None


@pytest.mark.slow
def test_a_request_waits_for_an_interpreter_that_is_in_use(version):
    """The SavedModel would take longer; a caller who has gone is not answered."""
    model = ServedModel("film", str(version.parent), loading=Loading(Bundle()))
    model.poll()
    texts = {"text": np.array([TEXT.encode()], object)}
    with model.lease() as served, contextlib.ExitStack() as taken:
        signature = served.model.signatures["serving_default"]
        ask = functools.partial(run_predict, served, signature, texts, ["probabilities"])
        for _ in range(served.compute.fast_path.size):
            taken.enter_context(served.compute.turns.turn(INTERNAL))
        with pytest.raises(ServingError, match="The client disconnected"):
            ask(call=RequestContext(is_gone=lambda: True))
        with futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ask)
            while not served.compute.turns.waiting:
                time.sleep(0.001)
            taken.close()
            found = waiting.result(60)
    model.close()
    np.testing.assert_allclose(found["probabilities"], answers_by(version, "litert", [TEXT]), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", "litert"])
def test_a_version_is_ready_once_all_graphs_have_computed(version, engine, monkeypatch):
    """Then the first request is as quick as later ones, over REST and, with grpc.health.v1, over gRPC."""
    config = session_config(threads={"intra": 2, "inter": 2})
    loading = Loading(Bundle(engine=engine, session_config=config))
    registry = ModelRegistry([ServedModel("film", str(version.parent), loading=loading)])
    computed, call, fetched, run = [], LitertRunner.__call__, [], SavedModel.run

    def noted_call(self, features):
        computed.append((id(self), features["input_ids"].shape[1], is_ready(ready(registry))))
        return call(self, features)

    def noted_run(self, feeds, fetches):
        fetched.append((tuple(fetches), is_ready(ready(registry))))
        return run(self, feeds, fetches)

    monkeypatch.setattr(LitertRunner, "__call__", noted_call)
    monkeypatch.setattr(SavedModel, "run", noted_run)
    assert not is_ready(ready(registry))
    registry.poll()
    assert is_ready(ready(registry))
    assert not any(was_ready for *_, was_ready in computed + fetched)
    graphs = [runner for runner, length, _ in computed if length == 16]  # the longest
    assert len(graphs) == len(set(graphs)) == 2  # of each interpreter
    with registry.lease(model_pb2.ModelSpec(name="film")) as served:
        key = served.model.signatures["serving_default"].key[1]
        assert engine == "litert" or (key, False) in fetched
    registry.close()


@pytest.mark.slow
@pytest.mark.parametrize("threads, expected", [({}, [1, 1, 2]), ({"intra": 1}, [1, 1, 1]), ({"inter": 1}, [1, 1, 2])])
@pytest.mark.parametrize("engine", ["auto", "litert"])
def test_litert_takes_as_many_threads_as_operations_may(version, engine, threads, expected, monkeypatch):
    made, make = [], LitertTextModel.make_runner
    monkeypatch.setattr(LitertTextModel, "make_runner", lambda self, n: made.append(n) or make(self, n))
    monkeypatch.setattr(session_bundle, "cores", lambda: 2)
    bundle = Bundle(engine=engine, session_config=session_config(threads=threads), enable_model_warmup=False)
    model = ServedModel("film", str(version.parent), loading=Loading(bundle))
    model.poll()
    assert model.available() == {1} and sorted(made) == expected  # the first is asked for the lengths only
    model.close()


@pytest.mark.slow
def test_golden_requests_hold_for_both(version):
    verdicts = verify(str(version))
    assert [each.signature for each in verdicts] == [
        "serving_default", "ids", "classify", "serving_default (LiteRT)"
    ]  # fmt: skip
    assert not any(each.problems for each in verdicts) and verdicts[-1].requests == verdicts[0].requests


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classification", "local", "disentangled"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 2e-2), ("int8", 5e-2)])
def test_short_texts_of_every_precision_get_the_same_answers_from_both(
    trained, tmp_path, monkeypatch, name, dtype, tolerance
):
    monkeypatch.setattr(fast_path, "_LONGEST", {"float32": 12, "int8": 12})
    monkeypatch.setattr(fast_path, "_most_texts", lambda *_: 2)  # what is measured depends on the machine
    monkeypatch.setattr(fast_path, "_MOST_PACKED", 2**20)
    version = export_trained(str(trained(name)), str(tmp_path / "models"), ExportOptions(dtype, "cpu"))
    by_litert, by_saved_model = (answers_by(version, engine, [TEXT, "cold"]) for engine in ("litert", "saved_model"))
    np.testing.assert_allclose(by_litert, by_saved_model, atol=tolerance)
    assert np.abs(by_litert - by_saved_model).max() > 0
    auto, long = bert_tf.Predictor(version), f"{TEXT} and {TEXT}"
    np.testing.assert_array_equal(probabilities(auto([TEXT, "cold"])), by_litert)
    np.testing.assert_array_equal(probabilities(auto([long])), answers_by(version, "saved_model", [long]))
    *of_saved_model, of_litert = verify(version)
    assert not any(each.problems for each in (*of_saved_model, of_litert))
    takes_all = name == "classification"
    assert 0 < of_litert.requests <= of_saved_model[0].requests
    assert (of_litert.requests == of_saved_model[0].requests) == takes_all  # one has a longer text
    if takes_all:
        found = probabilities(lite.Predictor(version)([long]))
        np.testing.assert_array_equal(found, answers_by(version, "litert", [long]))
    elif dtype != "int8":
        with pytest.raises(ValueError, match="LiteRT's model in .* answers only short texts"):
            lite.Predictor(version)
    speed = json.loads(pathlib.Path(version, FOLDER, SPEED).read_text())
    assert speed[INTERPRETERS] > 4 and open_fast_path(version, 9).size == 4


@pytest.mark.slow
def test_float_graphs_that_do_not_pay_are_not_kept(trained, tmp_path, monkeypatch):
    options = ExportOptions("bfloat16", "cpu").fast_path
    assert options == ExportOptions("float32", "litert") and ExportOptions("float32").fast_path is None
    served = load_trained_model(str(trained("classification")), options=options).served(options)
    monkeypatch.setattr(fast_path, "_most_texts", lambda *_: 0)
    fast_path.write_fast_path(str(tmp_path), served, {}, None)
    assert not (tmp_path / FOLDER).exists()
    one_layer = 4 * (4 * 32 * 32 + 2 * 32 * 64)  # bytes
    monkeypatch.setattr(fast_path, "_most_texts", None)
    for graphs, is_any in ((1, True), (2, False)):  # which have no room with the head's weights
        monkeypatch.setattr(fast_path, "_MOST_PACKED", graphs * one_layer)
        if not is_any:
            monkeypatch.setattr(fast_path, "any_length", lambda served: {})
        fast_path.write_fast_path(str(tmp_path), served, {}, None)
        assert not (tmp_path / FOLDER).exists()


@pytest.mark.slow
def test_models_that_litert_cannot_compute_have_a_saved_model_only(exported):
    assert not os.path.exists(os.path.join(exported("lstm", INT8), FOLDER))
