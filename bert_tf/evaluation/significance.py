"""Significance of a difference between two systems: the paired bootstrap over examples.

The bootstrap resamples the test set with replacement many times, at its original size; both systems are evaluated on
the same samples (Koehn 2004; Berg-Kirkpatrick, Burkett, Klein 2012). No TensorFlow.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

_CELLS = 10_000_000  # largest array held at a time, 80 MB


@dataclasses.dataclass(frozen=True)
class BootstrapResult:
    """The result of `paired_bootstrap`.

    Attributes:
        a, b: scores of the two systems on the original examples.
        difference: a - b.
        low, high: the middle 95% of the differences over all samples.
        p_value: two-sided: how often a difference this large arises from sampling alone.
        samples: number of samples.
    """

    a: float
    b: float
    difference: float
    low: float
    high: float
    p_value: float
    samples: int


def paired_bootstrap(
    metric: str | Callable,
    labels: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    samples: int = 10_000,
    seed: int = 0,
    num_classes: int | None = None,
) -> BootstrapResult:
    """Compares two systems on the same examples with a paired bootstrap test.

    The samples give differences d around the observed difference D. As in Berg-Kirkpatrick et al. (section 2.2), if the
    systems were equally good, the samples would be distributed the same way around 0: the p-value is the fraction of
    samples with |d - D| >= |D|, including the observed one, so that it is never 0. (Theirs is the one-sided d >= 2 D.)

    Args:
        metric: a name of `METRICS`, or a function of labels and predictions, which is called twice per sample.
        labels: [n], true classes (int) or scores (float).
        a, b: [n], the predictions of the two systems, of the same type.
        samples: number of samples.
        seed: random seed; the same seed gives the same numbers.
        num_classes: number of classes, as for `metrics.classification`.

    Raises:
        ValueError: an unknown name, or arrays that do not match.
    """
    labels, a, b = _as_triple(labels, a, b)
    score = _by_name(metric, labels, a, b, num_classes) if isinstance(metric, str) else _by_function(metric)
    # Equal examples are one that counts as often as they are there: a draw is a multinomial count of them,
    # and for classes there are few of them, however large the test set.
    rows, counts = np.unique(np.stack([labels, a, b]), axis=1, return_counts=True)
    seen = (float(score(counts[None], rows[0], predictions)[0]) for predictions in rows[1:])
    drawn = [
        score(weights, rows[0], rows[1]) - score(weights, rows[0], rows[2])
        for weights in _draws(counts, samples, np.random.default_rng(seed))
    ]
    return _comparison(*seen, np.concatenate(drawn))


def paired_bootstrap_of_sums(score: Callable, a, b, samples: int = 10_000, seed: int = 0) -> BootstrapResult:
    """Compares two systems by a metric of sums over the examples, such as the F1 of entity counts per sentence.

    Args:
        score: sums, float [s, k] -> float [s].
        a, b: [n, k], the contributions of each example to the sums; n > 0.
        samples, seed: as for `paired_bootstrap`.

    Raises:
        ValueError: arrays that do not match.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or a.ndim != 2 or not len(a):
        raise ValueError(
            "The per-example values of both systems must be two arrays of shape [n, k] with n > 0; got the shapes "
            f"{list(a.shape)} and {list(b.shape)}."
        )
    rows, counts = np.unique(np.concatenate([a, b], 1), axis=0, return_counts=True)
    a, b = rows[:, : a.shape[1]], rows[:, a.shape[1] :]
    drawn = [score(w @ a) - score(w @ b) for w in _draws(counts, samples, np.random.default_rng(seed))]
    return _comparison(*(float(score(counts[None] @ side)[0]) for side in (a, b)), np.concatenate(drawn))


def _comparison(a, b, drawn):
    """Returns the `BootstrapResult` of the differences of the samples, float [samples]."""
    seen = a - b
    low, high = np.quantile(drawn, [0.025, 0.975])
    as_far = np.count_nonzero(np.abs(drawn - seen) >= abs(seen) - 1e-12)  # equal but for rounding is as far
    return BootstrapResult(a, b, seen, float(low), float(high), (1 + int(as_far)) / (1 + len(drawn)), len(drawn))


def _draws(counts, samples, generator):
    """Yields int [s, m]: how often each of the m rows was drawn, `samples` times in all, a part at a time."""
    n, part = counts.sum(), max(1, _CELLS // len(counts))
    for start in range(0, samples, part):
        yield generator.multinomial(n, counts / n, size=min(part, samples - start))


def _by_function(metric):
    def score(weights, labels, predictions):
        return np.array([metric(np.repeat(labels, row), np.repeat(predictions, row)) for row in weights], np.float64)

    return score


def _by_name(name, labels, a, b, num_classes):
    if name in CORRELATIONS:
        return CORRELATIONS[name]
    if name not in CLASS_SCORES:
        raise ValueError(f"The bootstrap metric must be one of {sorted(METRICS)}; got {name!r}.")
    classes = np.arange(max(2, num_classes or int(max(labels.max(), a.max(), b.max())) + 1))

    def score(weights, labels, predictions):
        true, guesses = (labels[:, None] == classes).astype(float), (predictions[:, None] == classes).astype(float)
        return CLASS_SCORES[name](weights @ (true * guesses), weights @ true, weights @ guesses)

    return score


def _matthews(right, true, guesses):
    """Gorodkin 2004's R_K, for two classes Matthews' coefficient."""
    n = true.sum(1)
    together = right.sum(1) * n - (true * guesses).sum(1)
    return _ratio(together, np.sqrt((n**2 - (true**2).sum(1)) * (n**2 - (guesses**2).sum(1))))


def _of_class_1_or_macro(above, below, occurs):
    """As in `metrics.py`: class 1's of two, else the mean over the classes that occur in the draw."""
    ratios = _ratio(above, below)
    if ratios.shape[1] <= 2:
        return ratios[:, -1]
    return ratios.sum(1) / np.count_nonzero(occurs, axis=1)  # a class that does not occur has a ratio of 0


def _ranks(weights, values):
    """Returns float [s, m]: the rank of each row in each draw, where equal values share their mean rank.

    values   .1  .5  .5  .7        a draw's weights   2   0   1   1
    ranks   1.5   3   3   4        two of .1 are 1st and 2nd, then come .5 and .7
    """
    order = np.argsort(values, kind="stable")
    _, starts, index = np.unique(values[order], return_index=True, return_inverse=True)
    equal = np.add.reduceat(weights[:, order], starts, axis=1)
    mean = np.cumsum(equal, axis=1) - (equal - 1) / 2
    ranks = np.empty(weights.shape)
    ranks[:, order] = mean[:, index]
    return ranks


def _correlation(weights, x, y):
    """Pearson's coefficient [s] of x and y [s or 1, m], 0 where one of them is constant in a draw."""
    n = weights.sum(1, keepdims=True)
    x, y = (v - (weights * v).sum(1, keepdims=True) / n for v in (x, y))
    spread = [np.sqrt((weights * v * v).sum(1)) for v in (x, y)]
    spread = [np.where(s > 1e-12 * np.abs(v).max(1), s, 0) for s, v in zip(spread, (x, y), strict=True)]
    return _ratio((weights * x * y).sum(1), spread[0] * spread[1])


def _ratio(above, below):
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=below > 0)


# Scores of classes, float64 [s], from float64 [s, classes]: how many of a class are right, there, and guessed.
CLASS_SCORES = {
    "accuracy": lambda right, true, guesses: right.sum(1) / true.sum(1),
    "f1": lambda right, true, guesses: _of_class_1_or_macro(2 * right, true + guesses, true + guesses),
    "weighted_f1": lambda right, true, guesses: (true * _ratio(2 * right, true + guesses)).sum(1) / true.sum(1),
    "precision": lambda right, true, guesses: _of_class_1_or_macro(right, guesses, true + guesses),
    "recall": lambda right, true, guesses: _of_class_1_or_macro(right, true, true + guesses),
    "matthews": _matthews,
}
CORRELATIONS = {
    "pearson": lambda weights, x, y: _correlation(weights, x[None], y[None]),
    "spearman": lambda weights, x, y: _correlation(weights, _ranks(weights, x), _ranks(weights, y)),
}
METRICS = {**CLASS_SCORES, **CORRELATIONS}


def _as_triple(labels, a, b):
    arrays = [np.asarray(array) for array in (labels, a, b)]
    if len({array.shape for array in arrays}) > 1 or arrays[0].ndim != 1 or not arrays[0].size:
        raise ValueError(
            "Labels and both predictions must be three arrays of shape [n] with n > 0; "
            f"got the shapes {[list(array.shape) for array in arrays]}."
        )
    return arrays
