"""What the columns of a table of answers say: which answers are right, and what each example adds to a score."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bert_tf.evaluation.bootstrap import (
    CLASS_SCORES,
    CORRELATIONS,
    Comparison,
    paired_bootstrap,
    paired_bootstrap_of_sums,
)
from bert_tf.evaluation.entities import entities
from bert_tf.evaluation.metrics import share_below
from bert_tf.experiments.comparison.tables import Table

Measure = Callable[["Answers", "Answers", int, int], Comparison]  # of two runs, samples and seed; the difference a - b


@dataclasses.dataclass(frozen=True)
class Answers:
    """The answers of one run to n examples.

    Attributes:
        gold: the right answers, as text; [] where there are none to show.
        given: the run's answers, as text.
        goodness: float [n], the greater the better: 1 for an answer that is right, where it is right or wrong.
        sums: {metric: what each example adds, float [n, k]} of the metrics that are made of sums.
        predictions: gold and given as numbers, for metrics by name; None: there are none.
        num_classes: of predictions that are classes.
        is_right_or_wrong: whether answers change from right to wrong, and not by degrees.
    """

    gold: Sequence[str]
    given: Sequence[str]
    goodness: np.ndarray
    sums: Mapping[str, np.ndarray]
    predictions: tuple[np.ndarray, np.ndarray] | None = None
    num_classes: int | None = None
    is_right_or_wrong: bool = True


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of tables.

    Attributes:
        columns: that it has beside `id`, `probability` and texts.
        gold: those that two runs on the same examples have alike.
        read: the table -> the answers.
        measures: {metric: how two runs are compared by it}.
        fits: whether a table with these columns is of this kind.
    """

    columns: tuple[str, ...]
    gold: tuple[str, ...]
    read: Callable[[Table], Answers]
    measures: Mapping[str, Measure]
    fits: Callable[[Table], bool] = lambda table: True

    def texts(self, table: Table) -> list[str]:
        """Returns n texts, what the table has of each example beside the answers; several with a bar between."""
        names = [name for name in table.columns if name not in {"id", "probability", *self.columns}]
        columns = [table.columns[name] for name in names] or [[""] * len(table.columns["id"])]
        return [" | ".join(cells) for cells in zip(*columns, strict=True)]


def kind_of(table: Table) -> Kind:
    """Returns the kind of a table; raises ValueError where it is of none."""
    for kind in KINDS:
        if set(kind.columns) <= table.columns.keys() and kind.fits(table):
            return kind
    raise ValueError(
        f"{table.path} must hold the answers of a task that can be compared. Received the columns "
        f"{', '.join(table.columns)}; score the run again, with `do_eval`."
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


def _f1(sums):
    """sums: float [s, 3], how many are right, given, and there."""
    return _ratio(2 * sums[:, 0], sums[:, 1] + sums[:, 2])


_COUNTED = {"f1": _f1, "precision": lambda sums: _ratio(sums[:, 0], sums[:, 1]),
            "recall": lambda sums: _ratio(sums[:, 0], sums[:, 2])}  # fmt: skip


def _with_ones(values):
    return np.stack([values, np.ones(len(values))], 1).astype(np.float64)


def _counted(counts, **others):
    """Returns the sums of f1, precision and recall, of counts float [n, 3], and `others`."""
    return {**dict.fromkeys(_COUNTED, np.asarray(counts, np.float64).reshape(-1, 3)), **others}


def _classes(table):
    gold, given = table.columns["label"], table.columns["prediction"]
    names = sorted({*table.labels, *gold, *given})  # as ids are given: sorted as strings
    place = {name: i for i, name in enumerate(names)}
    ids = tuple(np.array([place[name] for name in column]) for column in (gold, given))
    return Answers(gold, given, (ids[0] == ids[1]).astype(float), {}, ids, len(names))


def _sets(table):
    """Any number of labels to an example: n * L decisions between yes and no, as run_classifier scores them."""
    gold, given = table.columns["label"], table.columns["prediction"]
    read = {cell: table.labels_in(cell) for cell in {*gold, *given}}
    if strange := [cell for cell, labels in read.items() if labels is None]:
        raise ValueError(
            f"{table.path}: an example's labels must be those of labels.txt, {', '.join(map(repr, table.labels))}. "
            f"Received {strange[0]!r}; score the run again, with `do_eval`."
        )
    sides = [[read[cell] for cell in column] for column in (gold, given)]
    pairs, width = list(zip(*sides, strict=True)), len(table.labels)
    counts = [(len(a & b), len(b), len(a)) for a, b in pairs]
    decisions = np.array([[width - len(a ^ b), width] for a, b in pairs], np.float64)
    right = np.array([a == b for a, b in pairs], np.float64)
    return Answers(gold, given, right, _counted(counts, accuracy=decisions))


def _has_several(table):
    """The task says it; where it does not, a cell that is no label of the model's is none or several of them."""
    if table.has_several is not None:
        return table.has_several
    cells = {*table.columns["label"], *table.columns["prediction"]}
    return bool(table.labels) and not cells <= set(table.labels) and all(
        table.labels_in(cell) is not None for cell in cells
    )


def _numbers(table):
    """Correlations ask for the order alone, and scales may differ, as those of cosines: so an answer is as good as its
    place among all answers is near to the right one's."""
    gold, given = table.numbers("label"), table.numbers("prediction")
    goodness = -np.abs(share_below(gold) - share_below(given))
    shown = table.columns["label"], table.columns["prediction"]
    return Answers(*shown, goodness, {}, (gold, given), is_right_or_wrong=False)


def _tags(table):
    sides = [[cell.split(" ") for cell in table.columns[name]] for name in ("tags", "predicted_tags")]
    pairs = list(zip(*sides, strict=True))
    words = np.array([[sum(a == b for a, b in zip(*pair, strict=True)), len(pair[0])] for pair in pairs], np.float64)
    found = [tuple(set(entities(tags)) for tags in pair) for pair in pairs]
    counts = [(len(a & b), len(b), len(a)) for a, b in found]
    right = np.array([a == b for a, b in found], np.float64)
    return Answers(table.columns["tags"], table.columns["predicted_tags"], right, _counted(counts, accuracy=words))


def _questions(table):
    exact, f1 = table.numbers("exact"), table.numbers("f1")
    sums = {"exact": _with_ones(exact), "f1": _with_ones(f1)}
    return Answers(table.columns["answer"], table.columns["prediction"], exact, sums)


def _places(table):
    places = table.numbers("place")
    sums = {f"recall_at_{k}": _with_ones((places <= k).astype(float)) for k in (1, 10)}
    sums["mrr"] = _with_ones(1 / places)
    return Answers([], [f"place {place:.0f}" for place in places], 1 / places, sums, is_right_or_wrong=False)


_COUNTS = {name: _by_sums(name, score) for name, score in _COUNTED.items()}
_LABELLED = ("label", "prediction")
KINDS = (
    Kind(_LABELLED, ("label",), _numbers, {name: _by_name(name) for name in CORRELATIONS},
         lambda table: bool(CORRELATIONS.keys() & table.scores.keys())),
    Kind(_LABELLED, ("label",), _sets, {"accuracy": _by_sums("accuracy", _mean), **_COUNTS}, _has_several),
    Kind(_LABELLED, ("label",), _classes, {name: _by_name(name) for name in CLASS_SCORES}),
    Kind(("tags", "predicted_tags"), ("tags",), _tags, {"accuracy": _by_sums("accuracy", _mean), **_COUNTS}),
    Kind(("answer", "prediction", "exact", "f1"), ("answer",), _questions,
         {name: _by_sums(name, _mean) for name in ("exact", "f1")}),
    Kind(("place",), (), _places, {name: _by_sums(name, _mean) for name in ("recall_at_1", "recall_at_10", "mrr")}),
)  # fmt: skip
