"""Selective prediction: withholds predictions below a confidence threshold, so that the rest has a given accuracy.

Predictions are sorted by probability, and those below a threshold are withheld (El-Yaniv and Wiener 2010; Geifman and
El-Yaniv 2017). A lower threshold accepts more predictions, of which usually fewer are correct. No TensorFlow.
"""

import dataclasses
import os

import numpy as np

from bert_tf.evaluation.error_reports.rates import NORMAL_QUANTILE
from bert_tf.utils.files import atomic_open, with_suffix

CURVE_FILE = "risk_coverage.tsv"
_POINTS = 1000  # of a curve that is written


@dataclasses.dataclass(frozen=True)
class Abstention:
    """The confidence threshold of selective prediction.

    Attributes:
        share: target accuracy of the accepted predictions, above 0 and at most 1.
        threshold: lowest probability of an accepted prediction; 0 accepts all.
    """

    share: float
    threshold: float

    def __post_init__(self):
        if not (0 < self.share <= 1 and 0 <= self.threshold <= 1):
            raise ValueError(
                "An abstention must have a `share` above 0 and a `threshold` of 0 or more, both at most 1; got "
                f"{self.share} and {self.threshold}; fit it again with `fit_abstention`."
            )


@dataclasses.dataclass(frozen=True)
class RiskCoverageCurve:
    """Coverage and accuracy of a model's predictions at m thresholds, in descending order.

    Attributes:
        confidence: float64 [m], descending: the lowest probability of an accepted prediction.
        coverage: float64 [m], the fraction of predictions that are accepted.
        accuracy: float64 [m], the fraction of these that are correct.
    """

    confidence: np.ndarray
    coverage: np.ndarray
    accuracy: np.ndarray

    @classmethod
    def of(cls, confidence: np.ndarray, right: np.ndarray) -> "RiskCoverageCurve":
        """Computes the curve of n > 0 predictions; those with equal probability are accepted or withheld together.

        Args:
            confidence: float [n], the probability of each prediction.
            right: bool [n], whether each is correct.

        Raises:
            ValueError: arrays that do not match, or probabilities that are not finite.
        """
        confidence, right = np.asarray(confidence, np.float64), np.asarray(right, bool)
        if confidence.ndim != 1 or confidence.shape != right.shape or not len(right):
            raise ValueError(
                "Confidence and correctness must be arrays of shape [n] with n > 0; got the shapes "
                f"{list(confidence.shape)} and {list(right.shape)}."
            )
        if not np.isfinite(confidence).all():
            raise ValueError("The probabilities are not finite: training diverged.")
        order = np.argsort(-confidence, kind="stable")
        ordered, given = confidence[order], np.arange(1, len(right) + 1)
        last = np.append(ordered[1:] != ordered[:-1], True)  # of the answers of one probability
        accuracy = np.cumsum(right[order]) / given
        return cls(ordered[last], given[last] / len(right), accuracy[last])

    def threshold(self, share: float) -> float | None:
        """Returns the lowest threshold at which this fraction of the accepted predictions is correct, or None.

        It is halfway between the last accepted prediction and the first withheld one, so that rounding affects neither;
        0 if all are accepted.
        """
        enough = np.flatnonzero(self.accuracy >= share - 1e-12)
        if not len(enough):
            return None
        last = enough[-1]
        if last + 1 == len(self.confidence):
            return 0.0
        return float((self.confidence[last] + self.confidence[last + 1]) / 2)

    def write(self, directory: str | os.PathLike, suffix: str = ""):
        """Writes risk_coverage<suffix>.tsv: `probability`, `coverage` and `accuracy` at up to a thousand thresholds."""
        chosen = np.unique(np.linspace(0, len(self.confidence) - 1, _POINTS).round().astype(int))
        with atomic_open(os.path.join(directory, with_suffix(CURVE_FILE, suffix))) as file:
            file.write("probability\tcoverage\taccuracy\n")
            for row in zip(self.confidence[chosen], self.coverage[chosen], self.accuracy[chosen], strict=True):
                file.write("\t".join(f"{value:.6f}" for value in row) + "\n")


def scores(confidence: np.ndarray, right: np.ndarray, threshold: float) -> dict[str, float]:
    """Computes coverage and selective accuracy of a threshold on n predictions.

    Args:
        confidence: float [n], the probability of each prediction.
        right: bool [n], whether each is correct.
        threshold: lowest probability of an accepted prediction.

    Returns:
        `coverage`, the fraction of predictions that are accepted, and if there are any, `selective_accuracy`, the
        fraction of these that are correct.
    """
    given = np.asarray(confidence) >= threshold
    selective = {"selective_accuracy": float(np.mean(np.asarray(right)[given]))} if given.any() else {}
    return {"coverage": float(np.mean(given)), **selective}


def interval(share: float, n: int) -> tuple[float, float]:
    """Returns the 95% interval of a fraction observed in n > 0 draws (Wilson 1927)."""
    z = NORMAL_QUANTILE
    centre, spread = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return float(max(0, (centre - spread) / (1 + z**2 / n))), float(min(1, (centre + spread) / (1 + z**2 / n)))
