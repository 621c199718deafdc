"""Counts of truncated tokens."""

import numpy as np

from bert_tf.data.truncation import Truncation, count_truncated


def test_counts_truncated_sequences_of_one_example_each():
    cut = count_truncated(np.array([3, 9, 8, 12]), 8)
    assert cut.examples.tolist() == [1, 3] and (cut.lost, cut.total) == (5, 32)
    assert (cut.parameter, cut.limit) == ("max_seq_length", 8)


def test_counts_truncated_examples_by_their_longest_sequence():
    cut = count_truncated(np.array([3, 9, 8, 12, 4, 4]), 8, np.array([0, 0, 1, 1, 2, 2]), 3)
    assert cut.needed.tolist() == [9, 12, 4] and cut.examples.tolist() == [0, 1] and cut.lost == 5


def test_a_sequence_that_fits_exactly_is_not_truncated():
    assert not len(Truncation("max_windows", 2, np.array([1, 2]), 0, 10).examples)
