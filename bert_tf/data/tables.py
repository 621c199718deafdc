"""Labeled text from .tsv, .csv, .jsonl and .parquet files, with the line of every example kept for error messages."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from absl import logging

from bert_tf.data.columns import NAME, TEXT, YES_OR_NO, ColumnType, is_missing_cell, is_whole_number
from bert_tf.data.dialect import DEFAULT_DIALECT, SEPARATORS, Dialect, extension_of
from bert_tf.data.row_errors import excerpt, line_position
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import names_in, read_rows
from bert_tf.utils import files
from bert_tf.utils.counts import number_of, word_for

Examples = TypeVar("Examples")
MOST = 99  # number of lines that a message lists, in addition to the first


@dataclasses.dataclass
class LabeledTexts:
    """Texts and labels in the order of the file, as parallel lists of one length.

    Attributes:
        ids: name of each example; "0", "1", ... if the file has none.
        text_a: first text.
        text_b: second text, or None for tasks on one text.
        labels: for each example its label's name, the names of all its labels, or a number. None if the file has no
            labels.
        path: the file, or several as `files.find_files` takes them.
        lines: 1-based line where each example begins; for a Parquet file, the 1-based row; for several files,
            "file:line".
        bad_labels: line -> label, for each row that was skipped because its label is missing or of the wrong type.
        bad_texts: line -> the value in place of a text, such as None, for each row that was skipped for that.
        text_c: third text, for tasks that compare a text with two others; otherwise None.
    """

    ids: list[str]
    text_a: list[str]
    text_b: list[str] | None
    labels: list[str] | list[tuple[str, ...]] | list[float] | None
    path: str
    lines: list[int] | list[str]
    bad_labels: dict[int | str, Any] = dataclasses.field(default_factory=dict)
    bad_texts: dict[int | str, Any] = dataclasses.field(default_factory=dict)
    text_c: list[str] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def texts(self) -> dict[str, list[str]]:
        """{name: n texts}, under the names of the model's inputs; a single text is `text`."""
        if self.text_b is None:
            return {"text": self.text_a}
        named = {"text_a": self.text_a, "text_b": self.text_b, "text_c": self.text_c}
        return {name: texts for name, texts in named.items() if texts is not None}

    def where(self, index: int) -> str:
        """Returns "file:line" of example `index`, the beginning of error messages."""
        return line_position(self.path, self.lines[index])


def read_table(
    path: str | os.PathLike,
    *,
    header: bool = True,
    text_columns: Sequence[str | int] = ("text",),
    label_column: str | int | None = None,
    id_column: str | int | None = None,
    label: ColumnType = NAME,
    remedy: str | None = None,
    only: tuple[str | int, str] | None = None,
    skip_short: bool = False,
    skip_bad_rows: bool = False,
    dialect: Dialect = DEFAULT_DIALECT,
    drop_empty: bool = False,
    label_columns: Sequence[str] = (),
) -> LabeledTexts:
    """Reads one or several files of examples; the extension determines the format.

    .tsv: a tab ends a column, a line feed ends a row, quotes are ordinary characters (google-research/bert's
    `_read_tsv`). .csv: RFC 4180. .jsonl: one object per line, whose keys are the columns. .parquet: columns by name or
    index. The first three may be compressed (.tsv.gz). Blank lines at the end are ignored; elsewhere they are errors,
    because skipping them would shift predictions against the lines. Other columns are ignored.

    Args:
        path: the file; several as `files.find_files` takes them, whose rows are read one file after the other.
        header: whether line 1 of a .tsv or .csv file names the columns; if not, columns are given by index.
        text_columns: one or two columns, each by name or by index from 0 (an int, or digits).
        label_column: likewise. If None, `labels` is None.
        id_column: likewise. If None, the examples are numbered from "0".
        label: the type of a label, from `data.columns`: one name, several, or a number.
        remedy: advice that ends errors about columns; by default it names the parameters.
        only: a column and a value; rows with another value in this column are skipped.
        skip_short: skip rows with too few columns, if they are only a few in a thousand, and log their number.
        skip_bad_rows: skip rows whose label or text is missing or of the wrong type, and return them as `bad_labels`
            and `bad_texts`, provided that other rows remain.
        dialect: how a text file is written.
        drop_empty: drop rows with an empty text, or an empty label where one is required, and log their number.
        label_columns: columns of 0 and 1, each named after a label, in place of `label_column`: an example has the
            labels whose columns contain 1 or true.

    Raises:
        ValueError: the file cannot be read this way; the message names the file, the lines, the problem and a fix.
    """
    if len(text_columns) not in (1, 2):
        raise ValueError(f"`text_column` must name one or two columns; got {tuple(text_columns)}.")
    asked: list[tuple[str | int | None, str, ColumnType]]
    asked = [(column, "text_column", TEXT) for column in text_columns]
    asked += [(label_column, "label_column", label), (id_column, "id_column", NAME)]
    asked += [(column, "label_columns", YES_OR_NO) for column in label_columns]
    kinds = [(Column(column, name, remedy), kind) for column, name, kind in asked if column is not None]
    count, has_label = len(text_columns), label_column is not None

    def read(path):
        rows = _read(path, [column for column, _ in kinds], only, remedy, header, skip_short, dialect)
        if drop_empty:
            rows = _drop_empty(path, rows, [kind for _, kind in kinds[: count + has_label]])
        label_place = count if has_label else None
        columns, lines, bad_texts, bad_labels = _check_values(path, rows, kinds, count, label_place)
        if not (skip_bad_rows and lines):
            _refuse_bad(path, kinds, bad_texts, bad_labels, label_place)
        flags = [columns.pop() for _ in label_columns][::-1]
        ids = columns.pop() if id_column is not None else [str(i) for i in range(len(lines))]
        labels = columns.pop() if has_label else None
        if flags:
            labels = [tuple(itertools.compress(label_columns, row)) for row in zip(*flags, strict=True)]
        text_b = columns.pop() if count == 2 else None
        bad_texts = {line: next(iter(values.values())) for line, values in bad_texts.items()}
        return LabeledTexts(ids, columns.pop(), text_b, labels, path, lines, bad_labels, bad_texts)

    if len(paths := files.find_files(os.fspath(path))) > 1:
        _check_same_columns(paths, header, dialect)
    return read_files(path, read)


def read_files(paths: str | os.PathLike, read: Callable[[str], Examples]) -> Examples:
    """Reads one file, or several whose examples follow each other.

    Args:
        paths: as `files.find_files` takes them.
        read: path -> examples: a dataclass of parallel lists with `ids`, `path`, `lines` and `where`.

    Returns:
        The examples of one file; of several, the `path` is `paths`, and each of the `lines` is "file:line". If the
        same id is in two files, all ids are "file:id".

    Raises:
        ValueError: as `read`, or two examples of a file have the same id.
    """
    paths = os.fspath(paths)
    parts = [read(path) for path in files.find_files(paths)]
    if len(parts) > 1:
        for part in parts:
            part.lines[:] = [part.where(i) for i in range(len(part))]
        values = {field.name: _join(field.name, parts) for field in dataclasses.fields(parts[0])}
        if all(part.ids == [str(i) for i in range(len(part))] for part in parts):
            values["ids"] = [str(i) for i in range(sum(map(len, parts)))]
        elif len(set(values["ids"])) < len(values["ids"]):  # such as two exports that both count from 1
            for part in parts:
                check_ids(part)
            values["ids"] = [f"{part.path}:{name}" for part in parts for name in part.ids]
        parts = [type(parts[0])(**values | {"path": paths})]
    check_ids(parts[0])
    return parts[0]


def _join(name, parts):
    """Returns the values of an attribute of several files' examples: lists and dicts joined, others of the first."""
    values = [getattr(part, name) for part in parts]
    if isinstance(values[0], dict):
        return {line_position(part.path, line): value for part, each in zip(parts, values, strict=True)
                for line, value in each.items()}  # fmt: skip
    if len({isinstance(value, list) for value in values}) > 1:
        raise ValueError(f"{parts[0].path} and the files read with it must have the same format. Convert some of them.")
    return list(itertools.chain.from_iterable(values)) if isinstance(values[0], list) else values[0]


def _check_same_columns(paths, header, dialect):
    """Raises ValueError unless several tables have the same columns; without a header, as many.

    Each line of .jsonl names its own, and reading a file without names raises the error.
    """
    named = [(path, names_in(path, dialect)) for path in paths if extension_of(path) != ".jsonl"]
    named = [(path, names) for path, names in named if names]
    for path, names in named[1:]:
        first = named[0][1]
        if names != first if header or extension_of(path) not in SEPARATORS else len(names) != len(first):
            raise ValueError(
                f"{path}: files that are read together must have the same columns; got {excerpt(names, 200)}, but "
                f"{named[0][0]} has {excerpt(first, 200)}; make them the same."
            )


def _drop_empty(path, rows, kinds):
    """Returns the rows whose first values are neither an empty text nor an empty label; logs the number of others."""

    def is_whole(values):  # an empty field can be a list of no labels
        return not any(is_empty(each) and (kind is TEXT or kind.read(each) is None)
                       for kind, each in zip(kinds, values, strict=False))  # fmt: skip

    kept = [(line, values) for line, values in rows if is_whole(values)]
    if len(kept) < len(rows):
        count, lines = len(rows) - len(kept), format_lines([line for line, values in rows if not is_whole(values)])
        logging.warning("%s: dropped %s with an empty text or label, in %s %s.", path, number_of(count, "row"),
                        word_for(count, "line", "lines"), lines)  # fmt: skip
    if not kept:
        raise ValueError(f"{path}: all rows have an empty text or label. Check `text_column` and `label_column`.")
    return kept


def check_ids(examples):
    """Raises ValueError if two examples have the same id, since ids must identify predictions.

    Args:
        examples: with `ids`, and `where(index)` as of `LabeledTexts`.
    """
    first = {}
    for i, name in enumerate(examples.ids):
        if first.setdefault(name, i) != i:
            raise ValueError(
                f"{examples.where(i)}: the ids of a file must be unique; got {name!r}, which also occurs in "
                f"{examples.where(first[name])}; give one of them another id, or remove it."
            )


def list_labels(examples: LabeledTexts) -> list[str]:
    """Returns the distinct labels sorted as strings; the index in this list is the label's id.

    Raises:
        ValueError: there are none.
    """
    names = {name for label in _labels_of(examples) for name in _names(label)}
    if not names:
        raise ValueError(
            f"{examples.path} has no labels: all of its {len(examples)} examples are unlabeled. "
            "Check `label_column` and `label_separator`."
        )
    return sorted(names)


def check_labels(
    examples: LabeledTexts,
    known: Sequence[str],
    whose: str = "one of those in the training data",
    remedy: str | None = None,
) -> list[int | list[int]]:
    """Returns the index of each example's label in `known`, or a list of indices per example for several labels.

    Args:
        examples: with labels that are names.
        known: all names.
        whose: how the error describes them.
        remedy: advice that ends the error; by default the parameters to check.

    Raises:
        ValueError: a label is not among `known`, or the examples have no labels.
    """
    ids = {label: i for i, label in enumerate(known)}
    for i, label in enumerate(_labels_of(examples)):
        for name in _names(label):
            if name not in ids:
                advice = remedy or "check `label_column` and `header`, or train on examples of this label too"
                raise ValueError(
                    f"{examples.where(i)}: the label must be {whose}: {excerpt(list(known), 200)}; "
                    f"got {name!r}; correct this line, {advice}."
                )
    return [[ids[n] for n in label] if isinstance(label, tuple) else ids[label] for label in examples.labels]


def _names(label):
    return label if isinstance(label, tuple) else (label,)


def _labels_of(examples):
    if examples.labels is None:
        raise ValueError(f"{examples.path} was read without a label column. Set `label_column`.")
    return examples.labels


def _read(path, columns, only, remedy, header, skip_short, dialect):
    """Returns the rows of the file, those that `only` chooses, each with its line."""
    choice = [Column(only[0], "only", remedy)] if only else []
    rows = read_rows(path, columns + choice, header, skip_short, dialect)
    if not rows:
        raise ValueError(
            f"{path} contains no examples. "
            "Check the path, and whether its only line is a header (`header`)."
        )
    return _choose(path, rows, *only) if only else rows


def _choose(path, rows, column, value):
    chosen = [(line, values[:-1]) for line, values in rows if values[-1] == value]
    if not chosen:
        there = sorted({str(values[-1]) for _, values in rows})
        raise ValueError(
            f"{path} has no row with {value!r} in column {column!r}. Choose one of: {excerpt(there, 200)}."
        )
    return chosen


def read_values(path: str, line: int, kinds: Sequence[tuple[Column, ColumnType]], values: Sequence[Any]) -> list[Any]:
    """Returns the parsed values of a row, one per entry of `kinds`.

    Raises:
        ValueError: a value is of the wrong type.
    """
    return _checked(path, line, kinds, values, _kept(kinds, values))


def _kept(kinds, values):
    """Returns the parsed values, None for each of the wrong type."""
    return [kind.read(value) for (_, kind), value in zip(kinds, values, strict=True)]


def _checked(path, line, kinds, values, kept):
    if None in kept:
        (column, kind), value = kinds[kept.index(None)], values[kept.index(None)]
        raise ValueError(
            f"{line_position(path, line)}: {kind.must}; got {excerpt(value)} in column {column.name!r}; "
            f"correct this line, or {_column_advice(column)}."
        )
    return kept


def _column_advice(column):
    return column.remedy or f"check `{column.parameter}`"


def is_empty(value: Any) -> bool:
    """Returns whether a cell is empty: spaces, null, or NaN (missing values in tables)."""
    return is_missing_cell(value) or (isinstance(value, str) and not value.strip())


def refuse_missing(path: str, rows: Sequence[tuple[int, Sequence[Any]]], columns: Sequence[Column]):
    """Raises ValueError, listing all of them, if rows have null in place of a text or in a list of texts.

    Args:
        path: the file.
        rows: lines and values.
        columns: columns of the first values, which contain texts.
    """
    texts = [ColumnType("a text must not be missing", lambda value: None if _lacks(value) else value)] * len(columns)
    kinds = list(zip(columns, texts, strict=True))
    kept = [(line, values, _kept(kinds, values[: len(kinds)])) for line, values in rows]
    if bad := {line: _bad_of(values, each) for line, values, each in kept if None in each}:
        raise _bad_text(path, bad, kinds)


def _lacks(value):
    return is_missing_cell(value) or (isinstance(value, list) and None in value)


def _bad_of(values, kept):
    """Returns {position: value} of the values of the wrong type."""
    return {index: value for index, (value, each) in enumerate(zip(values, kept, strict=False)) if each is None}


def _check_values(path, rows, kinds, texts, label_place):
    """Returns the parsed values of the rows with valid texts and labels, and the invalid ones.

    Args:
        path: the file.
        rows: lines and values.
        kinds: the `Column` and `ColumnType` of each value.
        texts: number of texts, which are the first values.
        label_place: index of the label among the values, or None.

    Returns:
        each column as a list; the lines; {line: {position: value}} of invalid texts; {line: label} of invalid labels.
    """
    good, lines, bad_texts, bad_labels, shortened = [], [], {}, {}, {}
    for line, values in rows:
        kept = _kept(kinds, values)
        if None in kept[:texts]:
            bad_texts[line] = _bad_of(values[:texts], kept)
            continue
        if label_place is not None and isinstance(kept[label_place], str) and is_whole_number(values[label_place]):
            shortened.setdefault(kept[label_place], values[label_place])
        if label_place is not None and kept[label_place] is None:
            bad_labels[line] = values[label_place]
            continue
        good.append(_checked(path, line, kinds, values, kept))
        lines.append(line)
    if shortened:
        name, value = next(iter(shortened.items()))
        logging.info("%s: whole-number labels are named without their fraction: %s becomes %r.", path, value, name)
    return list(map(list, zip(*good, strict=True))), lines, bad_texts, bad_labels


def _refuse_bad(path, kinds, bad_texts, bad_labels, label_place):
    if bad_texts:
        raise _bad_text(path, bad_texts, kinds)
    if bad_labels:
        raise _bad_label(path, bad_labels, *kinds[label_place])


def _bad_text(path, bad, kinds):
    """Returns the error for all rows without a text; `bad` is line -> {position: value}."""
    index, value = next(iter(next(iter(bad.values())).items()))
    column, kind = kinds[index]
    remedy = f"correct {word_for(len(bad), 'this line', 'these lines')}"
    if _lacks(value):
        remedy = f"fill {word_for(len(bad), 'it in or remove the row', 'them in or remove the rows')}"
    return _bad_rows(path, list(bad), kind.must, value, column, remedy)


def _bad_label(path, bad, column, kind):
    value, must = next(iter(bad.values())), kind.must
    correct = f"correct {word_for(len(bad), 'this line', 'these lines')}"
    if is_empty(value) and kind.read("") is None:  # otherwise an empty field means no labels
        must = "every example must have a label, but the label here is empty"
        correct += ", drop such rows with `bert-tf data clean`, or in training with `drop_empty`"
    return _bad_rows(path, list(bad), must, value, column, correct)


def _bad_rows(path, lines, must, value, column, remedy):
    """Returns the error for the rows at `lines`; `value` is that of the first row."""
    more, advice = "", f", or {_column_advice(column)}" if column.parameter else ""
    if len(lines) > 1:
        noun = "row" if path.lower().endswith(".parquet") else "line"
        more = f", and {number_of(len(lines) - 1, f'more such {noun}')}: {format_lines(lines[1:])}"
    return ValueError(
        f"{line_position(path, lines[0])}: {must}; got {excerpt(value)} in column {column.name!r}{more}; "
        f"{remedy}{advice}."
    )


def format_lines(lines: Sequence[int], count: int | None = None) -> str:
    """Returns the first 99 lines as "3, 5, 8"; `count` is their total number if `lines` is incomplete."""
    shown = ", ".join(map(str, lines[:MOST]))
    return shown + (", ..." if max(count or 0, len(lines)) > len(lines[:MOST]) else "")
