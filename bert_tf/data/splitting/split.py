"""A table of examples split into files to train on, to score on and to test with, which share no text."""

import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.data import cells
from bert_tf.data.checks.samples import Sample
from bert_tf.data.rows import Column, extension_of, read_rows
from bert_tf.data.splitting import choice, units, writing
from bert_tf.data.tables import Examples, read_table, read_values

_PARTS = ("train", "eval", "test")
# What a label is -> the kind of its cell, by what separates several.
_KINDS = {"single_label": lambda _: cells.NAME, "multi_label": cells.several, "regression": lambda _: cells.number()}


@dataclasses.dataclass(frozen=True)
class Columns:
    """How a table is read; see `tables.read_table`.

    Attributes:
        text: one or two columns.
        label: None or "": there are no labels.
        group: rows with the same value here stay together; None: no such column.
        header: whether line 1 of .tsv and .csv names the columns.
        problem: what a label is, one of `names.PROBLEMS`.
        separator: what stands between several labels.
    """

    text: Sequence[str | int] = ("text",)
    label: str | int | None = "label"
    group: str | int | None = None
    header: bool = True
    problem: str = "single_label"
    separator: str = ","


def group_sizes(groups: np.ndarray) -> list[int]:
    """Returns how many rows each group has; groups: int [n], equal for rows of one."""
    return np.unique(groups, return_counts=True)[1].tolist()


@dataclasses.dataclass(frozen=True)
class Split:
    """What was done with n rows.

    Attributes:
        paths: part -> its file.
        shares: part -> the share that was asked for.
        parts: int [n], the place in `paths` of each row's part.
        texts: int [n], equal for rows of the same texts.
        units: int [n], equal for rows that had to stay together.
        labels: the names of each row's labels; None: there are none.
    """

    paths: Mapping[str, str]
    shares: Mapping[str, float]
    parts: np.ndarray
    texts: np.ndarray
    units: np.ndarray
    labels: Sequence[Sequence[str]] | None

    def sizes(self) -> list[int]:
        """Returns how many rows each part has."""
        return np.bincount(self.parts, minlength=len(self.paths)).tolist()

    def counts(self) -> list[collections.Counter]:
        """Returns of each part how many rows each label has; where there are no labels, nothing."""
        counts = [collections.Counter() for _ in self.paths]
        for part, names in zip(self.parts.tolist(), self.labels or (), strict=False):
            counts[part].update(names)
        return counts


def split(
    path: str, folder: str, eval_share: float, test_share: float = 0.0, columns: Columns | None = None, seed: int = 0
) -> Split:
    """Splits a table and writes train, eval and, for a `test_share`, test beside each other, as the table is written.

    Rows of the same texts are in one part, as are those of one group. The same seed makes the same files.

    Args:
        path: a .tsv, .csv, .jsonl (each also with .gz) or .parquet file.
        folder: where the parts go.
        eval_share, test_share: of the rows.
        columns: how the table is read.
        seed: another one splits it in another way.

    Raises:
        ValueError: shares that leave nothing to train on, a table that is not as described, fewer groups than parts, or
            a part that is there already.
    """
    columns, shares = columns or Columns(), _shares(eval_share, test_share)
    paths = _paths(path, folder)
    examples = _read(path, columns)
    texts = {"text_a": examples.text_a, **({"text_b": examples.text_b} if examples.text_b else {})}
    same = units.of_texts(Sample(path, examples.where, texts))
    together = units.join(same, units.of_values(_groups(path, columns))) if columns.group else same
    if (count := len(np.unique(together))) < len(shares):
        raise ValueError(
            f"{path} must hold at least {len(shares)} groups of rows, one for each part. Received {len(examples)} rows "
            f"in {count}, by their texts{' and `group_column`' if columns.group else ''}; add rows, or ask for fewer "
            "parts."
        )
    labels = _labels(examples)
    strata = units.of_values([frozenset(names) for names in labels]) if labels else np.zeros(len(examples), int)
    strata = np.unique(strata, return_inverse=True)[1]
    parts = choice.choose(together, strata, list(shares.values()), seed)
    paths = {part: paths[part] for part in shares}
    writing.write(path, examples.lines, parts, list(paths.values()))
    return Split(paths, shares, parts, same, together, labels)


def _shares(eval_share, test_share):
    if not (0 < eval_share < 1 and 0 <= test_share < 1 and eval_share + test_share < 1):
        raise ValueError(
            "`eval_share` must be above 0, `test_share` 0 or more, and their sum below 1, so that rows are left to "
            f"train on. Received: {eval_share:g} and {test_share:g}; give shares such as 0.1."
        )
    shares = {"train": 1 - eval_share - test_share, "eval": eval_share, "test": test_share}
    return {part: share for part, share in shares.items() if share}


def _paths(path, folder):
    """Returns part -> its file, of all parts; one of another split beside these would be taken for theirs."""
    ending = extension_of(path) + (".gz" if path.lower().endswith(".gz") else "")
    paths = {part: os.path.join(folder, f"{part}{ending}") for part in _PARTS}
    if there := [each for each in paths.values() if os.path.lexists(each)]:
        raise ValueError(
            f"`output_dir` must hold none of {', '.join(map(os.path.basename, paths.values()))} yet. Received "
            f"{folder}, where {os.path.basename(there[0])} is; remove it, or name another directory."
        )
    return paths


def _read(path, columns) -> Examples:
    return read_table(
        path,
        header=columns.header,
        text_columns=columns.text,
        label_column=columns.label or None,
        label=_KINDS[columns.problem](columns.separator),
    )


def _groups(path, columns):
    column = Column(columns.group, "group_column")
    rows = read_rows(path, [column], columns.header)
    return [read_values(path, line, [(column, cells.NAME)], values)[0] for line, values in rows]


def _labels(examples):
    """Returns the names of each row's labels; None where there are none, or numbers."""
    if examples.labels is None or isinstance(examples.labels[0], float):
        return None
    return [(label,) if isinstance(label, str) else label for label in examples.labels]
