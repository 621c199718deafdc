"""Which labels are likely wrong, by probabilities of models that had not seen them: confident learning.

Northcutt, Jiang and Chuang 2021 (JAIR 70). A class j has a threshold t_j, the mean probability of j over the examples
labelled j: a model is sure of some classes more easily than of others. An example labelled i counts as a j where its
probability of j is over t_j, and further over it than that of any other class. No TensorFlow.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Suspicion:
    """What is said of n labels.

    Attributes:
        thresholds: float [L], t_j.
        likely: int [n], the class that each example is most likely of, by how far probabilities are over thresholds.
        margin: float [n]: how much further the label's own probability is over its threshold than that of the best
            other class; under 0 the label is suspect, the more so the lower.
        joint: int [L, L], how many examples labelled i count as a j; those that count as no class are left out.
        is_error: bool [n], whether the example counts as another class than that of its label.
        estimate: how many labels are wrong, by the joint scaled to the examples of each label.
    """

    thresholds: np.ndarray
    likely: np.ndarray
    margin: np.ndarray
    joint: np.ndarray
    is_error: np.ndarray
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
    over = probabilities - thresholds
    own = over[np.arange(n), labels]
    others = over.copy()
    others[np.arange(n), labels] = -np.inf
    likely, counts = over.argmax(1), over.max(1) >= 0
    joint = np.bincount(labels[counts] * width + likely[counts], minlength=width**2).reshape(width, width)
    is_error = counts & (likely != labels)
    counted = joint.sum(1)
    right = np.divide(joint.diagonal(), counted, out=np.ones(width), where=counted > 0)
    estimate = float((np.bincount(labels, minlength=width) * (1 - right)).sum())
    return Suspicion(thresholds, likely, own - others.max(1), joint, is_error, estimate)
