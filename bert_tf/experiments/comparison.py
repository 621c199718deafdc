"""Two runs of one task, evaluated on the same examples: which predictions changed, and whether by chance."""

import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.evaluation.constant_predictions import only_answer
from bert_tf.evaluation.significance import BootstrapResult
from bert_tf.experiments.prediction_kinds import PredictionKind, RunPredictions, kind_of_table
from bert_tf.experiments.prediction_tables import (
    LABEL_COLUMNS,
    PredictionTable,
    describe_run,
    read_prediction_tables,
    read_run_record,
)


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
    if kind.partial_measures and first.labels and second.labels and {*first.labels} != {*second.labels}:
        first, second, only_in = _on_shared_labels(kind, first, second)
        measures = {name: measures[name] for name in kind.partial_measures}
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
    retrained = read_run_record(second.path.parent).get("retrained_from") or {}
    one_label = first.has_several is False and retrained.get("labels") == list(first.labels)
    return retrained.get("renamed") or {} if one_label else {}


def _rename_labels(table, renamed):
    columns = {name: [renamed.get(label, label) for label in table.columns[name]] for name in LABEL_COLUMNS}
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
        labels = tuple(sorted({cell for table in (first, second) for name in LABEL_COLUMNS
                               for cell in table.columns[name]}))  # fmt: skip
    return (dataclasses.replace(table, labels=labels) for table in (first, second))


def _labels_error(first, second):
    return ValueError(
        f"The two runs have different labels: {first.path.parent} has {', '.join(first.labels[:20])}, "
        f"{second.path.parent} has {', '.join(second.labels[:20])}. Compare two runs with the same labels; if each "
        "example has one label, some common labels are enough."
    )


def _align(kind: PredictionKind, first: PredictionTable, second: PredictionTable) -> PredictionTable:
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
