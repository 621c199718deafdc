"""Pickles, copies and forked children of what holds a loaded model."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import threading

import joblib
import numpy as np
import pytest

import bert_tf
from bert_tf import lite
from bert_tf.export.export_options import ExportOptions
from bert_tf.inference.search import Hit

TEXTS = ["the film is good .", "a bad story", "music"]
HITS = [[Hit("a", 0.5, "a good film", {}), Hit("b", 0.4, "music", {}), Hit("c", 0.3, "a bad film", {})]]


def _predictor(trained, exported, pretrained):
    return bert_tf.Predictor(trained("classification"))


def _of_export(trained, exported, pretrained):
    return bert_tf.Predictor(path=exported("classification"))


def _zero_shot(trained, exported, pretrained):
    return bert_tf.ZeroShot(trained("nli"), ["good", "bad"], "it is {} .")


def _encoder(trained, exported, pretrained):
    return bert_tf.SentenceEncoder(pretrained, normalize=True)


def _reranker(trained, exported, pretrained):
    return bert_tf.Reranker(trained("reranking"), weight=0.5)


def _lite(trained, exported, pretrained):
    return lite.Predictor(exported("classification", ExportOptions("float32", "litert")), 1)


MAKERS = {"trained": _predictor, "exported": _of_export, "zero-shot": _zero_shot, "encoder": _encoder,
          "reranker": _reranker, "litert": _lite}  # fmt: skip
QUICK = ("exported", "encoder")


@pytest.fixture(params=[pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MAKERS])
def made(request, trained, exported, pretrained):
    return MAKERS[request.param](trained, exported, pretrained)


def answer(made):
    """Returns what it computes, as nested numbers and strings."""
    if isinstance(made, bert_tf.Reranker):
        return [[hit.id, hit.score] for hits in made(["a film"], HITS) for hit in hits]
    if isinstance(made, bert_tf.SentenceEncoder):
        return made(TEXTS).tolist()
    return made(TEXTS)


def test_a_pickle_and_a_copy_load_the_model_when_they_are_used(made, tmp_path):
    data, expected = pickle.dumps(made), answer(made)
    assert len(data) < 2000  # no weights
    joblib.dump(made, tmp_path / "made.joblib")
    again, copied, twice = pickle.loads(data), copy.deepcopy(made), joblib.load(tmp_path / "made.joblib")
    for each in (again, copied, twice):
        assert "_waiting" in vars(each) and vars(each)["_made_of"] == vars(made)["_made_of"]
    twice = pickle.loads(pickle.dumps(copy.deepcopy(twice)))  # not loaded in between
    for each in (again, twice):
        assert answer(each) == expected and "_waiting" not in vars(each)


@pytest.fixture(scope="module")
def predictor(of_training):
    return of_training("classification")


def test_several_threads_load_it_once(predictor, monkeypatch):
    again = pickle.loads(pickle.dumps(predictor))
    made, init = [], bert_tf.Predictor.__init__
    monkeypatch.setattr(bert_tf.Predictor, "__init__", lambda *args, **given: (made.append(1), init(*args, **given))[1])
    together = threading.Barrier(4)

    def ask(text):
        together.wait()
        return again(text)["label"]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        labels = list(pool.map(ask, [TEXTS[0]] * 4))
    assert len(set(labels)) == 1 and made == [1]


@pytest.mark.slow
def test_a_pickle_finds_its_model_from_another_directory(exported, tmp_path, monkeypatch):
    folder = exported("classification")
    monkeypatch.chdir(os.path.dirname(folder))
    predictor = bert_tf.Predictor(os.path.basename(folder))
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickle.dumps(predictor))(TEXTS[0])["label"]


def test_a_list_that_the_caller_changes_is_kept_as_it_was(pretrained):
    poolings = ["mean", "max"]
    encoder = bert_tf.SentenceEncoder(pretrained, pooling=poolings)
    poolings.append("cls")
    assert encoder.width == pickle.loads(pickle.dumps(encoder)).width == 64


def test_a_model_in_memory_is_not_pickled(trained, predictor, monkeypatch):
    monkeypatch.setattr("bert_tf.inference.predictor._load_trained", lambda *_: predictor._model)  # traced before
    predictor = bert_tf.Predictor(bert_tf.load(trained("classification")))
    with pytest.raises(TypeError, match=r"A Predictor of a model in memory .* Save the model with `bert_tf.save`"):
        pickle.dumps(predictor)


def test_attributes_that_do_not_exist_are_said(pretrained):
    for encoder in (bert_tf.SentenceEncoder(pretrained), copy.copy(bert_tf.SentenceEncoder(pretrained))):
        with pytest.raises(AttributeError, match="'SentenceEncoder' object has no attribute 'nothing'"):
            _ = encoder.nothing
        assert not hasattr(encoder, "__array__")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_told_instead_of_hanging(predictor):
    context = multiprocessing.get_context("fork")
    predictor(TEXTS[0])
    said = context.SimpleQueue()

    def ask():
        try:
            said.put(str(predictor(TEXTS[0])))
        except RuntimeError as error:
            said.put(str(error))

    child = context.Process(target=ask)
    child.start()
    try:
        child.join(60)
        assert not child.is_alive()
    finally:
        child.kill()
        child.join()
    assert "was loaded before the process was forked" in said.get()
    assert predictor(TEXTS[0])["label"]  # the parent goes on


@pytest.mark.slow
def test_processes_that_are_spawned_compute_the_same(made):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(answer, [made])
    np.testing.assert_equal(found, answer(made))
