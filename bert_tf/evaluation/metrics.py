"""Scores on numpy arrays, by the names that eval_results.txt uses; no TensorFlow."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bert_tf.utils.files import read_lines

# === One answer ===
# Finds runs whose model gives every example the same answer: it has learned nothing, whatever its score.


PREDICTIONS_FILE = "eval_predictions.tsv"
# Columns of such a table: right answers and given ones. A cell of tags holds several.
_COLUMNS = (("tags", "predicted_tags"), ("label", "prediction"), ("answer", "prediction"))


def only_answer(columns: Mapping[str, Sequence[str]]) -> str | None:
    """Returns the answer that all examples were given, where they should have been given several; else None.

    Args:
        columns: of a table of answers, {name: n cells}, as `eval_predictions.tsv` has them.
    """
    names = next((names for names in _COLUMNS if set(names) <= columns.keys()), None)
    if names is None:
        return None
    gold, given = (columns[name] for name in names)
    if names[0] == "tags":
        gold, given = _words(gold), _words(given)
    answers = set(given)
    return answers.pop() if len(answers) == 1 and len(set(gold)) > 1 else None


def only_answer_in(folder: str | os.PathLike) -> str | None:
    """Returns what `only_answer` says of the answers of a scored run to its evaluation file; None: there are none."""
    path = pathlib.Path(folder, PREDICTIONS_FILE)
    if not path.exists():
        return None
    header, *rows = [line.rstrip("\r\n").split("\t") for line in read_lines(path)] or [[]]
    cells = {name: [row[index] for row in rows if index < len(row)] for index, name in enumerate(header)}
    return only_answer(cells)


def _words(cells: Iterable[str]) -> set[str]:
    return {word for cell in cells for word in cell.split(" ")}


# === Retrieval ===
# Retrieval scores: recall among the first k, and the mean reciprocal rank.


_BLOCK = 1024  # queries held against all candidates at a time
_SAME = 1e-6  # cosines this near are equal: a text that occurs twice is not worse than itself


def ranks(queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Returns the position of each query's own candidate when all are sorted by cosine, int64 [q], from 1.

    Args:
        queries: float [q, D].
        candidates: float [c, D], c >= q: the n-th is what the n-th query looks for.
    """
    queries, candidates = unit(queries), unit(candidates)
    found = []
    for start in range(0, len(queries), _BLOCK):
        cosines = queries[start : start + _BLOCK] @ candidates.T
        own = cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))]
        found.append(1 + (cosines > own[:, None] + _SAME).sum(1))
    return np.concatenate(found)


def retrieval(found_ranks: np.ndarray, at: Sequence[int] = (1, 10)) -> dict[str, float]:
    """Scores positions, as `ranks` gives them.

    Args:
        found_ranks: int [q], from 1.
        at: the numbers of results that recall is wanted for.

    Returns:
        {"recall_at_k": share of positions up to k, for each k; "mrr": mean of 1 / position}.
    """
    recalls = {f"recall_at_{k}": float((found_ranks <= k).mean()) for k in at}
    return {**recalls, "mrr": float((1 / found_ranks).mean())}


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns the cosine of each of n pairs of vectors, float [n]; both are float [n, D]."""
    return (unit(one) * unit(other)).sum(-1)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors, float [n, D], each divided by its length; one of length 0 stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


# === Metrics ===


def classification(
    labels: np.ndarray, predictions: np.ndarray, names: Sequence[str] = ("accuracy",), num_classes: int | None = None
) -> dict[str, float]:
    """Scores predicted classes.

    With two classes f1, precision and recall are those of class 1, the last label in sort order; with more they are
    the unweighted mean over the classes that occur in `labels` or `predictions`. What is undefined (0 / 0) counts as 0.

    Args:
        labels: int [n], true classes.
        predictions: int [n], predicted classes.
        names: which of "accuracy", "f1", "precision", "recall", "matthews" to compute.
        num_classes: how many classes the model tells apart; by default one more than the highest that occurs, which is
            wrong when the data happen not to hold the last class.

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
    """Returns a description of how `classification` averages f1, precision and recall of the classes of these names."""
    if len(names) <= 2:
        return f"of {names[-1]!r}, the last label in sort order"
    return "macro average: the plain mean over the labels that occur"


def regression(
    labels: np.ndarray, scores: np.ndarray, names: Sequence[str] = ("pearson", "spearman")
) -> dict[str, float]:
    """Correlates predicted with true scores.

    A constant column correlates with nothing: 0.0. A score that is not a number makes the result nan, which should be
    seen.

    Args:
        labels: float [n], true scores.
        scores: float [n], predicted scores.
        names: which of "pearson", "spearman" to compute.

    Returns:
        name -> correlation from -1.0 to 1.0, in the order of `names`.

    Raises:
        ValueError: an unknown name, or arrays that do not match.
    """
    labels, scores = _as_pair(labels, scores)
    return {name: _lookup(name, REGRESSION)(labels, scores) for name in names}


def mean_loss(losses: tuple[np.ndarray, np.ndarray]) -> float:
    """Returns the mean of examples' losses, each a sum and what it counts: float [n] twice."""
    sums, weights = (np.sum(part, dtype=np.float64) for part in losses)
    return float(sums / weights)


def share_of_commonest(labels: np.ndarray) -> float:
    """Returns which share of the labels is the commonest of them: the accuracy of always giving that answer.

    Args:
        labels: int, of any shape: 1 + the label, or 0 for what does not count.

    Returns:
        NaN where nothing counts.
    """
    counts = np.bincount(np.ravel(labels))[1:]
    return float(counts.max() / counts.sum()) if counts.size else float("nan")


def share_below(values: np.ndarray) -> np.ndarray:
    """Returns float [n]: the share of the values, float [n], that lie below each; equal ones count half."""
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(values))


def higher_is_better(name: str) -> bool:
    """Returns whether more of the metric is better, for "accuracy" and "eval_accuracy" alike; of an error it is not.

    Raises:
        ValueError: an unknown name.
    """
    metric = name.removeprefix("eval_").partition("_")[0]  # f1_PER is f1, of the entities of one type
    return _lookup(metric, {**dict.fromkeys(METRICS, True), **ELSEWHERE})


def largest_fall(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[str, float] | None:
    """Returns which score fell by the greatest share of itself, and by what share.

    Looked at are scores of which more is better, of whole files. Precision and recall trade against each other, and F1
    is made of both.

    Args:
        before, after: {name: score} of the same examples.

    Returns:
        None where there is no such score; the share is below 0 where all of them rose.
    """
    known = {**dict.fromkeys(METRICS, True), **ELSEWHERE}
    metrics = {name: name.removeprefix("eval_") for name in before if name in after and before[name] > 0}
    counted = (name for name, metric in metrics.items() if known.get(metric) and metric not in ("precision", "recall"))
    falls = {name: 1 - after[name] / before[name] for name in counted}
    worst = max(falls, key=falls.get, default=None)
    return worst and (worst, falls[worst])


def accuracy(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Returns the share of predictions that are right."""
    return float(np.mean(labels == predictions))


def f1(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Returns the harmonic mean of precision and recall."""
    from sklearn.metrics import f1_score

    return _of_class_1_or_macro(f1_score, labels, predictions, num_classes)


def precision(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Returns the share of what was predicted as a class that is of it."""
    from sklearn.metrics import precision_score

    return _of_class_1_or_macro(precision_score, labels, predictions, num_classes)


def recall(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Returns the share of what is of a class that was predicted as it."""
    from sklearn.metrics import recall_score

    return _of_class_1_or_macro(recall_score, labels, predictions, num_classes)


def matthews(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """Returns Matthews' correlation for any number of classes; 0.0 where labels or predictions are all the same."""
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:  # undefined; scikit-learn agrees on 0, with warnings
        return 0.0
    return float(matthews_corrcoef(labels, predictions))


def pearson(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns Pearson's correlation coefficient."""
    from scipy.stats import pearsonr

    return _correlate(pearsonr, labels, scores)


def spearman(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns Spearman's rank correlation coefficient; ties share their mean rank."""
    from scipy.stats import spearmanr

    return _correlate(spearmanr, labels, scores)


CLASSIFICATION = {f.__name__: f for f in (accuracy, f1, precision, recall, matthews)}
REGRESSION = {f.__name__: f for f in (pearson, spearman)}
METRICS = {**CLASSIFICATION, **REGRESSION}
# What others compute: the training loss, `calibration.py`, `squad_scores.py`, `retrieval.py`; whether more is better.
ELSEWHERE = {"loss": False, "ece": False, "exact": True, "mrr": True}


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
            "Labels and predictions must be two arrays of shape [n] with n > 0. "
            f"Received the shapes {list(labels.shape)} and {list(predictions.shape)}."
        )
    return labels, predictions


def _lookup(name, table: Mapping):
    if name not in table:
        raise ValueError(f"A metric must be one of {sorted(table)}. Received: {name!r}.")
    return table[name]
