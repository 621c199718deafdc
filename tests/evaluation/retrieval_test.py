"""Ranks of what is searched for, and the metrics of such ranks."""

import numpy as np
import pytest

from bert_tf.evaluation.retrieval import ranks, retrieval


def test_ranks_count_what_is_nearer():
    candidates = np.array([[1.0, 0.0], [0.0, 5.0], [1.0, 1.0], [1.0, 0.9]])
    queries = np.array([[2.0, 0.1], [1.0, 1.0], [0.0, -1.0]])
    assert ranks(queries, candidates).tolist() == [1, 3, 3]


def test_a_text_that_occurs_twice_is_not_behind_itself():
    candidates = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 0.0]])
    assert ranks(candidates[:2], candidates).tolist() == [1, 1]


def test_equal_texts_count_once_and_matches_of_a_query_not_against_each_other():
    queries = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # the first two are one query with two matches
    candidates = np.array([[1.0, 0.1], [1.0, 0.9], [1.0, 1.0], [1.0, 0.5], [1.0, 0.5], [1.0, 0.9]])
    texts = np.array([0, 0, 1]), np.array([10, 11, 12, 13, 13, 11])  # the last negative of the third is a match here
    assert ranks(queries, candidates).tolist() == [1, 4, 1]
    assert ranks(queries, candidates, *texts).tolist() == [1, 2, 1]


def test_blocks_change_nothing(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(2, 9, 4))
    texts = np.arange(9) // 2, np.arange(9) % 7
    whole = ranks(*vectors), ranks(*vectors, *texts)
    monkeypatch.setattr("bert_tf.evaluation.retrieval._BLOCK", 2)
    assert [ranks(*vectors).tolist(), ranks(*vectors, *texts).tolist()] == [each.tolist() for each in whole]


def test_scores():
    assert retrieval(np.array([1, 2, 20, 4])) == pytest.approx(
        {"recall_at_1": 0.25, "recall_at_10": 0.75, "mrr": (1 + 1 / 2 + 1 / 20 + 1 / 4) / 4}
    )
