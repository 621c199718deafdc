"""Precision, recall and F1 of several classes, and their averages; what is 0 / 0 counts as 0."""

from typing import NamedTuple

import numpy as np


class Rates(NamedTuple):
    """Fractions, 0 to 1, or arrays [L] of them."""

    precision: float
    recall: float
    f1: float


class Counts(NamedTuple):
    """How often each of L classes is right, is given, and is given rightly: int [L] each."""

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

    def rates(self) -> Rates:
        """Returns those of each class, float [L]."""
        gold, given, right = self
        return Rates(_ratio(right, given), _ratio(right, gold), _ratio(2 * right, gold + given))

    def averages(self) -> dict[str, Rates]:
        """Returns the means over the classes that occur, plain and by how often each is right, and all as one class."""
        there, rates = (self.gold + self.given) > 0, self.rates()
        weights = self.gold / max(self.gold.sum(), 1)
        together = Counts(*(part.sum(keepdims=True) for part in self)).rates()
        return {
            "macro": Rates(*(float(rate[there].mean()) if there.any() else 0.0 for rate in rates)),
            "weighted": Rates(*(float(rate @ weights) for rate in rates)),
            "micro": Rates(*(float(rate[0]) for rate in together)),
        }


def _ratio(part, whole):
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
