"""`BertEmbedder` gives what `bert.features` gives, and is a good citizen of scikit-learn."""

import pickle
import shutil
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline

import bert_tf
from bert_tf.sklearn import embedder
from tests import tiny
from tests.fake_pandas import DataFrame, Series
from tests.sentence_folders import write

TEXTS, LABELS = (list(column) for column in zip(*tiny.texts(48, names=("bad", "good")), strict=True))


@pytest.fixture(scope="module", autouse=True)
def _eagerly():
    """Tracing each encoder for a few sentences would be most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("model"))


@pytest.mark.slow
def test_it_gives_what_features_gives(folder):
    embedder = bert_tf.sklearn.BertEmbedder(folder, layers=[-1, 0], pooling="max", max_seq_length=8)
    vectors = embedder.fit_transform(np.array(TEXTS))
    expected = bert_tf.load(folder).features(TEXTS, layers=[-1, 0], pooling="max", max_seq_length=8)
    assert vectors.dtype == np.float32 and vectors.shape == (48, 64)
    np.testing.assert_array_equal(vectors, expected)
    np.testing.assert_array_equal(embedder.transform(Series(TEXTS, range(48)[::-1])), expected)
    assert embedder.get_feature_names_out()[-1] == "bertembedder63"
    again = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_array_equal(again.transform(TEXTS), vectors)
    assert clone(again).get_params() == embedder.get_params()


def test_lengths_are_one_where_asked(folder):
    vectors = bert_tf.sklearn.BertEmbedder(folder, normalize=True, precision="mixed_bfloat16").fit_transform(TEXTS[:5])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, rtol=1e-5)


def test_auto_is_the_fastest_precision_of_the_machine(folder, monkeypatch):
    monkeypatch.setattr(embedder, "fastest_precision", lambda: ("mixed_bfloat16", "because"))
    auto, named = (bert_tf.sklearn.BertEmbedder(folder, precision=name) for name in ("auto", "mixed_bfloat16"))
    np.testing.assert_array_equal(auto.fit_transform(TEXTS[:3]), named.fit_transform(TEXTS[:3]))
    assert auto.get_params()["precision"] == "auto"


@pytest.mark.slow
def test_a_prompt_is_put_before_every_text(folder, tmp_path):
    texts = TEXTS[:5]
    path = shutil.copytree(folder, tmp_path / "model")
    prompts = {"prompts": {"search": "to see "}, "default_prompt_name": "search"}
    for include in (True, False):
        pooling = {"pooling_mode": "mean", "include_prompt": include}
        write(path, config_sentence_transformers=prompts, **{"1_Pooling__config": pooling})
        embedder = bert_tf.sklearn.BertEmbedder(path, prompt_name="search")
        vectors = embedder.fit_transform(DataFrame({"text": texts}))
        np.testing.assert_array_equal(vectors, bert_tf.SentenceEncoder(path)(texts))
        again = pickle.loads(pickle.dumps(clone(embedder).set_params(prompt_name=None, prompt="to see ").fit(texts)))
        np.testing.assert_array_equal(again.transform(texts), vectors)
    plain = bert_tf.sklearn.BertEmbedder(path).fit_transform(texts)
    np.testing.assert_array_equal(plain, bert_tf.load(folder).features(texts))
    with pytest.raises(ValueError, match="`prompt_name` must be one of the model's prompts: search; got 'query'"):
        embedder.set_params(prompt_name="query").fit(texts)


def test_the_output_is_a_table_of_pandas_where_that_is_set(folder, monkeypatch):
    class Frame:
        def __init__(self, values, index=None, copy=None):
            self.values, self.index = values, index

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=Frame, Series=Series))
    embedder = bert_tf.sklearn.BertEmbedder(folder).set_output(transform="pandas")
    frame = embedder.fit_transform(Series(TEXTS[:3], [5, 6, 7]))
    assert isinstance(frame, Frame) and frame.values.shape == (3, 32) and frame.index == [5, 6, 7]
    assert frame.columns.tolist() == [f"bertembedder{n}" for n in range(32)]


@pytest.mark.slow
def test_a_search_over_a_pipeline(folder):
    embedder = bert_tf.sklearn.BertEmbedder(folder, layers="embeddings")
    pipeline = make_pipeline(embedder, LogisticRegression(C=100, max_iter=1000))
    grid = {"bertembedder__pooling": ["last_token", "max"]}  # the last is [SEP] with its position, the same for all
    split = ShuffleSplit(1, test_size=12, random_state=0)
    search = GridSearchCV(pipeline, grid, cv=split, error_score="raise").fit(TEXTS, LABELS)
    assert search.best_params_ == {"bertembedder__pooling": "max"} and search.score(TEXTS, LABELS) > 0.9


@pytest.mark.parametrize(
    ("options", "texts", "message"),
    [
        ({}, "one text", "`X` must be several texts, .*got one text, 'one text'; put it in a list"),
        ({}, [], "`X` is empty"),
        ({}, ["film", 3], "`X` must be strings; got int at position 1: '3'"),
        ({}, DataFrame({"a": ["x"], "b": ["y"]}), "`X` must have one column of texts; got a DataFrame of 2: a, b"),
        ({"prompt": "a ", "prompt_name": "b"}, ["film"], "`prompt` and `prompt_name` cannot be combined"),
        ({}, np.array([["a", "b"]]), r"one-dimensional; got an array of shape \(1, 2\)"),
        ({"layers": "top"}, ["film"], "`layers` must be one of"),
        ({"precision": "half"}, ["film"], "`precision` must be one of float32, .*got 'half'"),
        ({"model": "nowhere"}, ["film"], "nowhere"),
    ],
)
def test_bad_texts_and_parameters_are_refused(folder, options, texts, message):
    with pytest.raises(ValueError, match=message):
        bert_tf.sklearn.BertEmbedder(**{"model": folder, **options}).fit(texts)


def test_it_must_be_fitted(folder):
    with pytest.raises(NotFittedError):
        bert_tf.sklearn.BertEmbedder(folder).transform(TEXTS)
