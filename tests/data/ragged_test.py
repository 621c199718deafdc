"""Rows of unequal lengths in one array."""

import numpy as np
import pytest

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged


@pytest.mark.parametrize("longest", [3, 200])  # rows are copied in two ways
def test_rows_are_taken_in_the_order_asked_for(longest):
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 100, rng.integers(0, longest + 1)).astype(np.int16) for _ in range(50)]
    made = Ragged.of_lengths(np.concatenate(rows), [len(row) for row in rows])
    assert made.lengths.tolist() == [len(row) for row in rows]
    order = rng.integers(0, 50, 80)
    taken = made.take(order)
    assert taken.flat.dtype == np.int16
    assert [row.tolist() for row in taken.rows()] == [rows[n].tolist() for n in order]


def test_no_rows():
    taken = Ragged.of_lengths(np.arange(3), [1, 2]).take(np.zeros(0, np.int64))
    assert len(taken.lengths) == len(taken.flat) == 0


def test_concatenates_ragged_rows():
    joined = ragged.concatenate_features(
        [Ragged.of_lengths(np.array([7, 8]), [2]), Ragged.of_lengths(np.array([9]), [0, 1])]
    )
    assert [row.tolist() for row in joined.rows()] == [[7, 8], [], [9]]


def test_ranges_count_on_from_each_start():
    assert ragged.ranges([5, 0, 7], [2, 0, 3]).tolist() == [5, 6, 7, 8, 9]
