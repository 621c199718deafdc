"""Compares the predictions of two evaluated runs of one task."""

import collections
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.evaluation.entities import parse_entities
from bert_tf.evaluation.metrics import only_answer, share_below
from bert_tf.evaluation.results import read_results
from bert_tf.evaluation.significance import (
    CLASS_SCORES,
    CORRELATIONS,
    BootstrapResult,
    paired_bootstrap,
    paired_bootstrap_of_sums,
)
from bert_tf.models.config_files import task_in
from bert_tf.utils.files import read_text
from bert_tf.utils.json_files import read_object
from bert_tf.utils.names import HAVE_SEVERAL_LABELS

# === Predictions ===
# The predictions of an evaluated run, from the files eval_predictions*.tsv in its directory.


_NAME = "eval_predictions"
_RUN_FILE, _LABELS_FILE = "run.json", "labels.txt"


@dataclasses.dataclass(frozen=True)
class PredictionTable:
    """The predictions of a run for one file of examples, from its predictions file.

    Attributes:
        path: the file.
        columns: {name: n cells}, in the order of the file.
        scores: {metric: score} of this file, from eval_results.txt.
        labels: names of the model's outputs; () if they have none.
        separator: separator between the labels of a multi-label example.
        has_several: whether the task is multi-label; None: unknown.
        scored_labels: labels that classes are scored on; None: all.
    """

    path: pathlib.Path
    columns: Mapping[str, Sequence[str]]
    scores: Mapping[str, float]
    labels: tuple[str, ...] = ()
    separator: str = ","
    has_several: bool | None = None
    scored_labels: tuple[str, ...] | None = None

    def labels_in(self, cell: str) -> set[str] | None:
        """Returns the labels of a multi-label example; None if a cell holds something else.

        A label's name may contain the separator.

        Raises:
            ValueError: a cell is ambiguous.
        """
        first, second = itertools.islice(itertools.chain(_readings(cell, self.labels, self.separator), (None, None)), 2)
        if second is not None and set(first) != set(second):
            raise ValueError(
                f"{self.path}: the labels of an example are ambiguous: {cell!r} may be "
                f"{' and '.join(map(repr, first))}, or {' and '.join(map(repr, second))}; evaluate the run again with "
                "another `label_separator`."
            )
        return None if first is None else set(first)

    def numbers(self, name: str) -> np.ndarray:
        """Returns a column as float64 [n]; raises ValueError if it holds something else."""
        try:
            return np.array(self.columns[name], np.float64)
        except ValueError as error:
            raise ValueError(
                f"{self.path}: the column {name!r} must hold numbers: {error}. Evaluate the run again."
            ) from error

    def take(self, indices: Sequence[int]) -> "PredictionTable":
        """Returns the table with its lines in another order."""
        taken = {name: [cells[i] for i in indices] for name, cells in self.columns.items()}
        return dataclasses.replace(self, columns=taken)


def read_prediction_tables(directory: str) -> dict[str, PredictionTable]:
    """Returns {"" or "_mismatched", ...: the predictions for that file} of an evaluated run.

    Raises:
        ValueError: the directory is not that of an evaluated run, or a file in it is damaged.
    """
    folder = pathlib.Path(directory)
    paths = sorted(folder.glob(f"{_NAME}*.tsv")) if folder.is_dir() else []
    if not paths:
        what = f"which has no {_NAME}.tsv" if folder.is_dir() else "where no directory is"
        raise ValueError(
            f"Not the `output_dir` of an evaluated run: {directory}, {what}. Evaluate it "
            "with `do_eval`, or pass another directory."
        )
    path = folder / _LABELS_FILE
    labels = tuple(read_text(path).split("\n")[:-1]) if path.exists() else ()
    separator = _read_run(folder).get("settings", {}).get("label_separator")
    has_several, tables = HAVE_SEVERAL_LABELS.get((task_in(directory) or {}).get("problem")), {}
    for path in paths:
        suffix = path.stem.removeprefix(_NAME)
        own = read_results(folder, suffix) if suffix else None  # otherwise, they are in eval_results.txt with others
        scores = _scores_ending(own, "") if own else _scores_ending(read_results(folder) or {}, suffix)
        tables[suffix] = PredictionTable(path, _columns(path), scores, labels, separator or ",", has_several)
    return tables


def describe_run(directory: str) -> dict[str, Any]:
    """Returns the facts in a run's files: `task`, its name, and `file`, the last file evaluated during training.

    Either is None if it is not recorded.
    """
    files = _read_run(pathlib.Path(directory)).get("data", {}).get("dev") or [{}]
    return {"task": (task_in(directory) or {}).get("task"), "file": files[0].get("file")}


def _readings(cell, labels, separator):
    """Yields the different ways to split a cell into labels at the separator."""
    if not cell:
        yield ()
    for label in filter(None, labels):
        if cell == label:
            yield (label,)
        elif cell.startswith(label + separator):
            others = [other for other in labels if other != label]
            yield from ((label, *rest) for rest in _readings(cell[len(label + separator) :], others, separator) if rest)


def _columns(path):
    rows = [line.split("\t") for line in read_text(path).split("\n")]
    rows = rows[:-1] if rows[-1] == [""] else rows
    header = rows[0] if rows else []
    for number, row in enumerate(rows, 1):
        if len(row) != len(header) or number == 1 and "id" not in row:
            raise ValueError(
                f"{path}:{number}: a predictions file needs a header with `id`, and the same number of columns in each "
                f"line; got {row[:5]}. Evaluate the run again with `do_eval`."
            )
    if len(rows) < 2:
        raise ValueError(f"{path} holds no predictions. Evaluate the run again with `do_eval`.")
    return dict(zip(header, map(list, zip(*rows[1:], strict=True)), strict=True))


def _scores_ending(scores, suffix):
    """Returns the metrics with the file's suffix, without this suffix and without "eval_"."""
    own = {name.removeprefix("eval_"): value for name, value in scores.items() if name.startswith("eval_")}
    return {name.removesuffix(suffix): value for name, value in own.items() if name.endswith(suffix)}


def _read_run(folder):
    path = folder / _RUN_FILE
    return read_object(path, "the record of a run", "evaluate the run again") if path.exists() else {}


# === Kinds ===
# Kinds of predictions files: which predictions are correct, and each example's contribution to a metric.


Measure = Callable[
    ["RunPredictions", "RunPredictions", int, int], BootstrapResult
]  # of two runs, samples and seed; the difference a - b


@dataclasses.dataclass(frozen=True)
class RunPredictions:
    """The predictions of one run for n examples.

    Attributes:
        gold: the true labels as text; [] if there are none to show.
        given: the run's predictions as text.
        goodness: float [n], higher is better; for predictions that are right or wrong, 1 if right.
        sums: {metric: each example's contribution, float [n, k]} for metrics that are based on sums.
        predictions: `gold` and `given` as numbers, for metrics by name; None: not available.
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
class Kind:
    """One kind of predictions files.

    Attributes:
        columns: its columns in addition to `id`, `probability` and texts.
        gold: columns that are equal in two runs on the same examples.
        read: function from the file to the predictions.
        measures: {metric: how two runs are compared}.
        fits: whether a file with these columns is of this kind.
    """

    columns: tuple[str, ...]
    gold: tuple[str, ...]
    read: Callable[[PredictionTable], RunPredictions]
    measures: Mapping[str, Measure]
    fits: Callable[[PredictionTable], bool] = lambda table: True

    def texts(self, table: PredictionTable) -> list[str]:
        """Returns n texts, the columns besides the predictions, joined with a bar."""
        names = [name for name in table.columns if name not in {"id", "probability", *self.columns}]
        columns = [table.columns[name] for name in names] or [[""] * len(table.columns["id"])]
        return [" | ".join(cells) for cells in zip(*columns, strict=True)]


def kind_of_table(table: PredictionTable) -> Kind:
    """Returns the kind of a predictions file; raises ValueError if it is unknown."""
    for kind in KINDS:
        if set(kind.columns) <= table.columns.keys() and kind.fits(table):
            return kind
    raise ValueError(
        f"{table.path} does not hold predictions of a task that can be compared; it has the columns "
        f"{', '.join(table.columns)}. Evaluate the run again with `do_eval`."
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
    """Predictions of a label that is not scored are wrong, and no class of their own."""
    gold, given = table.columns["label"], table.columns["prediction"]
    names = table.scored_labels or sorted({*table.labels, *gold, *given})  # in the order of ids: sorted as strings
    width = max(3, len(names)) if table.scored_labels else len(names)  # a mean over the labels, even if two are left
    index = {name: i for i, name in enumerate(names)}
    ids = tuple(np.array([index.get(name, width) for name in column]) for column in (gold, given))
    return RunPredictions(gold, given, (ids[0] == ids[1]).astype(float), {}, ids, width)


def _read_label_sets(table):
    """Multi-label predictions: n * L binary decisions, as evaluated by run_classifier."""
    gold, given = table.columns["label"], table.columns["prediction"]
    read = {cell: table.labels_in(cell) for cell in {*gold, *given}}
    if strange := [cell for cell, labels in read.items() if labels is None]:
        raise ValueError(
            f"{table.path}: an example's labels must be those of labels.txt, {', '.join(map(repr, table.labels))}. "
            f"Got {strange[0]!r}. Evaluate the run again with `do_eval`."
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


def _read_answers(table):
    exact, f1 = table.numbers("exact"), table.numbers("f1")
    sums = {"exact": _with_ones(exact), "f1": _with_ones(f1)}
    return RunPredictions(table.columns["answer"], table.columns["prediction"], exact, sums)


def _read_ranks(table):
    ranks = table.numbers("place")
    sums = {f"recall_at_{k}": _with_ones((ranks <= k).astype(float)) for k in (1, 10)}
    sums |= {"mrr": _with_ones(1 / ranks), "mrr_at_10": _with_ones(np.where(ranks <= 10, 1 / ranks, 0))}
    return RunPredictions([], [f"place {rank:.0f}" for rank in ranks], 1 / ranks, sums, is_right_or_wrong=False)


_COUNTS = {name: _by_sums(name, score) for name, score in _COUNTED.items()}
_LABELLED = ("label", "prediction")
_OF_SOME_CLASSES = ("accuracy", "f1", "precision", "recall")  # metrics that can leave out classes
KINDS = (
    Kind(_LABELLED, ("label",), _read_numbers, {name: _by_name(name) for name in CORRELATIONS},
         lambda table: bool(CORRELATIONS.keys() & table.scores.keys())),
    Kind(_LABELLED, ("label",), _read_label_sets, {"accuracy": _by_sums("accuracy", _mean), **_COUNTS}, _has_several),
    Kind(_LABELLED, ("label",), _read_classes, {name: _by_name(name) for name in CLASS_SCORES}),
    Kind(("tags", "predicted_tags"), ("tags",), _read_tags, {"accuracy": _by_sums("accuracy", _mean), **_COUNTS}),
    Kind(("answer", "prediction", "exact", "f1"), ("answer",), _read_answers,
         {name: _by_sums(name, _mean) for name in ("exact", "f1")}),
    Kind(("place",), (), _read_ranks,
         {name: _by_sums(name, _mean) for name in ("recall_at_1", "recall_at_10", "mrr", "mrr_at_10")}),
)  # fmt: skip


# === Runs ===
# Two runs of one task, evaluated on the same examples: which predictions changed, and whether by chance.


class Change(NamedTuple):
    """An example that one run predicts better than the other.

    Attributes:
        id: ID of the example.
        gold: the true label.
        before, after: the predictions of the first and the second run.
        text: text of the example.
    """

    id: str
    gold: str
    before: str
    after: str
    text: str


class UnsharedLabel(NamedTuple):
    """A label that only one of two runs has.

    Attributes:
        label: its name.
        count: number of its examples in that run's file.
        right: number of these that the run predicts correctly.
    """

    label: str
    count: int
    right: int


@dataclasses.dataclass(frozen=True)
class RunComparison:
    """Two runs on one file of examples.

    Attributes:
        file: name of the predictions files.
        count: number of examples.
        scores: {metric: result of the bootstrap}; a is the second run, b the first.
        better, worse: examples that the second run improved or made worse, largest change first.
        both_right, both_wrong: number of examples; None if predictions are better or worse by degrees.
        one_answers: the constant prediction of the first and the second run, or None if predictions
            vary: a run with a constant prediction learned nothing, so no test applies.
        only_in: the labels that only the first and only the second run has. Examples of these are not compared.
        renamed: {label of the first run: name under which the second run has kept it}.
    """

    file: str
    count: int
    scores: dict[str, BootstrapResult]
    better: Sequence[Change]
    worse: Sequence[Change]
    both_right: int | None
    both_wrong: int | None
    one_answers: tuple[str | None, str | None] = (None, None)
    only_in: tuple[Sequence[UnsharedLabel], Sequence[UnsharedLabel]] = ((), ())
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)


def compare_runs(first: str, second: str, samples: int = 10_000, seed: int = 0) -> list[RunComparison]:
    """Compares two runs on every file that both were evaluated on.

    Args:
        first, second: the output directories of two evaluated runs.
        samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        ValueError: a directory is not that of an evaluated run, or tasks, labels or examples differ.
    """
    _check_tasks(first, second)
    ours, theirs = read_prediction_tables(first), read_prediction_tables(second)
    common = [suffix for suffix in ours if suffix in theirs]
    if not common:
        names = [", ".join(table.path.name for table in side.values()) for side in (ours, theirs)]
        raise ValueError(
            f"The two runs were not evaluated on the same file: {first} on {names[0]}, {second} on "
            f"{names[1]}. Evaluate both on one file."
        )
    return [_compare(ours[suffix], theirs[suffix], samples, seed) for suffix in common]


def _check_tasks(first, second):
    tasks = [describe_run(each)["task"] for each in (first, second)]
    if None not in tasks and tasks[0] != tasks[1]:
        raise ValueError(
            f"The two runs are of different tasks: {first} of {tasks[0]}, {second} of {tasks[1]}. "
            "Compare two runs of one task."
        )


def _compare(first: PredictionTable, second: PredictionTable, samples, seed) -> RunComparison:
    kind = kind_of_table(first)
    if kind_of_table(second) is not kind:
        raise ValueError(
            f"The two runs are of different tasks: {first.path} has the columns {', '.join(first.columns)}, "
            f"{second.path} has {', '.join(second.columns)}. Compare two runs of one task."
        )
    only_in, measures, renamed = ((), ()), kind.measures, _renamed_since(first, second)
    if renamed:
        first = _rename_labels(first, renamed)
    if kind.read is _read_classes and first.labels and second.labels and {*first.labels} != {*second.labels}:
        first, second, only_in = _on_shared_labels(kind, first, second)
        measures = {name: measures[name] for name in _OF_SOME_CLASSES}
    first, second = _share_labels(first, second)
    second = _align(kind, first, second)
    before, after = kind.read(first), kind.read(second)
    metrics = [name for name in measures if all(name in table.scores for table in (first, second))]
    scores = {name: measures[name](after, before, samples, seed) for name in metrics or measures}
    better, worse = _list_changes(kind, first, second, before, after)
    right = [each.goodness == 1 for each in (before, after)] if before.is_right_or_wrong else None
    counts = (None, None) if right is None else (int((right[0] & right[1]).sum()), int((~right[0] & ~right[1]).sum()))
    one_answers = only_answer(first.columns), only_answer(second.columns)
    labels = {"only_in": only_in, "renamed": renamed}
    return RunComparison(first.path.name, len(before.goodness), scores, better, worse, *counts, one_answers, **labels)


def _renamed_since(first, second):
    """Returns {old name: new name} if the second run was trained from a classifier with the first run's labels."""
    retrained = _read_run(second.path.parent).get("retrained_from") or {}
    one_label = first.has_several is False and retrained.get("labels") == list(first.labels)
    return retrained.get("renamed") or {} if one_label else {}


def _rename_labels(table, renamed):
    columns = {name: [renamed.get(label, label) for label in table.columns[name]] for name in _LABELLED}
    labels = tuple(sorted(renamed.get(label, label) for label in table.labels))
    return dataclasses.replace(table, columns={**table.columns, **columns}, labels=labels)


def _on_shared_labels(kind, first, second):
    """Returns both files without the examples of labels that one run lacks, and these labels of each run.

    The second file has the order and the ids of the first, if both have the same texts with the same labels: without
    the examples of a label, the others have other line numbers.
    """
    shared = tuple(sorted({*first.labels} & {*second.labels}))
    if not shared:
        raise _labels_error(first, second)
    only_in = tuple(_unshared(table, shared) for table in (first, second))
    first, second = (_of_labels(table, shared) for table in (first, second))
    keys = [[*_occurrences(zip(table.columns["label"], kind.texts(table), strict=True))] for table in (first, second)]
    if any(map(any, map(kind.texts, (first, second)))) and sorted(keys[0]) == sorted(keys[1]):
        index = {key: i for i, key in enumerate(keys[1])}
        second = second.take([index[key] for key in keys[0]])
        second = dataclasses.replace(second, columns={**second.columns, "id": first.columns["id"]})
    return first, second, only_in


def _unshared(table, shared):
    """Returns the labels of a run that are not among `shared`, as `UnsharedLabel`s."""
    pairs = list(zip(table.columns["label"], table.columns["prediction"], strict=True))
    return [
        UnsharedLabel(label, sum(gold == label for gold, _ in pairs), pairs.count((label, label)))
        for label in table.labels
        if label not in shared
    ]


def _of_labels(table, shared):
    """Returns a file with the examples of these labels only, which it is scored on."""
    rows = [i for i, label in enumerate(table.columns["label"]) if label in shared]
    if not rows:
        raise ValueError(
            f"{table.path} has no example of a label that both runs have: {', '.join(shared[:20])}. Evaluate the run "
            "on examples of these labels, with `do_eval`."
        )
    return dataclasses.replace(table.take(rows), labels=shared, scored_labels=shared)


def _occurrences(keys):
    """Returns (key, number of times that it occurred before) for each key, so that all are different."""
    seen = collections.Counter()
    for key in keys:
        yield key, seen[key]
        seen[key] += 1


def _share_labels(first, second):
    """Returns the files with the same labels: a model without label names gets those of the other one."""
    if first.labels and second.labels and first.labels != second.labels:
        raise _labels_error(first, second)
    labels = first.labels or second.labels
    if not labels and "label" in first.columns:
        labels = tuple(sorted({cell for table in (first, second) for name in ("label", "prediction")
                               for cell in table.columns[name]}))  # fmt: skip
    return (dataclasses.replace(table, labels=labels) for table in (first, second))


def _labels_error(first, second):
    return ValueError(
        f"The two runs have different labels: {first.path.parent} has {', '.join(first.labels[:20])}, "
        f"{second.path.parent} has {', '.join(second.labels[:20])}. Compare two runs with the same labels; if each "
        "example has one label, some common labels are enough."
    )


def _align(kind: Kind, first: PredictionTable, second: PredictionTable) -> PredictionTable:
    """Returns the second file in the order of the first.

    Raises:
        ValueError: they have different examples.
    """
    ids = first.columns["id"]
    if ids != second.columns["id"] and sorted(ids) == sorted(second.columns["id"]):  # one is sorted by its errors
        index = {name: i for i, name in enumerate(second.columns["id"])}
        second = second.take([index[name] for name in ids])
    texts = kind.texts(first), kind.texts(second)
    same = ("id", *kind.gold)
    rows = [list(zip(*(table.columns[name] for name in same), own, strict=True))
            for table, own in zip((first, second), texts, strict=True)]  # fmt: skip
    if not any(texts[0]) or not any(texts[1]):  # a file may lack the texts
        rows = [[row[:-1] for row in side] for side in rows]
    if rows[0] != rows[1]:
        raise _examples_error(first, second, rows)
    return second


def _examples_error(first, second, rows):
    """Returns the error for two files with different examples, with the names of data files if recorded."""
    pairs = zip(*rows, strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), min(map(len, rows)))
    shown = [" ".join(map(str, side[at]))[:60] if at < len(side) else "none" for side in rows]
    names = []
    for table, side in zip((first, second), rows, strict=True):
        file = describe_run(os.fspath(table.path.parent))["file"]
        names.append(f"{table.path} ({len(side)} examples{f' of {file}' if file else ''})")
    return ValueError(
        f"Runs must be evaluated on the same examples. {names[0]} and {names[1]} differ from example "
        f"{at + 1} on: {shown[0]!r} and {shown[1]!r}; evaluate both with `do_eval` on one file."
    )


def _list_changes(kind, first, second, before: RunPredictions, after: RunPredictions):
    """Returns the examples that the second run improved or worsened, largest change and most confident errors first."""
    moved = after.goodness - before.goodness
    if before.is_right_or_wrong:  # from one wrong prediction to another is not a change
        moved = (after.goodness == 1).astype(float) - (before.goodness == 1)
    texts = [one or other for one, other in zip(kind.texts(first), kind.texts(second), strict=True)]
    gold = before.gold or [""] * len(moved)

    def listed(sign, table):
        sure = table.numbers("probability") if "probability" in table.columns else np.zeros(len(moved))
        changed = [i for i in np.lexsort((-sure, -sign * moved)) if sign * moved[i] > 0]
        return [Change(first.columns["id"][i], gold[i], before.given[i], after.given[i], texts[i]) for i in changed]

    return listed(1, first), listed(-1, second)  # with the confidence of the wrong or worse prediction
