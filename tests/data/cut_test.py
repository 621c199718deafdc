"""What did not fit into rows, counted by rows and by examples."""

import numpy as np

from bert_tf.data.dataset import Cut, cut_of_rows


def test_every_row_is_an_example():
    cut = cut_of_rows(np.array([3, 9, 8, 12]), 8)
    assert cut.examples.tolist() == [1, 3] and (cut.lost, cut.total) == (5, 32)
    assert (cut.parameter, cut.limit) == ("max_seq_length", 8)


def test_an_example_needs_what_its_longest_row_needs():
    cut = cut_of_rows(np.array([3, 9, 8, 12, 4, 4]), 8, np.array([0, 0, 1, 1, 2, 2]), 3)
    assert cut.needed.tolist() == [9, 12, 4] and cut.examples.tolist() == [0, 1] and cut.lost == 5


def test_what_fits_exactly_is_not_cut():
    assert not len(Cut("max_windows", 2, np.array([1, 2]), 0, 10).examples)
