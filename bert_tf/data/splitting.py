"""Splits a table into training, evaluation and test files; no text appears in two of them."""

import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.columns import LABEL, NAME, number, several
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect, extension_of
from bert_tf.data.row_groups import group_by_texts, group_by_values, join_groups
from bert_tf.data.split_files import write_split_files
from bert_tf.data.stratification import assign_parts
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import read_rows
from bert_tf.data.tables import LabeledTexts, read_table, read_values
from bert_tf.utils import files

_PARTS = ("train", "eval", "test")
# The problem -> the type of the label column, given the separator of several labels.
_KINDS = {
    "single_label": lambda _: LABEL,
    "multi_label": several,
    "regression": lambda _: number(),
}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns to read, and their types; see `tables.read_table`.

    Attributes:
        text: one or two text columns.
        label: the label column. If None or "", there are no labels.
        group: column whose equal values keep rows together, or None.
        header: whether line 1 of .tsv and .csv names the columns.
        problem: the kind of labels, one of `names.PROBLEMS`.
        separator: separator of several labels.
        dialect: how a text table is written.
        label_columns: columns of 0 and 1, in place of `label`, as in `tables.read_table`.
    """

    text: Sequence[str | int] = ("text",)
    label: str | int | None = "label"
    group: str | int | None = None
    header: bool = True
    problem: str = "single_label"
    separator: str = ","
    dialect: Dialect = DEFAULT_DIALECT
    label_columns: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class SplitResult:
    """The parts of n rows, and the groups that had to stay together.

    Attributes:
        paths: part -> its file.
        shares: part -> its requested fraction of the rows.
        parts: int [n], the index in `paths` of each row's part.
        texts: int [n], equal for rows with the same texts.
        units: int [n], equal for rows that had to stay together.
        labels: the names of each row's labels, or None if there are no labels.
    """

    paths: Mapping[str, str]
    shares: Mapping[str, float]
    parts: np.ndarray
    texts: np.ndarray
    units: np.ndarray
    labels: Sequence[Sequence[str]] | None

    def sizes(self) -> list[int]:
        """Returns the number of rows of each part."""
        return np.bincount(self.parts, minlength=len(self.paths)).tolist()

    def counts(self) -> list[collections.Counter]:
        """Returns the number of rows per label of each part; empty without labels."""
        counts = [collections.Counter() for _ in self.paths]
        for part, names in zip(self.parts.tolist(), self.labels or (), strict=False):
            counts[part].update(names)
        return counts


def check_copyable(path: str, encoding: str | None = None):
    """Raises ValueError for a table whose rows cannot be copied byte for byte: several files, or another line feed."""
    if not files.is_utf8(encoding) and "\n".encode(encoding) != b"\n":
        raise ValueError(
            f"A file with `encoding={encoding}` cannot be split, because rows are copied up to a line feed byte. "
            f"Convert the file first: iconv -f {encoding} -t UTF-8."
        )
    if len(files.find_files(path)) > 1:
        raise ValueError(
            f"{path} must be one file, because rows are copied byte for byte. Split each file, or join them first."
        )


def split_table(
    path: str, folder: str, eval_share: float, test_share: float = 0.0, columns: Columns | None = None, seed: int = 0
) -> SplitResult:
    """Splits a table and writes train, eval and, for a `test_share`, test next to each other, in the table's format.

    Rows with the same texts, or of one group, end up in the same file. The same seed gives the same files.

    Args:
        path: a .tsv, .csv, .jsonl (each also with .gz) or .parquet file.
        folder: output directory.
        eval_share, test_share: shares of the rows.
        columns: how the table is read.
        seed: random seed of the split.

    Raises:
            ValueError: no rows would be left for training, the table is not as described, there are fewer groups than
                parts, or an output file already exists.
    """
    columns, shares = columns or Columns(), _shares(eval_share, test_share)
    check_copyable(path, columns.dialect.encoding)
    paths = _paths(path, folder)
    examples, same, together = _read_groups(path, columns, len(shares))
    labels = _labels(examples)
    parts = assign_parts(together, _strata(labels, len(examples)), list(shares.values()), seed)
    paths = {part: paths[part] for part in shares}
    write_split_files(path, examples.lines, parts, list(paths.values()))
    return SplitResult(paths, shares, parts, same, together, labels)


def split_folds(
    path: str, folder: str, folds: int, columns: Columns | None = None, seed: int = 0
) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Writes the folds of a table for cross-validation, in the table's format; files that exist are kept.

    Rows with the same texts, or of one group, are in the same fold, and the folds have similar label counts. The same
    seed gives the same folds.

    Args:
        path, columns, seed: as for `split_table`.
        folder: output directory; fold k, from 1, is in its directory k.
        folds: number of folds, at least 2.

    Returns:
        For each fold the file of all other rows, to train on, and that of its own rows; and int [n], the fold of each
        row, from 0.

    Raises:
        ValueError: the table is not as described, or there are fewer groups than folds.
    """
    columns = columns or Columns()
    check_copyable(path, columns.dialect.encoding)
    examples, _, together = _read_groups(path, columns, folds)
    fold_of = assign_parts(together, _strata(_labels(examples), len(examples)), [1 / folds] * folds, seed)
    paths = [tuple(os.path.join(folder, str(k + 1), part + _ending(path)) for part in _PARTS[:2]) for k in range(folds)]
    for fold, own in enumerate(paths):
        if not all(map(os.path.exists, own)):
            write_split_files(path, examples.lines, (fold_of == fold).astype(int), own)
    return paths, fold_of


def _read_groups(path, columns, parts):
    """Returns the examples, and the groups of those with the same texts and of those that stay together."""
    examples = _read(path, columns)
    texts = {"text_a": examples.text_a, **({"text_b": examples.text_b} if examples.text_b else {})}
    same = group_by_texts(CheckedExamples(path, examples.where, texts))
    together = join_groups(same, group_by_values(_groups(path, columns))) if columns.group else same
    if (count := len(np.unique(together))) < parts:
        raise ValueError(
            f"{path} has too few groups of rows to split: {parts} are needed, one for each file; got "
            f"{len(examples)} rows in {count}, grouped by text{' and `group_column`' if columns.group else ''}; add "
            "rows, or split into fewer files."
        )
    return examples, same, together


def _strata(labels, count):
    values = group_by_values([frozenset(names) for names in labels]) if labels else np.zeros(count, int)
    return np.unique(values, return_inverse=True)[1]


def _ending(path):
    return extension_of(path) + (".gz" if path.lower().endswith(".gz") else "")


def _shares(eval_share, test_share):
    if not (0 < eval_share < 1 and 0 <= test_share < 1 and eval_share + test_share < 1):
        raise ValueError(
            "`eval_share` must be above 0, `test_share` 0 or more, and their sum below 1, so that rows are left for "
            f"training; got {eval_share:g} and {test_share:g}; use shares such as 0.1."
        )
    shares = {"train": 1 - eval_share - test_share, "eval": eval_share, "test": test_share}
    return {part: share for part, share in shares.items() if share}


def _paths(path, folder):
    """Returns part -> its file for all parts; checks for files of another split, which could be mistaken for these."""
    paths = {part: os.path.join(folder, part + _ending(path)) for part in _PARTS}
    if there := [each for each in paths.values() if os.path.lexists(each)]:
        raise ValueError(
            f"`output_dir` must not contain {', '.join(map(os.path.basename, paths.values()))} yet; got {folder}, "
            f"which contains {os.path.basename(there[0])}; remove it, or choose a new directory."
        )
    return paths


def _read(path, columns) -> LabeledTexts:
    return read_table(
        path,
        header=columns.header,
        text_columns=columns.text,
        label_column=None if columns.label_columns else columns.label or None,
        label=_KINDS[columns.problem](columns.separator),
        dialect=columns.dialect,
        label_columns=columns.label_columns,
    )


def _groups(path, columns):
    column = Column(columns.group, "group_column")
    rows = read_rows(path, [column], columns.header, dialect=columns.dialect)
    return [read_values(path, line, [(column, NAME)], values)[0] for line, values in rows]


def _labels(examples):
    if examples.labels is None or isinstance(examples.labels[0], float):
        return None
    return [(label,) if isinstance(label, str) else label for label in examples.labels]
