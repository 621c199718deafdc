"""An export for CPUs answers few texts with LiteRT, and many with its SavedModel."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest

import bert_tf
from bert_tf import lite
from bert_tf.export import fast_path
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained, load_trained_model
from bert_tf.lite.fast_path import FOLDER, INTERPRETERS, MOST_TEXTS, ONLY_SHORT, SPEED, open_fast_path
from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.serving.server.predict import run_predict
from bert_tf.serving.server.session_bundle import Bundle
from bert_tf.serving.server.versions import Loading, ServedModel
from bert_tf.serving.verification import verify

INT8 = ExportOptions("int8", "cpu")
TEXT = "the film is a warm story"
MANY = [TEXT] * 9


@pytest.fixture
def version(exported, tmp_path):
    """An export of a classifier of which LiteRT answers up to four short texts."""
    path = tmp_path / "models" / "1"
    shutil.copytree(exported("classification", INT8), path)
    assert json.loads((path / FOLDER / SPEED).read_text())[MOST_TEXTS].keys() == {"8", "16"}
    (path / FOLDER / SPEED).write_text(json.dumps({MOST_TEXTS: {"8": 4, "16": 4}, INTERPRETERS: 2, ONLY_SHORT: False}))
    return path


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


def test_the_rows_of_a_file_are_all_answered_by_the_saved_model(version, tmp_path):
    (tmp_path / "texts.txt").write_text(f"{TEXT}\n")
    found = list(bert_tf.Predictor(version).predict_file(tmp_path / "texts.txt"))
    np.testing.assert_array_equal(probabilities(found), answers_by(version, "saved_model", [TEXT]))


@pytest.mark.parametrize(
    "engine, texts, by",
    [
        ("auto", [TEXT.encode()], "litert"),
        ("auto", [TEXT.encode()] * 5, "saved_model"),
        ("saved_model", [TEXT.encode()], "saved_model"),
        ("litert", [TEXT.encode()] * 5, "litert"),
        ("auto", [TEXT.encode() + b"\xff"], "saved_model"),  # whose graph drops the byte
        ("litert", [TEXT.encode() + b"\xff"], "litert"),
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


def test_a_version_without_litert_is_refused_if_it_must_answer(exported):
    with pytest.raises(ValueError, match=r"`engine=litert` requires a version with .* which .* lacks"):
        bert_tf.Predictor(exported("classification"), engine="litert")
    with pytest.raises(ValueError, match="`engine` must be one of auto, litert, saved_model; got 'lite'"):
        bert_tf.Predictor(exported("classification"), engine="lite")
    assert open_fast_path(exported("classification"), 1) is None


def test_damaged_files_are_named(version):
    (version / FOLDER / SPEED).write_text("{}")
    with pytest.raises(ValueError, match=r"speed.json must hold 'most_texts' by length, .*; got '\{\}'. Export"):
        open_fast_path(str(version), 1)
    file = version / FOLDER / MODEL_FILE
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"model.tflite must be a .tflite file exported by bert_tf"):
        open_fast_path(str(version), 1)


def test_golden_requests_hold_for_both(version):
    verdicts = verify(str(version))
    assert [each.signature for each in verdicts] == [
        "serving_default", "ids", "classify", "serving_default (LiteRT)"
    ]  # fmt: skip
    assert not any(each.problems for each in verdicts) and verdicts[-1].requests == verdicts[0].requests


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        ("classification", "float32", 1e-4),
        *(
            pytest.param(name, dtype, tolerance, marks=pytest.mark.slow)
            for name in ("classification", "local", "disentangled")
            for dtype, tolerance in (("float32", 1e-4), ("bfloat16", 2e-2), ("int8", 5e-2))
            if (name, dtype) != ("classification", "float32")
        ),
    ],
)
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
    assert 0 < of_litert.requests < of_saved_model[0].requests  # one has a longer text
    if dtype != "int8":
        with pytest.raises(ValueError, match="LiteRT's model in .* answers only short texts"):
            lite.Predictor(version)
    speed = json.loads(pathlib.Path(version, FOLDER, SPEED).read_text())
    assert speed[INTERPRETERS] > 4 and len(open_fast_path(version, 4)._pool._idle) == 4


def test_float_graphs_that_do_not_pay_are_not_kept(trained, tmp_path, monkeypatch):
    options = ExportOptions("bfloat16", "cpu").fast_path
    assert options == ExportOptions("float32", "litert") and ExportOptions("float32").fast_path is None
    served = load_trained_model(str(trained("classification")), options=options).served(options)
    monkeypatch.setattr(fast_path, "_most_texts", lambda *_: 0)
    fast_path.write_fast_path(str(tmp_path), served, {}, None)
    assert not (tmp_path / FOLDER).exists()
    one_layer = 4 * (4 * 32 * 32 + 2 * 32 * 64)  # bytes
    monkeypatch.setattr(fast_path, "_MOST_PACKED", 2 * one_layer)
    monkeypatch.setattr(fast_path, "_most_texts", None)
    fast_path.write_fast_path(str(tmp_path), served, {}, None)  # two lengths have no room with the head's weights
    assert not (tmp_path / FOLDER).exists()


def test_models_that_litert_cannot_compute_have_a_saved_model_only(exported):
    assert not os.path.exists(os.path.join(exported("lstm", INT8), FOLDER))
