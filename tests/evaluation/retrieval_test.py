"""Recall and mean reciprocal rank, by hand."""

import numpy as np
import pytest

from bert_tf.evaluation.metrics import cosines, ranks, retrieval, unit


def test_ranks_count_what_is_nearer():
    candidates = np.array([[1.0, 0.0], [0.0, 5.0], [1.0, 1.0], [1.0, 0.9]])
    queries = np.array([[2.0, 0.1], [1.0, 1.0], [0.0, -1.0]])
    assert ranks(queries, candidates).tolist() == [1, 3, 3]


def test_a_text_that_occurs_twice_is_not_behind_itself():
    candidates = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 0.0]])
    assert ranks(candidates[:2], candidates).tolist() == [1, 1]


def test_blocks_change_nothing(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(2, 9, 4))
    whole = ranks(*vectors)
    monkeypatch.setattr("bert_tf.evaluation.metrics._BLOCK", 2)
    assert ranks(*vectors).tolist() == whole.tolist()


def test_scores():
    assert retrieval(np.array([1, 2, 20, 4])) == pytest.approx(
        {"recall_at_1": 0.25, "recall_at_10": 0.75, "mrr": (1 + 1 / 2 + 1 / 20 + 1 / 4) / 4}
    )


def test_cosines_and_units():
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0, 0]]
    assert cosines(np.array([[2.0, 0.0]]), np.array([[1.0, 1.0]])) == pytest.approx([0.5**0.5])
