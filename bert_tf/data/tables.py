"""Labelled text from .tsv, .csv, .jsonl and .parquet files, with the line of every example kept for error messages."""

import dataclasses
import numbers
import os
from collections.abc import Sequence

from bert_tf.data.rows import Column, excerpt, read_rows, where


@dataclasses.dataclass
class Examples:
    """Texts and labels in the order of the file, as parallel lists of one length.

    Attributes:
        ids: name of each example; "0", "1", ... where the file gives none.
        text_a: first text.
        text_b: second text, or None for tasks on one text.
        labels: label names, or None where the file has none.
        path: the file.
        lines: 1-based line on which each example begins; in a Parquet file the 1-based row.
    """

    ids: list[str]
    text_a: list[str]
    text_b: list[str] | None
    labels: list[str] | None
    path: str
    lines: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, index: int) -> str:
        """Returns "file:line" of example `index`, as error messages begin with it."""
        return where(self.path, self.lines[index])


def read_table(
    path: str | os.PathLike,
    *,
    header: bool = True,
    text_columns: Sequence[str | int] = ("text",),
    label_column: str | int | None = None,
    id_column: str | int | None = None,
    remedy: str | None = None,
) -> Examples:
    """Reads one file of examples; its extension tells the format.

    .tsv: a tab ends a column, a line feed ends a row, quotes are ordinary characters (google-research/bert's
    `_read_tsv`). .csv: RFC 4180. .jsonl: one object a line, columns are its keys. .parquet: columns by name or index.
    The first three may be packed (.tsv.gz). Blank lines at the end do not count; elsewhere they are errors, since
    skipping them would shift the predictions against the lines. Columns beyond those asked for are ignored.

    Args:
        path: the file.
        header: whether line 1 of a .tsv or .csv file names the columns; if not, columns are given by index.
        text_columns: one or two columns, each by name or by index from 0 (an int, or digits).
        label_column: likewise; None leaves `labels` None.
        id_column: likewise; None numbers the examples from "0".
        remedy: advice that ends errors about columns; by default it speaks of the flags of the scripts.

    Raises:
        ValueError: the file cannot be read as said; the message names file, line, what must hold and what to do.
    """
    if len(text_columns) not in (1, 2):
        raise ValueError(f"--text_column must name one or two columns. Received: {tuple(text_columns)}.")
    path = os.fspath(path)
    wanted = [Column(column, "--text_column", remedy) for column in text_columns]
    wanted += [Column(label_column, "--label_column", remedy)] if label_column is not None else []
    wanted += [Column(id_column, "id_column", remedy)] if id_column is not None else []
    rows = read_rows(path, wanted, header)
    if not rows:
        raise ValueError(
            f"{path} must hold at least one example. Received a file with no examples; "
            "check the path, and whether its only line is a header (--header)."
        )
    columns = _check_values(path, rows, wanted)
    return Examples(
        ids=columns.pop() if id_column is not None else [str(i) for i in range(len(rows))],
        labels=columns.pop() if label_column is not None else None,
        text_b=columns.pop() if len(text_columns) == 2 else None,
        text_a=columns.pop(),
        path=path,
        lines=[line for line, _ in rows],
    )


def label_list(examples: Examples) -> list[str]:
    """Returns the distinct labels sorted as strings; the place in this list is the label's id."""
    return sorted(set(_labels_of(examples)))


def check_labels(examples: Examples, known: Sequence[str]) -> list[int]:
    """Returns the place of every example's label in `known`.

    Raises:
        ValueError: a label is not among `known`, or the examples have no labels.
    """
    ids = {label: i for i, label in enumerate(known)}
    for i, label in enumerate(_labels_of(examples)):
        if label not in ids:
            raise ValueError(
                f"{examples.where(i)}: the label must be one that training saw: {excerpt(list(known), 200)}. "
                f"Received: {label!r}; correct this line, check --label_column and --header, "
                "or train on examples of this label too."
            )
    return [ids[label] for label in examples.labels]


def _labels_of(examples):
    if examples.labels is None:
        raise ValueError(f"{examples.path} must have labels for this. Received no column of them; give --label_column.")
    return examples.labels


def _check_values(path, rows, wanted):
    """Returns the columns of `rows` as lists of str: texts must be strings, labels and ids may be numbers."""
    columns = [[] for _ in wanted]
    for line, values in rows:
        for column, value, kept in zip(wanted, values, columns, strict=True):
            is_text = column.flag == "--text_column"
            name = value if is_text and isinstance(value, str) else None if is_text else _name(value)
            if name is None:
                must = "the text must be a string" if is_text else "a label or id must be a number or one line of text"
                raise ValueError(
                    f"{where(path, line)}: {must}. Received: {excerpt(value)} in column {column.name!r}; "
                    f"correct this line, or check {column.flag}."
                )
            kept.append(name)
    return columns


def _name(value):
    """Returns a label or id as text (1 -> "1", 1.0 -> "1.0", True -> "true"), or None for what names nothing."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, numbers.Number):
        return str(value) if value == value else None  # NaN, as tables write what is missing
    one_line = isinstance(value, str) and not {"\n", "\r"} & set(value)  # labels.txt holds one a line
    return value if one_line and value.strip() else None
