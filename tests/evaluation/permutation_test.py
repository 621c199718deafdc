"""The permutation test, compared with all partitions."""

import itertools

import numpy as np
import pytest

from bert_tf.evaluation.permutation import permutation_test


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (5, 5), (4, 2), (1, 6)])
def test_every_way_of_sharing_out_the_scores_is_counted(n, m):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0.6, 0.02, n), rng.normal(0.57, 0.02, m)
    scores, every = np.array([*a, *b]), []
    for chosen in itertools.combinations(range(n + m), n):
        every.append(scores[list(chosen)].mean() - np.delete(scores, chosen).mean())
    found = permutation_test(a, b)
    assert found.is_exact and found.difference == pytest.approx(a.mean() - b.mean()) and found.ways == len(every)
    assert found.p_value == pytest.approx(np.mean(np.abs(every) >= abs(a.mean() - b.mean()) - 1e-12))


def test_p_value_is_not_below_the_least_that_few_seeds_can_give():
    apart = permutation_test([0.9, 0.91, 0.92], [0.1, 0.11, 0.12])
    assert apart.p_value == apart.least_p_value == 0.1
    assert permutation_test([0.9], [0.1]).p_value == 1
    assert permutation_test([0.5] * 3, [0.5] * 3).p_value == 1
    assert permutation_test([0.2, 0.1], [0.1, 0.2]).p_value == 1  # equal but for rounding


def test_of_more_ways_than_samples_some_are_drawn():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.6, 0.02, 9), rng.normal(0.585, 0.02, 9)
    exact, drawn = permutation_test(a, b), permutation_test(a, b, samples=20_000)
    assert exact.is_exact and not drawn.is_exact and drawn.ways == 20_001
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.015)
    assert drawn == permutation_test(a, b, samples=20_000)
    assert permutation_test(a + 9, b, samples=99).p_value >= 0.01  # never 0


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], [np.nan]), ([[1.0]], [1.0])])
def test_refuses_what_is_no_set_of_finite_scores(a, b):
    with pytest.raises(ValueError, match=r"Both sets must be lists of finite scores; got"):
        permutation_test(a, b)
