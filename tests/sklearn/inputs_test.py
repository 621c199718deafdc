"""Targets in each of the forms that the estimators accept."""

import numpy as np
import pytest
import scipy.sparse

from bert_tf.sklearn.targets import as_label_sets, as_labels, has_label_sets
from bert_tf.sklearn.texts import as_sentences, as_texts
from tests.fake_pandas import DataFrame, Series

MATRIX = np.array([[0, 1], [1, 1], [0, 0]])


@pytest.mark.parametrize(
    "y",
    [MATRIX, MATRIX.astype(bool), MATRIX.astype(float), scipy.sparse.csr_array(MATRIX), MATRIX.tolist(), list(MATRIX),
     DataFrame({"a": [0, 1, 0], "b": Series([1, 1, 0], [2, 1, 0])})],
    ids=["int", "bool", "float", "sparse", "lists", "arrays", "DataFrame"],
)  # fmt: skip
def test_indicator_matrices(y):
    read = as_label_sets(y, "abc")
    assert has_label_sets(y) and read.dtype == np.int64
    np.testing.assert_array_equal(read, MATRIX)


@pytest.mark.parametrize("kind", [list, tuple, set, lambda names: np.array(names, str)])
def test_label_sets(kind):
    y = [kind(["b"]), kind(["a", "b"]), kind([])]
    assert has_label_sets(y) and as_label_sets(y, "abc") == [{"b"}, {"a", "b"}, set()]
    assert as_label_sets(Series(y, "xyz"), "abc") == as_label_sets(y, "abc")


@pytest.mark.parametrize("y", [["a", "b"], [1, 0], np.array([[1], [0]]), Series("ab", "xy"), (2, 3)])
def test_one_label_per_text(y):
    assert not has_label_sets(y)
    if np.ndim(y) == 1:
        assert as_labels(y, ["a", "b"]).shape == (2,)


def test_texts_pairs_and_sentences():
    pairs = [("a", "b"), ("c", "d")]
    for X in (pairs, [["a", "b"], ["c", "d"]], np.array(pairs), DataFrame({0: Series("ac", "xy"), 1: ["b", "d"]})):
        assert as_texts(X, pairs=True) == pairs
    assert as_texts(DataFrame({"text": ["a", "b"]})) == as_texts(Series("ab", [1, 0])) == ["a", "b"]
    for X in (["a b", "c"], [["a", "b"], ("c",)], Series([np.array(["a", "b"]), ["c"]], [1, 0])):
        assert as_sentences(X) == [["a", "b"], ["c"]]
