"""Which labels are likely wrong, by probabilities of models that had not seen them: confident learning.

Northcutt, Jiang and Chuang 2021 (JAIR 70). A class j has a threshold t_j, the mean probability of j over the examples
labelled j: a model is sure of some classes more easily than of others. An example labelled i counts as a j where its
probability of j is at least t_j, and the highest of those that reach their thresholds. It must also be higher than that
of i, whether or not i reaches its own: of a class with few examples models are never sure, so that its threshold is
next to nothing, and by the threshold alone a large part of the other examples would count as it. No TensorFlow.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Suspicion:
    """What is said of n labels.

    Attributes:
        thresholds: float [L], t_j.
        is_error: bool [n], whether the example counts as another class than that of its label.
        likely: int [n], the class that such an example counts as; for the others their label.
        margin: float [n]: how much more probable the label is than the most probable other class that reaches its
            threshold; under 0 the label is suspect, the more so the lower.
        joint: int [L, L], how many examples labelled i count as a j; those that count as no class are left out.
        estimate: how many labels are wrong, by the joint scaled to the examples of each label.
    """

    thresholds: np.ndarray
    is_error: np.ndarray
    likely: np.ndarray
    margin: np.ndarray
    joint: np.ndarray
    estimate: float

    @property
    def order(self) -> np.ndarray:
        """int [n], the examples, the likeliest error first."""
        return np.argsort(self.margin, kind="stable")


def suspect(probabilities: np.ndarray, labels: np.ndarray) -> Suspicion:
    """Returns what held-out probabilities say of labels.

    Args:
        probabilities: float [n, L], of models that were not trained on the example; L > 1.
        labels: int [n], as they were given; each class has an example.

    Raises:
        ValueError: arrays that do not match, a class without an example, or probabilities that are no numbers.
    """
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    n, width = probabilities.shape if probabilities.ndim == 2 else (0, 0)
    if width < 2 or labels.shape != (n,) or set(np.unique(labels)) != set(range(width)):
        raise ValueError(
            "Probabilities must be an array of shape [n, L] with L > 1, labels one of shape [n] in which each of the L "
            f"classes occurs. Received the shapes {list(probabilities.shape)} and {list(labels.shape)}."
        )
    if not np.isfinite(probabilities).all():
        raise ValueError("Probabilities must be numbers. Received others; the training has gone astray.")
    thresholds = np.array([probabilities[labels == j, j].mean() for j in range(width)])
    reached = np.where(probabilities >= thresholds, probabilities, 0)
    places = np.arange(n)
    own, counts_as_own = probabilities[places, labels], reached[places, labels] > 0
    reached[places, labels] = 0
    margin = own - reached.max(1)
    is_error = margin < 0
    likely = np.where(is_error, reached.argmax(1), labels)
    counts = is_error | counts_as_own
    joint = np.bincount(labels[counts] * width + likely[counts], minlength=width**2).reshape(width, width)
    counted = joint.sum(1)
    right = np.divide(joint.diagonal(), counted, out=np.ones(width), where=counted > 0)
    estimate = float((np.bincount(labels, minlength=width) * (1 - right)).sum())
    return Suspicion(thresholds, is_error, likely, margin, joint, estimate)
