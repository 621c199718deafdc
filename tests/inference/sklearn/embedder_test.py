"""`BertEmbedder` gives what `bert.features` gives, and is a good citizen of scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline

import bert_tf
from tests import tiny
from tests.fake_pandas import Series

TEXTS, LABELS = (list(column) for column in zip(*tiny.texts(48, names=("bad", "good")), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("model"))


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
        ({}, "one text", "`X` must be several texts, .*Received one text, 'one text'; put it in a list"),
        ({}, [], "`X` is empty"),
        ({}, ["film", 3], "`X` must be strings. Received int at position 1: '3'"),
        ({}, np.array([["a", "b"]]), r"one-dimensional. Received an array of shape \(1, 2\)"),
        ({"layers": "top"}, ["film"], "`layers` must be one of"),
        ({"precision": "half"}, ["film"], "`precision` must be one of float32, .*Got 'half'"),
        ({"model": "nowhere"}, ["film"], "nowhere"),
    ],
)
def test_bad_texts_and_parameters_are_refused(folder, options, texts, message):
    with pytest.raises(ValueError, match=message):
        bert_tf.sklearn.BertEmbedder(**{"model": folder, **options}).fit(texts)


def test_it_must_be_fitted(folder):
    with pytest.raises(NotFittedError):
        bert_tf.sklearn.BertEmbedder(folder).transform(TEXTS)
