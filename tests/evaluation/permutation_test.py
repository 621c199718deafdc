"""The permutation test: every way counted, equal to scipy's, and right about chance."""

import itertools

import numpy as np
import pytest
from scipy import stats

from bert_tf.evaluation.significance import permutation_test


def _by_scipy(a, b):
    def difference(x, y):
        return np.mean(x) - np.mean(y)

    return stats.permutation_test((a, b), difference, n_resamples=np.inf, vectorized=False).pvalue


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (5, 5), (4, 2), (1, 6)])
def test_it_is_scipy_s(n, m):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0.6, 0.02, n), rng.normal(0.57, 0.02, m)
    found = permutation_test(a, b)
    assert found.is_exact and found.difference == pytest.approx(a.mean() - b.mean())
    if n == m:  # scipy doubles the smaller tail, which is the same where the ways come in pairs
        assert found.p_value == pytest.approx(_by_scipy(a, b))


def test_every_way_is_counted():
    a, b = [3.0, 5.0], [1.0, 2.0, 4.0]
    every = []
    for places in itertools.combinations(range(5), 2):
        x = np.array([*a, *b])
        every.append(x[list(places)].mean() - np.delete(x, places).mean())
    expected = np.mean(np.abs(every) >= np.mean(a) - np.mean(b) - 1e-12)
    found = permutation_test(a, b)
    assert (found.p_value, found.ways, found.least_p_value) == (pytest.approx(expected), 10, 0.1)


def test_the_least_that_few_seeds_can_give():
    apart = permutation_test([0.9, 0.91, 0.92], [0.1, 0.11, 0.12])
    assert apart.p_value == apart.least_p_value == 0.1
    assert permutation_test([0.9], [0.1]).p_value == 1
    assert permutation_test([0.5] * 3, [0.5] * 3).p_value == 1
    assert permutation_test([0.2, 0.1], [0.1, 0.2]).p_value == 1  # equal but for rounding


def test_of_many_ways_some_are_drawn():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.6, 0.02, 6), rng.normal(0.585, 0.02, 6)
    exact, drawn = permutation_test(a, b), permutation_test(a, b, samples=20_000, most_exact=100)
    assert exact.is_exact and not drawn.is_exact and drawn.ways == 20_001
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.015)
    assert drawn == permutation_test(a, b, samples=20_000, most_exact=100)
    assert permutation_test(a + 9, b, samples=99, most_exact=100).p_value >= 0.01  # never 0


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], [np.nan]), ([[1.0]], [1.0])])
def test_what_is_no_set_of_scores(a, b):
    with pytest.raises(ValueError, match=r"Both sets must be lists of finite scores\. Received"):
        permutation_test(a, b)
