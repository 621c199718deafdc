"""Metrics on numpy arrays, named as in eval_results.txt. No TensorFlow."""

from collections.abc import Mapping, Sequence

import numpy as np


def classification(
    labels: np.ndarray, predictions: np.ndarray, names: Sequence[str] = ("accuracy",), num_classes: int | None = None
) -> dict[str, float]:
    """Computes classification metrics of predicted classes.

    With two classes, f1, precision and recall are those of class 1, the last label in sort order; with more, they are
    the unweighted mean over the classes that occur in `labels` or `predictions`. Undefined values (0 / 0) count as 0.

    Args:
        labels: int [n], true classes.
        predictions: int [n], predicted classes.
        names: which of "accuracy", "f1", "weighted_f1", "precision", "recall", "matthews" to compute.
        num_classes: number of classes of the model; by default one more than the highest class that occurs, which is
            wrong if the data do not contain the last class.

    Returns:
        name -> score, in the order of `names`; 1.0 is best, 0.0 is worst (matthews: -1.0).

    Raises:
        ValueError: an unknown name, or arrays that do not match.
    """
    labels, predictions = _as_pair(labels, predictions)
    if num_classes is None:
        num_classes = int(max(labels.max(), predictions.max())) + 1
    return {name: _lookup(name, CLASSIFICATION)(labels, predictions, num_classes) for name in names}


def averaging(names: Sequence[str]) -> str:
    """Describes how `classification` averages f1, precision and recall over classes with these names."""
    if len(names) <= 2:
        return f"of {names[-1]!r}, the last label in sort order"
    return "macro average: the plain mean over the labels that occur"


def regression(
    labels: np.ndarray, scores: np.ndarray, names: Sequence[str] = ("pearson", "spearman")
) -> dict[str, float]:
    """Computes correlations between predicted and true scores, and mean errors.

    A constant column has correlation 0.0. A score that is not a number makes the result nan, so that it is noticed.

    Args:
        labels: float [n], true scores.
        scores: float [n], predicted scores.
        names: which of "pearson", "spearman", "mae", "rmse" to compute.

    Returns:
        name -> correlation from -1.0 to 1.0, or error from 0.0, the best; in the order of `names`.

    Raises:
        ValueError: an unknown name, or arrays that do not match.
    """
    labels, scores = _as_pair(labels, scores)
    return {name: _lookup(name, {**REGRESSION, **ERRORS})(labels, scores) for name in names}


def precision_at_recall(marks: np.ndarray, probabilities: np.ndarray, recall: float = 0.9) -> tuple[float, float]:
    """Computes the highest precision of a label at which at least this fraction of its examples is found.

    Args:
        marks: int or bool [n], whether each example has the label.
        probabilities: float [n], of the label.
        recall: the fraction to find, above 0.

    Returns:
        The precision, and the probability from which on the label must then be predicted; (0.0, 0.0) if no example has
        the label.
    """
    from sklearn.metrics import precision_recall_curve

    if not np.any(marks):
        return 0.0, 0.0
    precisions, recalls, thresholds = precision_recall_curve(marks, probabilities)
    best = int(np.argmax(np.where(recalls[:-1] >= recall, precisions[:-1], -1)))
    return float(precisions[best]), float(thresholds[best])


def mean_loss(losses: tuple[np.ndarray, np.ndarray]) -> float:
    """Computes the mean of examples' losses, given as sums and weights: float [n] each."""
    sums, weights = (np.sum(part, dtype=np.float64) for part in losses)
    return float(sums / weights)


def majority_share(labels: np.ndarray) -> float:
    """Computes the fraction of the most frequent label: the accuracy of the majority baseline.

    Args:
        labels: int, of any shape: 1 + the label, or 0 for positions to ignore.

    Returns:
        NaN if there are no labels.
    """
    counts = np.bincount(np.ravel(labels))[1:]
    return float(counts.max() / counts.sum()) if counts.size else float("nan")


def share_below(values: np.ndarray) -> np.ndarray:
    """Returns the fraction of values below each of the values, float [n] -> float [n]; equal ones count half."""
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(values))


def higher_is_better(name: str) -> bool:
    """Returns whether higher values of a metric are better; accepts "accuracy" and "eval_accuracy".

    A custom task's own metric ends in `_error` or `_loss`, or in `_score`, where higher is better.

    Raises:
        ValueError: an unknown name.
    """
    name = name.removeprefix("eval_")
    known = (metric for metric in _HIGHER_IS_BETTER if f"{name}_".startswith(f"{metric}_"))
    metric = max(known, key=len, default=name)  # f1_PER is f1, of entities of one type
    if metric not in _HIGHER_IS_BETTER and name.endswith(("_error", "_loss", "_score")):
        return name.endswith("_score")
    return _lookup(metric, _HIGHER_IS_BETTER)


def largest_fall(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[str, float] | None:
    """Returns the metric with the largest relative drop, and the drop.

    Only metrics of whole files for which higher is better are considered. Precision and recall are excluded, because
    they trade off against each other and F1 combines both.

    Args:
        before, after: {metric: value} on the same examples.

    Returns:
        (name, drop), or None if there is no such metric; the drop is negative if all of them rose.
    """
    metrics = {name: name.removeprefix("eval_") for name in before if name in after and before[name] > 0}
    counted = {metric for metric, is_better in _HIGHER_IS_BETTER.items() if is_better} - {"precision", "recall"}
    falls = {name: 1 - after[name] / before[name] for name, metric in metrics.items() if metric in counted}
    worst = max(falls, key=falls.get, default=None)
    return (worst, falls[worst]) if worst else None


def accuracy(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Computes the fraction of correct predictions."""
    return float(np.mean(labels == predictions))


def f1(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Computes the F1 score: the harmonic mean of precision and recall."""
    from sklearn.metrics import f1_score

    return _of_class_1_or_macro(f1_score, labels, predictions, num_classes)


def weighted_f1(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Computes the mean of all classes' F1 scores, weighted by their numbers of examples in `labels` (support).

    Labels and predictions may also be [n, L] of 0 and 1, for examples with any number of labels.
    """
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predictions, average="weighted", zero_division=0))


def precision(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Computes precision: the fraction of the predictions of a class that are correct."""
    from sklearn.metrics import precision_score

    return _of_class_1_or_macro(precision_score, labels, predictions, num_classes)


def recall(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Computes recall: the fraction of the examples of a class that are predicted as such."""
    from sklearn.metrics import recall_score

    return _of_class_1_or_macro(recall_score, labels, predictions, num_classes)


def matthews(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Computes Matthews correlation for any number of classes; 0.0 if labels or predictions are constant."""
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:  # undefined; scikit-learn agrees on 0, with warnings
        return 0.0
    return float(matthews_corrcoef(labels, predictions))


def pearson(labels: np.ndarray, scores: np.ndarray) -> float:
    """Computes Pearson's correlation coefficient."""
    from scipy.stats import pearsonr

    return _correlate(pearsonr, labels, scores)


def spearman(labels: np.ndarray, scores: np.ndarray) -> float:
    """Computes Spearman's rank correlation coefficient; ties share their mean rank."""
    from scipy.stats import spearmanr

    return _correlate(spearmanr, labels, scores)


def mae(labels: np.ndarray, scores: np.ndarray) -> float:
    """Computes the mean absolute error."""
    return float(np.abs(scores - labels).mean(dtype=np.float64))


def rmse(labels: np.ndarray, scores: np.ndarray) -> float:
    """Computes the root of the mean squared error."""
    return float(np.sqrt(np.square(scores - labels).mean(dtype=np.float64)))


CLASSIFICATION = {f.__name__: f for f in (accuracy, f1, weighted_f1, precision, recall, matthews)}
REGRESSION = {f.__name__: f for f in (pearson, spearman)}
ERRORS = {f.__name__: f for f in (mae, rmse)}
METRICS = {**CLASSIFICATION, **REGRESSION}
# Computed elsewhere (the training loss, `calibration.py`, `squad.py`, `retrieval.py`, `ranking.py`): is more better?
ELSEWHERE = {"loss": False, "ece": False, **dict.fromkeys(("exact", "mrr", "mrr_at_10", "ndcg_at_10", "map"), True)}
_HIGHER_IS_BETTER = {**dict.fromkeys(METRICS, True), **dict.fromkeys(ERRORS, False), **ELSEWHERE}


def _of_class_1_or_macro(score, labels, predictions, num_classes):
    only = [1] if num_classes <= 2 else None  # the mean over class 1 alone is class 1's score
    return float(score(labels, predictions, labels=only, average="macro", zero_division=0))


def _correlate(correlation, labels, scores):
    if np.ptp(labels) == 0 or np.ptp(scores) == 0:
        return 0.0
    return float(correlation(labels, scores).statistic)


def _as_pair(labels, predictions):
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.shape != predictions.shape or labels.ndim != 1 or not labels.size:
        raise ValueError(
            "Labels and predictions must be two arrays of shape [n] with n > 0; "
            f"got the shapes {list(labels.shape)} and {list(predictions.shape)}."
        )
    return labels, predictions


def _lookup(name, table: Mapping):
    if name not in table:
        raise ValueError(f"A metric must be one of {sorted(table)}; got {name!r}.")
    return table[name]
