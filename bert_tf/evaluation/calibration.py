"""Calibration of probabilities: expected calibration error and temperature scaling (Guo et al. 2017); no TensorFlow."""

from typing import NamedTuple

import numpy as np
from absl import logging

_LOWEST, _HIGHEST = 0.01, 100.0  # beyond these a temperature says that the logits, or the examples, are no good


class Bins(NamedTuple):
    """Answers in bins of equal width by their probability, [bins] each; where a bin has none, 0.

    Attributes:
        counts: int, how many answers.
        mean: float, their mean probability.
        right: float, the share of them that is right.
    """

    counts: np.ndarray
    mean: np.ndarray
    right: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error."""
        return float((self.counts * np.abs(self.mean - self.right)).sum() / self.counts.sum())


def reliability(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> Bins:
    """Sorts answers into bins: bin m of M holds those whose probability is in ((m - 1) / M, m / M].

    Args:
        confidence: float [n], the finite probability of each answer, n > 0.
        right: bool [n].
        bins: how many.
    """
    indices = np.clip(np.ceil(confidence * bins) - 1, 0, bins - 1).astype(int)
    counts, sums, rights = (np.bincount(indices, weights, bins) for weights in (None, confidence, right))
    return Bins(counts, *(part / np.maximum(counts, 1) for part in (sums, rights)))


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Returns how far confidence is from accuracy, on average (Guo et al. 2017, equation 3).

    The answers are sorted into bins of equal width by the probability of the label that was chosen, the bin m of M
    holding those in ((m - 1) / M, m / M]; a bin's error is the distance of its mean probability from its share of
    right answers, and counts as often as it has answers. Of several labels each is a decision of its own between yes
    and no, n * L in all, and its confidence is the probability of the likelier.

    Args:
        probabilities: float [n, L], n > 0.
        labels: int [n], the true labels, or [n, L] of 0 and 1.
        bins: how many.

    Returns:
        From 0.0, the best, to 1.0; nan where a probability is not a number.

    Raises:
        ValueError: arrays that do not match.
    """
    probabilities, labels = _as_choices(probabilities, labels, lambda yes: 1 - yes)
    confidence, right = probabilities.max(-1), probabilities.argmax(-1) == labels
    if not np.isfinite(confidence).all():
        return float("nan")
    return reliability(confidence, right, bins).error


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns the T for which the probabilities of logits / T have the least negative log-likelihood.

    With b = 1 / T the mean loss is convex, and its slope is the mean, over the examples, of what the logit is expected
    to be less what the true label's is: the root of that is sought, for T from 0.01 to 100. The labels that are most
    probable stay the same.

    Where the true label is the most probable of every example the loss only falls as T goes to 0, and there would be no
    doubt left at all. So few or easy examples cannot say how sure the model may be: 1.0, and a warning.

    Args:
        logits: float [n, L], n > 0, of a softmax, or of a sigmoid each where `labels` are [n, L].
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
            "show how confident it should be. It stays 1; use more or harder examples.", len(labels),
        )  # fmt: skip
        return 1.0

    def slope(b):
        chances = np.exp(b * (logits - logits.max(-1, keepdims=True)))
        return float(np.mean((chances * logits).sum(-1) / chances.sum(-1)))

    return 1 / _root(slope, 1 / _HIGHEST, 1 / _LOWEST)


def _root(slope, low, high):
    """Returns where the rising `slope` is 0, or the end of the range that is nearer to it."""
    from scipy.optimize import brentq

    if slope(low) >= 0:
        return low
    return high if slope(high) <= 0 else brentq(slope, low, high, xtol=1e-12)


def _as_choices(values, labels, of_no):
    """Returns float64 values [n, L] and labels [n]; several labels become n * L choices between no and yes."""
    values, labels = np.asarray(values, np.float64), np.asarray(labels)
    if values.ndim != 2 or not values.size or labels.shape not in (values.shape, values.shape[:1]):
        raise ValueError(
            "Values must be an array of shape [n, L] with n > 0, labels one of shape [n] or [n, L]. "
            f"Received the shapes {list(values.shape)} and {list(labels.shape)}."
        )
    if labels.ndim == 1:
        return values, labels
    return np.stack([of_no(values.ravel()), values.ravel()], -1), labels.ravel()
