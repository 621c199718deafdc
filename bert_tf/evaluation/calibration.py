"""Calibration of probabilities: expected calibration error, temperature scaling (Guo et al. 2017), thresholds; no
TensorFlow."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

_LOWEST, _HIGHEST = 0.01, 100.0  # beyond these a temperature says that the logits, or the examples, are no good


class Bins(NamedTuple):
    """Predictions in bins of equal width by probability, [bins] each; 0 for empty bins.

    Attributes:
        counts: int, number of predictions.
        mean: float, their mean probability.
        right: float, the fraction of them that is correct.
    """

    counts: np.ndarray
    mean: np.ndarray
    right: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error."""
        return float((self.counts * np.abs(self.mean - self.right)).sum() / self.counts.sum())


def reliability(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> Bins:
    """Sorts predictions into bins: bin m of M contains those with probability in ((m - 1) / M, m / M].

    Args:
        confidence: float [n], the finite probability of each prediction, n > 0.
        right: bool [n], whether each is correct.
        bins: number of bins.
    """
    indices = np.clip(np.ceil(confidence * bins) - 1, 0, bins - 1).astype(int)
    counts, sums, rights = (np.bincount(indices, weights, bins) for weights in (None, confidence, right))
    return Bins(counts, *(part / np.maximum(counts, 1) for part in (sums, rights)))


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Computes the expected calibration error (ECE; Guo et al. 2017, equation 3).

    Predictions are sorted into bins of equal width by the probability of the predicted label; bin m contains those in
    ((m - 1) / M, m / M]. The error of a bin is the distance between its mean probability and its accuracy, weighted by
    its number of predictions. With multiple labels, each label is a separate yes/no decision, n * L in total, whose
    confidence is the higher of the two probabilities.

    Args:
        probabilities: float [n, L], n > 0.
        labels: int [n], the true labels, or [n, L] of 0 and 1.
        bins: number of bins.

    Returns:
        From 0.0, the best, to 1.0; nan if a probability is not a number.

    Raises:
        ValueError: arrays that do not match.
    """
    probabilities, labels = _as_choices(probabilities, labels, lambda yes: 1 - yes)
    confidence, right = probabilities.max(-1), probabilities.argmax(-1) == labels
    if not np.isfinite(confidence).all():
        return float("nan")
    return reliability(confidence, right, bins).error


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Fits the temperature T that minimizes the negative log-likelihood of logits / T.

    With b = 1 / T, the mean loss is convex. Its slope is the mean, over the examples, of the expected logit minus the
    logit of the true label; the root is found for T from 0.01 to 100. The predicted labels do not change.

    If the true label is the most probable one for every example, the loss only falls as T goes to 0, and no doubt would
    remain. Few or easy examples thus do not show how confident the model should be: it returns 1.0 with a warning.

    Args:
        logits: float [n, L], n > 0, of a softmax, or of a sigmoid each if `labels` are [n, L].
        labels: int [n], the true labels, or [n, L] of 0 and 1.

    Raises:
        ValueError: arrays that do not match, or logits that are not numbers.
    """
    logits, labels = _as_choices(logits, labels, np.zeros_like)
    if not np.isfinite(logits).all():
        raise ValueError("The logits are not finite: training diverged. Lower `learning_rate` and train again.")
    logits = logits - logits[np.arange(len(labels)), labels][:, np.newaxis]  # the true label's is 0 from here on
    if (logits <= 0).all():
        logging.warning(
            "No temperature was fitted: the model is correct on all %d examples of the file, which therefore do not "
            "show how confident it should be. The temperature stays 1; use more or harder examples.", len(labels),
        )  # fmt: skip
        return 1.0

    def slope(b):
        chances = np.exp(b * (logits - logits.max(-1, keepdims=True)))
        return float(np.mean((chances * logits).sum(-1) / chances.sum(-1)))

    return 1 / _root(slope, 1 / _HIGHEST, 1 / _LOWEST)


def fit_thresholds(probabilities: np.ndarray, marks: np.ndarray, labels: Sequence[str]) -> list[float]:
    """Fits each label's threshold, above which it is predicted, to the highest F1 of the label.

    A threshold is halfway between two probabilities, so that rounding affects neither; 0 if all examples get the label.
    Of equally good ones, the closest to 0.5 is chosen. A label that no example has keeps 0.5, with a warning.

    Args:
        probabilities: float [n, L], n > 0.
        marks: int [n, L] of 0 and 1, the true labels.
        labels: the names of the L, for the log.
    """
    thresholds = []
    for label, values, own in zip(labels, np.asarray(probabilities, np.float64).T, np.asarray(marks).T, strict=True):
        order = np.argsort(-values, kind="stable")
        ordered, right = values[order], np.cumsum(own[order])
        if not right[-1]:
            logging.warning("No example has the label %r: its threshold stays 0.5.", label)
            thresholds.append(0.5)
            continue
        last = np.append(ordered[1:] != ordered[:-1], True)  # of the examples of one probability
        f1 = (2 * right / (np.arange(1, len(own) + 1) + right[-1]))[last]
        cuts = np.append((ordered[last][:-1] + ordered[last][1:]) / 2, 0.0)
        best = np.flatnonzero(f1 >= f1.max() - 1e-12)
        thresholds.append(float(cuts[best[np.argmin(np.abs(cuts[best] - 0.5))]]))
    return thresholds


def _root(slope, low, high):
    """Returns the root of the increasing `slope`, or the end of the range that is closer to it."""
    from scipy.optimize import brentq

    if slope(low) >= 0:
        return low
    return high if slope(high) <= 0 else brentq(slope, low, high, xtol=1e-12)


def _as_choices(values, labels, of_no):
    """Returns float64 values [n, L] and labels [n]; several labels become n * L choices between no and yes."""
    values, labels = np.asarray(values, np.float64), np.asarray(labels)
    if values.ndim != 2 or not values.size or labels.shape not in (values.shape, values.shape[:1]):
        raise ValueError(
            "Values must be an array of shape [n, L] with n > 0, labels one of shape [n] or [n, L]; "
            f"got the shapes {list(values.shape)} and {list(labels.shape)}."
        )
    if labels.ndim == 1:
        return values, labels
    return np.stack([of_no(values.ravel()), values.ravel()], -1), labels.ravel()
