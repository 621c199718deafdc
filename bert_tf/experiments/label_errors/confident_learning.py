"""Confident learning: finds labels that are probably wrong from the probabilities of held-out models.

Northcutt, Jiang and Chuang 2021 (JAIR 70). A class j has a threshold t_j, the mean probability of j over the examples
labeled j, because models are more confident about some classes than others. An example labeled i counts as a j if its
probability of j is at least t_j, and the highest of those that reach their thresholds. It must also exceed
that of i, whether or not i reaches its own: models are never confident about a rare class, so its threshold
is tiny, and with the threshold alone, many of the other examples would count as that class. No TensorFlow.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Suspicion:
    """Result of confident learning for n labels.

    Attributes:
        thresholds: float [L], t_j.
        is_error: bool [n], whether the example counts as a class other than its label.
        likely: int [n], the class that such an example counts as; for others, their label.
        margin: float [n]: the label's probability minus that of the most probable other class that reaches its
            threshold; below 0, the label is suspect, and lower is more suspect.
        joint: int [L, L], number of examples labeled i that count as a j, without those that count as no class.
        estimate: estimated number of wrong labels, from the joint scaled to the examples of each label.
    """

    thresholds: np.ndarray
    is_error: np.ndarray
    likely: np.ndarray
    margin: np.ndarray
    joint: np.ndarray
    estimate: float

    @property
    def order(self) -> np.ndarray:
        """int [n], the examples, the most likely error first."""
        return np.argsort(self.margin, kind="stable")


def suspect(probabilities: np.ndarray, labels: np.ndarray) -> Suspicion:
    """Finds probable label errors from held-out probabilities.

    Args:
        probabilities: float [n, L], of models that were not trained on the example; L > 1.
        labels: int [n], the given labels; each class has an example.

    Raises:
        ValueError: arrays that do not match, a class without an example, or probabilities that are not finite.
    """
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    n, width = probabilities.shape if probabilities.ndim == 2 else (0, 0)
    if width < 2 or labels.shape != (n,) or set(np.unique(labels)) != set(range(width)):
        raise ValueError(
            "Probabilities must have the shape [n, L] with L > 1, and labels the shape [n], in which each of the L "
            f"classes occurs; got the shapes {list(probabilities.shape)} and {list(labels.shape)}."
        )
    if not np.isfinite(probabilities).all():
        raise ValueError("The probabilities contain NaN or infinity: training diverged. Lower the learning rate.")
    thresholds = np.array([probabilities[labels == j, j].mean() for j in range(width)])
    reached = np.where(probabilities >= thresholds, probabilities, 0)
    rows = np.arange(n)
    own, counts_as_own = probabilities[rows, labels], reached[rows, labels] > 0
    reached[rows, labels] = 0
    margin = own - reached.max(1)
    is_error = margin < 0
    likely = np.where(is_error, reached.argmax(1), labels)
    counts = is_error | counts_as_own
    joint = np.bincount(labels[counts] * width + likely[counts], minlength=width**2).reshape(width, width)
    counted = joint.sum(1)
    right = np.divide(joint.diagonal(), counted, out=np.ones(width), where=counted > 0)
    estimate = float((np.bincount(labels, minlength=width) * (1 - right)).sum())
    return Suspicion(thresholds, is_error, likely, margin, joint, estimate)
