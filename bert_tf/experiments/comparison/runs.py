"""Two runs of one task, scored on the same examples: which answers changed, and whether that was luck."""

import dataclasses
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.evaluation.bootstrap import Comparison
from bert_tf.evaluation.one_answer import only_answer
from bert_tf.experiments.comparison.kinds import Answers, Kind, kind_of
from bert_tf.experiments.comparison.tables import Table, read_tables, told


class Change(NamedTuple):
    """An example that one run answers better than the other.

    Attributes:
        id: of the example.
        gold: the right answer.
        before, after: what the first and the second run answered.
        text: of the example.
    """

    id: str
    gold: str
    before: str
    after: str
    text: str


@dataclasses.dataclass(frozen=True)
class Compared:
    """Two runs on one file of examples.

    Attributes:
        file: name of the tables.
        count: of the examples.
        scores: {metric: what the bootstrap says}, a being the second run and b the first.
        better, worse: what the second run made better and worse, what changed most first.
        both_right, both_wrong: how many examples; None where answers are better or worse by degrees.
        one_answers: of the first and the second run the answer that it gives to all examples, None where it gives
            several: a run of one answer has learned nothing, and no test says more of it.
    """

    file: str
    count: int
    scores: dict[str, Comparison]
    better: Sequence[Change]
    worse: Sequence[Change]
    both_right: int | None
    both_wrong: int | None
    one_answers: tuple[str | None, str | None] = (None, None)


def compare(first: str, second: str, samples: int = 10_000, seed: int = 0) -> list[Compared]:
    """Compares two runs on every file of examples that both were scored on.

    Args:
        first, second: the output directories of two scored runs.
        samples: draws of the bootstrap.
        seed: of the draws.

    Raises:
        ValueError: a directory is none of a scored run, or they are of different tasks, labels or examples.
    """
    _check_tasks(first, second)
    ours, theirs = read_tables(first), read_tables(second)
    common = [suffix for suffix in ours if suffix in theirs]
    if not common:
        names = [", ".join(table.path.name for table in side.values()) for side in (ours, theirs)]
        raise ValueError(
            f"Two runs must be scored on a file in common. Received {first} with {names[0]} and {second} with "
            f"{names[1]}; score both on the same one."
        )
    return [_compare(ours[suffix], theirs[suffix], samples, seed) for suffix in common]


def _check_tasks(first, second):
    tasks = [told(each)["task"] for each in (first, second)]
    if None not in tasks and tasks[0] != tasks[1]:
        raise ValueError(
            f"Two runs must be of one task. Received {first}, a run of {tasks[0]}, and {second}, one of {tasks[1]}; "
            "name two of the same."
        )


def _compare(first: Table, second: Table, samples, seed) -> Compared:
    kind = kind_of(first)
    if kind_of(second) is not kind:
        raise ValueError(
            f"Two runs must be of one task. Received {first.path} with the columns {', '.join(first.columns)} and "
            f"{second.path} with {', '.join(second.columns)}; name two of the same."
        )
    first, second = _with_labels(first, second)
    second = _aligned(kind, first, second)
    before, after = kind.read(first), kind.read(second)
    metrics = [name for name in kind.measures if all(name in table.scores for table in (first, second))]
    scores = {name: kind.measures[name](after, before, samples, seed) for name in metrics or kind.measures}
    better, worse = _changes(kind, first, second, before, after)
    right = [each.goodness == 1 for each in (before, after)] if before.is_right_or_wrong else None
    counts = (None, None) if right is None else (int((right[0] & right[1]).sum()), int((~right[0] & ~right[1]).sum()))
    one_answers = only_answer(first.columns), only_answer(second.columns)
    return Compared(first.path.name, len(before.goodness), scores, better, worse, *counts, one_answers)


def _with_labels(first, second):
    """Returns the tables with the same labels: of models without names of labels those of the other one."""
    if first.labels and second.labels and first.labels != second.labels:
        raise ValueError(
            f"Two runs must tell the same labels apart. Received {first.path.parent} with "
            f"{', '.join(first.labels[:20])} and {second.path.parent} with {', '.join(second.labels[:20])}; name two "
            "of the same."
        )
    labels = first.labels or second.labels
    if not labels and "label" in first.columns:
        labels = tuple(sorted({cell for table in (first, second) for name in ("label", "prediction")
                               for cell in table.columns[name]}))  # fmt: skip
    return (dataclasses.replace(table, labels=labels) for table in (first, second))


def _aligned(kind: Kind, first: Table, second: Table) -> Table:
    """Returns the second table in the order of the first.

    Raises:
        ValueError: they are not about the same examples.
    """
    ids = first.columns["id"]
    if ids != second.columns["id"] and sorted(ids) == sorted(second.columns["id"]):  # one is sorted by its errors
        place = {name: i for i, name in enumerate(second.columns["id"])}
        second = second.take([place[name] for name in ids])
    texts = kind.texts(first), kind.texts(second)
    same = ("id", *kind.gold)
    rows = [list(zip(*(table.columns[name] for name in same), own, strict=True))
            for table, own in zip((first, second), texts, strict=True)]  # fmt: skip
    if not any(texts[0]) or not any(texts[1]):  # written before tables had texts
        rows = [[row[:-1] for row in side] for side in rows]
    if rows[0] != rows[1]:
        raise _other_examples(first, second, rows)
    return second


def _other_examples(first, second, rows):
    """Returns the error of two tables that are about other examples, which it names where the runs know them."""
    pairs = zip(*rows, strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), min(map(len, rows)))
    shown = [" ".join(map(str, side[at]))[:60] if at < len(side) else "none" for side in rows]
    names = []
    for table, side in zip((first, second), rows, strict=True):
        file = told(os.fspath(table.path.parent))["file"]
        names.append(f"{table.path} ({len(side)} examples{f' of {file}' if file else ''})")
    return ValueError(
        f"Two runs must be scored on the same examples. Received {names[0]} and {names[1]}, which differ from example "
        f"{at + 1} on: {shown[0]!r} and {shown[1]!r}; score both with `do_eval` on one file."
    )


def _changes(kind, first, second, before: Answers, after: Answers):
    """Returns what the second run made better, and what worse, what changed most first, then the surest errors."""
    moved = after.goodness - before.goodness
    if before.is_right_or_wrong:  # by degrees between wrong and wrong is no change
        moved = (after.goodness == 1).astype(float) - (before.goodness == 1)
    texts = [one or other for one, other in zip(kind.texts(first), kind.texts(second), strict=True)]
    gold = before.gold or [""] * len(moved)

    def listed(sign, table):
        sure = table.numbers("probability") if "probability" in table.columns else np.zeros(len(moved))
        places = [i for i in np.lexsort((-sure, -sign * moved)) if sign * moved[i] > 0]
        return [Change(first.columns["id"][i], gold[i], before.given[i], after.given[i], texts[i]) for i in places]

    return listed(1, first), listed(-1, second)  # the one that is wrong, or worse, says how sure it was
