"""Rates of classes and their averages are scikit-learn's, and a hand's."""

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from bert_tf.evaluation.error_reports.rates import Counts


def _close(rates, expected):
    for rate, value in zip(rates, expected, strict=False):
        np.testing.assert_allclose(rate, value, rtol=1e-12)


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_averages_are_those_of_scikit_learn(average):
    rng = np.random.default_rng(0)
    gold, given = rng.integers(0, 5, 60), rng.integers(0, 4, 60)  # class 5 does not occur, class 4 is never given
    counts = Counts.of_pairs(gold, given, 6)
    _close(counts.averages()[average], precision_recall_fscore_support(gold, given, average=average, zero_division=0))
    each = precision_recall_fscore_support(gold, given, labels=range(6), zero_division=0)
    _close(counts.rates(), each)


def test_each_of_several_labels_is_counted():
    gold, given = np.array([[1, 0], [1, 1], [0, 0]], bool), np.array([[1, 1], [0, 1], [0, 0]], bool)
    counts = Counts.of_marks(gold, given)
    assert [part.tolist() for part in counts] == [[2, 1], [1, 2], [1, 1]]
    _close(counts.rates(), ([1, 1 / 2], [1 / 2, 1], [2 / 3, 2 / 3]))


def test_nothing_found_is_0_and_no_warning():
    counts = Counts(*np.zeros([3, 2], int))
    assert counts.rates().f1.tolist() == [0, 0] and counts.averages()["macro"] == (0, 0, 0)
