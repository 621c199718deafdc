"""Precision, recall and F1 of several classes and their averages, and confidence intervals of ratios.

What is 0 / 0 counts as 0.
"""

from typing import NamedTuple

import numpy as np


class Fractions(NamedTuple):
    """Fractions, 0 to 1, or arrays [L] of them."""

    precision: float
    recall: float
    f1: float


class Counts(NamedTuple):
    """Counts of each of L classes among labels, predictions and correct predictions: int [L] each."""

    gold: np.ndarray
    given: np.ndarray
    right: np.ndarray

    @classmethod
    def of_pairs(cls, gold: np.ndarray, given: np.ndarray, classes: int) -> "Counts":
        """Counts n examples of one class each; int [n] twice."""
        return cls(*(np.bincount(each, minlength=classes) for each in (gold, given, gold[gold == given])))

    @classmethod
    def of_marks(cls, gold: np.ndarray, given: np.ndarray) -> "Counts":
        """Counts n examples of any number of classes; bool [n, L] twice."""
        return cls(gold.sum(0), given.sum(0), (gold & given).sum(0))

    def rates(self) -> Fractions:
        """Returns those of each class, float [L]."""
        gold, given, right = self
        return Fractions(_ratio(right, given), _ratio(right, gold), _ratio(2 * right, gold + given))

    def averages(self) -> dict[str, Fractions]:
        """Returns the macro and weighted averages; macro is over the classes that occur."""
        there, rates = (self.gold + self.given) > 0, self.rates()
        weights = self.gold / max(self.gold.sum(), 1)
        return {
            "macro": Fractions(*(float(rate[there].mean()) if there.any() else 0.0 for rate in rates)),
            "weighted": Fractions(*(float(rate @ weights) for rate in rates)),
        }


def _ratio(part, whole):
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


NORMAL_QUANTILE = 1.959964  # of the normal distribution, for intervals of 95%


def ratio_interval(part: np.ndarray, whole: np.ndarray | float = 1.0) -> tuple[float, float] | None:
    """Returns the 95% confidence interval of sum(part) / sum(whole) over n drawn examples, by linearization.

    Args:
        part: float [n].
        whole: likewise; 1.0 for a mean.
    """
    part = np.asarray(part, float)
    whole = np.broadcast_to(whole, part.shape)
    n, total = len(part), whole.sum()
    if n < 2 or not total:
        return None
    ratio = part.sum() / total
    half = NORMAL_QUANTILE * np.sqrt(n / (n - 1) * ((part - ratio * whole) ** 2).sum()) / total
    return float(max(0.0, ratio - half)), float(min(1.0, ratio + half))
