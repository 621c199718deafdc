"""The permutation test of two sets of runs: is the difference between their scores due to the seeds alone?

If two sets are equally good, every partition of all scores into two such sets is as likely as the observed one
(Fisher 1935; Dror et al. 2018, section 3.2). No TensorFlow.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Permuted:
    """The result of `permutation_test`.

    Attributes:
        a, b: means of the two sets.
        difference: a - b.
        p_value: two-sided: how often a difference this large arises from a random partition.
        least_p_value: the smallest p-value that this number of scores can yield.
        ways: number of partitions evaluated.
        is_exact: whether these are all partitions.
    """

    a: float
    b: float
    difference: float
    p_value: float
    least_p_value: float
    ways: int
    is_exact: bool


def permutation_test(a: Sequence[float], b: Sequence[float], samples: int = 200_000, seed: int = 0) -> Permuted:
    """Compares the means of two unpaired sets of scores with a permutation test.

    The p-value is the fraction of partitions whose difference is at least as far from 0 as the observed one, including
    it. It is exact if there are at most `samples` partitions, as for 10 scores against 10; otherwise that many are
    sampled and the observed one is added, so that it is never 0.

    Args:
        a, b: at least one score each, finite.
        samples: maximum number of partitions to evaluate.
        seed: random seed; the same seed gives the same number.

    Raises:
        ValueError: a set is empty, or a score is not finite.
    """
    from scipy import stats

    a, b = (np.asarray(scores, np.float64) for scores in (a, b))
    if not (a.ndim == b.ndim == 1 and a.size and b.size and np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(f"Both sets must be lists of finite scores; got {a.tolist()} and {b.tolist()}.")

    def distance(x, y, axis):  # rounded: equal but for rounding is as far
        return np.abs(x.mean(axis) - y.mean(axis)).round(12)

    if min(a.size, b.size) == 1:  # which SciPy refuses: each score may be the one against all others
        scores = np.concatenate([a, b])
        distances = np.abs(scores - (scores.sum() - scores) / (scores.size - 1)).round(12)
        p_value = float(np.mean(distances >= distance(a, b, 0)))
    else:  # Distances and one tail: SciPy's two tails double the smaller one, which differs for sets of two sizes.
        p_value = float(
            stats.permutation_test(
                (a, b), distance, n_resamples=samples, batch=10_000, alternative="greater", random_state=seed
            ).pvalue
        )
    all_ways = math.comb(a.size + b.size, a.size)
    is_exact = all_ways <= samples
    ways = all_ways if is_exact else samples + 1
    # Where both sets are of one size, the ways come in pairs that differ by the sign of the difference alone.
    least = (1 + (a.size == b.size)) / ways if is_exact else 1 / ways
    means = float(a.mean()), float(b.mean())
    return Permuted(*means, float(a.mean() - b.mean()), p_value, min(least, 1.0), ways, is_exact)
