"""A SparseEncoder, exported: the indices and weights of its embeddings, from the graph of every kind of export."""

import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoints.loading import load_description
from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.export.export_options import FILES, ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.serving.client.client import Client
from bert_tf.serving.client.results import SparseEmbedding
from bert_tf.serving.server.server import serve
from bert_tf.serving.verification import verify
from bert_tf.tasks.sequences import encode_served_texts
from bert_tf.utils.litert_runner import interpreter_class
from tests.export.other_runtimes_test import LOADERS, RUNTIMES
from tests.parity import GOLDENS

FOLDER = GOLDENS / "sparse_encoder"
KEPT = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
TEXTS = KEPT["texts"]


def to_dense(answers, case="bert"):
    """Returns embeddings as vectors of all tokens, [n, V]."""
    vectors = np.zeros_like(KEPT[case])
    for row, answer in zip(vectors, answers, strict=True):
        row[answer["indices"]] = answer["weights"]
    return vectors


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return export_trained(str(FOLDER / "bert"), str(tmp_path_factory.mktemp("exports") / "splade"))


def features():
    """Returns the inputs of the model for each text alone."""
    description = load_description([FOLDER / "bert"])
    return [encode_served_texts(description.tokenizer, [tf.constant([text])], 12) for text in TEXTS]


@pytest.mark.slow
def test_an_export_answers_texts(exported):
    answers = bert_tf.Predictor(exported)(TEXTS)
    np.testing.assert_allclose(to_dense(answers), KEPT["bert"], atol=1e-5)
    assert [len(each["indices"]) for each in answers] == np.count_nonzero(KEPT["bert"], -1).tolist()
    assert all(each["weights"] == sorted(each["weights"], reverse=True) for each in answers)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bert", "distilbert"])
@pytest.mark.parametrize(
    ("dtype", "target", "tolerance"), [("float32", "cpu", 1e-5), ("int8", "cpu", 0.05), ("float32", "gpu", 1e-5)]
)
def test_every_export_computes_the_same(case, dtype, target, tolerance, tmp_path):
    path = export_trained(str(FOLDER / case), str(tmp_path), ExportOptions(dtype, target))
    np.testing.assert_allclose(to_dense(bert_tf.Predictor(path)(TEXTS), case), KEPT[case], atol=tolerance)
    assert [each.problems for each in verify(path)] == [[], []]


@pytest.mark.slow
def test_a_server_answers_clients(exported):
    base = os.path.dirname(exported)
    with serve(base, "splade", poll_seconds=0) as server, Client(f"localhost:{server.port}", "splade") as client:
        answers, typed = client.ask({"text": TEXTS}), client.ask({"text": TEXTS}, typed=True)
    np.testing.assert_allclose(to_dense(answers), KEPT["bert"], atol=1e-5)
    assert typed == [SparseEmbedding(tuple(each["indices"]), tuple(each["weights"])) for each in answers]


@pytest.mark.slow
def test_a_file_of_texts_is_answered(exported, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS if text), encoding="utf-8")
    found = list(bert_tf.Predictor(exported).predict_file(tmp_path / "texts.txt"))
    kept = [row for row, text in zip(KEPT["bert"], TEXTS, strict=True) if text]
    for row, answer in zip(kept, found, strict=True):
        np.testing.assert_allclose(np.array(row)[answer["indices"]], answer["weights"], atol=1e-5)


@pytest.mark.slow
def test_litert_computes_the_same(tmp_path):
    path = export_trained(str(FOLDER / "bert"), str(tmp_path), ExportOptions(export_for="litert"))
    run = interpreter_class()(model_content=pathlib.Path(path, "model.tflite").read_bytes())
    runner, answers = run.get_signature_runner("ids"), []
    length = runner.get_input_details()["input_ids"]["shape"][1]
    for each in features():
        rows = {name: np.pad(each[name], [(0, 0), (0, length - each[name].shape[1])]) for name in ENCODER_INPUTS}
        answers.append({name: values[0] for name, values in runner(**rows).items()})
    np.testing.assert_allclose(to_dense(answers), KEPT["bert"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", ["bert", "distilbert"])
def test_other_runtimes_compute_the_same(case, runtime, tmp_path):
    path = export_trained(str(FOLDER / case), str(tmp_path), ExportOptions(export_for=runtime))
    run = LOADERS[runtime](os.path.join(path, FILES[runtime]))
    answers = [run({name: each[name].numpy() for name in ENCODER_INPUTS}) for each in features()]
    found = to_dense([{name: values[0] for name, values in each.items()} for each in answers], case)
    if case == "bert":  # the other one reads longer texts
        np.testing.assert_allclose(found, KEPT[case], atol=1e-5)
    else:
        np.testing.assert_allclose(found[2:], KEPT[case][2:], atol=1e-5)
