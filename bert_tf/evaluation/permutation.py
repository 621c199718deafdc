"""The permutation test: are the scores of one set of runs higher than those of another, or was it luck with the seeds?

Where two sets are equally good, every way of sharing out all scores between them is as likely as the one that was seen
(Fisher 1935; Dror et al. 2018, section 3.2). No TensorFlow.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

_MOST_EXACT = 200_000  # ways to share the scores out that are all gone through


@dataclasses.dataclass(frozen=True)
class Permuted:
    """What `permutation_test` found.

    Attributes:
        a, b: means of the two sets.
        difference: a - b.
        p_value: two-sided: how often a difference this large comes from sharing the scores out by chance.
        least_p_value: that so many scores could give at all.
        ways: how many ways to share them out were looked at.
        is_exact: whether these are all there are.
    """

    a: float
    b: float
    difference: float
    p_value: float
    least_p_value: float
    ways: int
    is_exact: bool


def permutation_test(
    a: Sequence[float], b: Sequence[float], samples: int = 100_000, seed: int = 0, most_exact: int = _MOST_EXACT
) -> Permuted:
    """Compares the means of two sets of scores, of which no pairs belong together.

    The p-value is the share of the ways whose difference is at least as far from 0 as the one that was seen, which is
    one of them. It is exact where there are at most `most_exact` ways, such as for 10 scores against 10; else `samples`
    ways are drawn, and the one that was seen is added, so that it is never 0.

    Args:
        a, b: at least one score each, finite.
        samples: how many ways are drawn where there are too many.
        seed: of the draws; the same seed gives the same number.
        most_exact: see above.

    Raises:
        ValueError: a set is empty, or a score is not finite.
    """
    a, b = (np.asarray(scores, np.float64) for scores in (a, b))
    if not (a.ndim == b.ndim == 1 and a.size and b.size and np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(f"Both sets must be lists of finite scores. Received {a.tolist()} and {b.tolist()}.")
    scores, n = np.concatenate([a, b]), len(a)
    seen, all_ways = float(a.mean() - b.mean()), math.comb(len(scores), n)
    is_exact = all_ways <= most_exact
    differences = _differences(scores, n, _all_ways(len(scores), n) if is_exact else _drawn(scores, n, samples, seed))
    as_far = int(np.count_nonzero(np.abs(differences) >= abs(seen) - 1e-12))  # equal but for rounding is as far
    ways = all_ways if is_exact else samples + 1
    as_far += 0 if is_exact else 1
    # Where both sets are of one size, the ways come in pairs that differ by the sign of the difference alone.
    least = (1 + (n == len(b))) / all_ways if is_exact else 1 / ways
    return Permuted(float(a.mean()), float(b.mean()), seen, as_far / ways, min(least, 1.0), ways, is_exact)


def _all_ways(total, n):
    """Returns int [ways, n]: the places of every choice of n of so many scores."""
    return np.array(list(itertools.combinations(range(total), n)))


def _drawn(scores, n, samples, seed):
    """Returns int [samples, n]: the places of choices by chance."""
    generator = np.random.default_rng(seed)
    return np.stack([generator.permutation(len(scores))[:n] for _ in range(samples)])


def _differences(scores, n, chosen):
    """Returns float64 [ways]: the mean of the chosen scores less the mean of the others."""
    sums = scores[chosen].sum(1)
    return sums / n - (scores.sum() - sums) / (len(scores) - n)
