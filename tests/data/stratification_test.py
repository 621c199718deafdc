"""Rows that are assigned to parts: sizes and labels as asked for."""


import numpy as np
import pytest

from bert_tf.data import stratification


def test_single_rows_are_distributed_by_largest_remainders():
    strata = np.repeat([0, 1, 2], [50, 30, 25])
    parts = stratification.assign_parts(np.arange(105), strata, [0.8, 0.1, 0.1], 0)
    found = np.array([np.bincount(parts[strata == label], minlength=3) for label in range(3)])
    assert found.sum(0).tolist() in ([84, 11, 10], [84, 10, 11])
    assert found[:2].tolist() == [[40, 5, 5], [24, 3, 3]] and abs(found[2] - [20, 2.5, 2.5]).max() <= 0.5


@pytest.mark.parametrize("seed", range(4))
def test_sizes_are_within_a_group_of_what_was_asked(seed):
    rng = np.random.default_rng(seed)
    together, strata = np.sort(rng.integers(0, 40 * 2**seed, 400)), rng.integers(0, 3, 400)
    sizes = np.bincount(stratification.assign_parts(together, strata, [0.7, 0.2, 0.1], seed), minlength=3)
    assert abs(sizes - [280, 80, 40]).max() <= np.bincount(together).max()


def test_no_part_is_empty():
    parts = stratification.assign_parts(np.repeat([0, 1, 2], 5), np.zeros(15, int), [0.98, 0.01, 0.01], 0)
    assert sorted(parts[::5]) == [0, 1, 2]
    assert sorted(stratification.assign_parts(np.arange(4), np.zeros(4, int), [0.98, 0.02], 0)) == [0, 0, 0, 1]
