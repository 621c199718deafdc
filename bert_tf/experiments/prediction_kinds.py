"""Kinds of prediction tables: which predictions are correct, and each example's contribution to a metric."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_tf.evaluation.entities import parse_entities
from bert_tf.evaluation.error_reports.tagging import SPAN_COLUMNS
from bert_tf.evaluation.metrics import share_below
from bert_tf.evaluation.significance import (
    CLASS_SCORES,
    CORRELATIONS,
    BootstrapResult,
    paired_bootstrap,
    paired_bootstrap_of_sums,
)
from bert_tf.experiments.prediction_tables import LABEL_COLUMNS, PredictionTable

# Function from two runs, the number of samples and a seed to the bootstrap of the difference a - b.
Measure = Callable[["RunPredictions", "RunPredictions", int, int], BootstrapResult]


@dataclasses.dataclass(frozen=True)
class RunPredictions:
    """The predictions of one run for n examples.

    Attributes:
        gold: the true labels as text; [] if there are none to show.
        given: the run's predictions as text.
        goodness: float [n], higher is better; for predictions that are right or wrong, 1 if right.
        sums: {metric: each example's contribution, float [n, k]} for metrics that are based on sums.
        predictions: `gold` and `given` as numbers, for metrics by name; None if not available.
        num_classes: number of classes in `predictions`.
        is_right_or_wrong: whether predictions are right or wrong, rather than better or worse by degrees.
    """

    gold: Sequence[str]
    given: Sequence[str]
    goodness: np.ndarray
    sums: Mapping[str, np.ndarray]
    predictions: tuple[np.ndarray, np.ndarray] | None = None
    num_classes: int | None = None
    is_right_or_wrong: bool = True


@dataclasses.dataclass(frozen=True)
class PredictionKind:
    """One kind of prediction tables.

    Attributes:
        columns: its columns in addition to `id`, `probability` and texts.
        gold: columns that are equal in two runs on the same examples.
        read: function from the file to the predictions.
        measures: {metric: how two runs are compared}.
        fits: whether a file with these columns is of this kind.
        partial_measures: metrics that can leave out the examples of some labels; () if none can.
    """

    columns: tuple[str, ...]
    gold: tuple[str, ...]
    read: Callable[[PredictionTable], RunPredictions]
    measures: Mapping[str, Measure]
    fits: Callable[[PredictionTable], bool] = lambda table: True
    partial_measures: tuple[str, ...] = ()

    def texts(self, table: PredictionTable) -> list[str]:
        """Returns n texts, the columns besides the predictions, joined with a bar."""
        names = [name for name in table.columns if name not in {"id", "probability", *self.columns}]
        columns = [table.columns[name] for name in names] or [[""] * len(table.columns["id"])]
        return [" | ".join(cells) for cells in zip(*columns, strict=True)]


def kind_of_table(table: PredictionTable) -> PredictionKind:
    """Returns the kind of a predictions file; raises ValueError if it is unknown."""
    for kind in KINDS:
        if set(kind.columns) <= table.columns.keys() and kind.fits(table):
            return kind
    raise ValueError(
        f"{table.path} does not contain predictions of a task that can be compared; it has the columns "
        f"{', '.join(table.columns)}; evaluate the run again with `do_eval`."
    )


def _by_name(metric):
    def compare(a, b, samples, seed):
        (gold, ours), (_, theirs) = a.predictions, b.predictions
        return paired_bootstrap(metric, gold, ours, theirs, samples, seed, a.num_classes)

    return compare


def _by_sums(metric, score):
    return lambda a, b, samples, seed: paired_bootstrap_of_sums(score, a.sums[metric], b.sums[metric], samples, seed)


def _ratio(above, below):
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=below > 0)


def _mean(sums):
    return _ratio(sums[:, 0], sums[:, 1])


# Metrics from float [s, 3]: the numbers of correct, predicted and true items.
_COUNTED = {
    "f1": lambda sums: _ratio(2 * sums[:, 0], sums[:, 1] + sums[:, 2]),
    "precision": _mean,
    "recall": lambda sums: _ratio(sums[:, 0], sums[:, 2]),
}


def _with_ones(values):
    return np.stack([values, np.ones(len(values))], 1).astype(np.float64)


def _count_sums(counts, **others):
    """Returns the sums of f1, precision and recall, of counts float [n, 3], and `others`."""
    return {**dict.fromkeys(_COUNTED, np.asarray(counts, np.float64).reshape(-1, 3)), **others}


def _read_classes(table):
    """Predictions of a label that is not scored are wrong, and not a separate class."""
    gold, given = table.columns["label"], table.columns["prediction"]
    names = table.scored_labels or sorted({*table.labels, *gold, *given})  # in the order of ids: sorted as strings
    width = max(3, len(names)) if table.scored_labels else len(names)  # a mean over the labels, even if two are left
    index = {name: i for i, name in enumerate(names)}
    ids = tuple(np.array([index.get(name, width) for name in column]) for column in (gold, given))
    return RunPredictions(gold, given, (ids[0] == ids[1]).astype(float), {}, ids, width)


def _read_label_sets(table):
    """Multi-label predictions: n * L binary decisions, as evaluated by `train classifier`."""
    gold, given = table.columns["label"], table.columns["prediction"]
    read = {cell: table.labels_in(cell) for cell in {*gold, *given}}
    if strange := [cell for cell, labels in read.items() if labels is None]:
        raise ValueError(
            f"{table.path}: an example's labels must be those of labels.txt, {', '.join(map(repr, table.labels))}; "
            f"got {strange[0]!r}; evaluate the run again with `do_eval`."
        )
    sides = [[read[cell] for cell in column] for column in (gold, given)]
    pairs, width = list(zip(*sides, strict=True)), len(table.labels)
    counts = [(len(a & b), len(b), len(a)) for a, b in pairs]
    decisions = np.array([[width - len(a ^ b), width] for a, b in pairs], np.float64)
    right = np.array([a == b for a, b in pairs], np.float64)
    return RunPredictions(gold, given, right, _count_sums(counts, accuracy=decisions))


def _has_several(table):
    """The task determines it; otherwise, a cell that is not one of the model's labels has none or several of them."""
    if table.has_several is not None:
        return table.has_several
    cells = {*table.columns["label"], *table.columns["prediction"]}
    return (
        bool(table.labels)
        and not cells <= set(table.labels)
        and all(table.labels_in(cell) is not None for cell in cells)
    )


def _read_numbers(table):
    """Correlations depend on the order only, and scales may differ, as for cosines. So a prediction is as good as its
    rank among all predictions is close to the true one's."""
    gold, given = table.numbers("label"), table.numbers("prediction")
    goodness = -np.abs(share_below(gold) - share_below(given))
    shown = table.columns["label"], table.columns["prediction"]
    return RunPredictions(*shown, goodness, {}, (gold, given), is_right_or_wrong=False)


def _read_tags(table):
    sides = [[cell.split(" ") for cell in table.columns[name]] for name in ("tags", "predicted_tags")]
    pairs = list(zip(*sides, strict=True))
    words = np.array([[sum(a == b for a, b in zip(*pair, strict=True)), len(pair[0])] for pair in pairs], np.float64)
    found = [tuple(set(parse_entities(tags)) for tags in pair) for pair in pairs]
    counts = [(len(a & b), len(b), len(a)) for a, b in found]
    right = np.array([a == b for a, b in found], np.float64)
    return RunPredictions(
        table.columns["tags"], table.columns["predicted_tags"], right, _count_sums(counts, accuracy=words)
    )


def _read_spans(table):
    found = [[set(cell.split()) for cell in table.columns[name]] for name in SPAN_COLUMNS]
    pairs = list(zip(*found, strict=True))
    right = np.array([a == b for a, b in pairs], np.float64)
    counts = [(len(a & b), len(b), len(a)) for a, b in pairs]
    return RunPredictions(*(table.columns[name] for name in SPAN_COLUMNS), right, _count_sums(counts))


def _read_answers(table):
    exact, f1 = table.numbers("exact"), table.numbers("f1")
    sums = {"exact": _with_ones(exact), "f1": _with_ones(f1)}
    return RunPredictions(table.columns["answer"], table.columns["prediction"], exact, sums)


def _read_ranks(table):
    ranks = table.numbers("place")
    sums = {f"recall_at_{k}": _with_ones((ranks <= k).astype(float)) for k in (1, 10)}
    sums |= {"mrr": _with_ones(1 / ranks), "mrr_at_10": _with_ones(np.where(ranks <= 10, 1 / ranks, 0))}
    return RunPredictions([], [f"place {rank:.0f}" for rank in ranks], 1 / ranks, sums, is_right_or_wrong=False)


_SUMMED = {name: _by_sums(name, score) for name, score in {"accuracy": _mean, **_COUNTED}.items()}
# The first that fits a table is its kind: those with the same columns differ in their scores and labels.
KINDS = (
    PredictionKind(LABEL_COLUMNS, ("label",), _read_numbers, {name: _by_name(name) for name in CORRELATIONS},
                   lambda table: bool(CORRELATIONS.keys() & table.scores.keys())),
    PredictionKind(LABEL_COLUMNS, ("label",), _read_label_sets, _SUMMED, _has_several),
    PredictionKind(LABEL_COLUMNS, ("label",), _read_classes, {name: _by_name(name) for name in CLASS_SCORES},
                   partial_measures=("accuracy", "f1", "precision", "recall")),
    PredictionKind((*SPAN_COLUMNS, "tags", "predicted_tags"), SPAN_COLUMNS[:1], _read_spans,
                   {name: _by_sums(name, score) for name, score in _COUNTED.items()}),
    PredictionKind(("tags", "predicted_tags"), ("tags",), _read_tags, _SUMMED),
    PredictionKind(("answer", "prediction", "exact", "f1"), ("answer",), _read_answers,
                   {name: _by_sums(name, _mean) for name in ("exact", "f1")}),
    PredictionKind(("place",), (), _read_ranks,
                   {name: _by_sums(name, _mean) for name in ("recall_at_1", "recall_at_10", "mrr", "mrr_at_10")}),
)  # fmt: skip
