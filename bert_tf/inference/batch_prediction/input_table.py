"""The input table of a batch prediction: rows read as a stream and split into parts."""

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from bert_tf.data.columns import NAME, TEXT, ColumnType, is_missing_cell, without_surrogates
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.table_reader import Column, is_table, iterate_lines, iterate_rows
from bert_tf.data.tables import MOST, read_values
from bert_tf.utils.names import number_of


class TableRows(NamedTuple):
    """Some rows of a table.

    Attributes:
        ids: one ID per row.
        texts: the texts of each text column; for a column of lists, lists of texts.
        kept: {column: its values} the columns that are copied to the output.
        missing: whether each row lacks a text: it then has another row's texts, and its predictions do not
            count; () if none does.
    """

    ids: list[str]
    texts: tuple[list[str] | list[list[str]], ...]
    kept: dict[str, list] = {}  # never modified
    missing: tuple[bool, ...] = ()


class Summary(NamedTuple):
    """Counts and digest of a table after one pass.

    Attributes:
        count: number of rows.
        digest: of their ids and texts.
        missing: number of rows without a text.
        lines: line numbers of the first of these.
    """

    count: int
    digest: str
    missing: int
    lines: tuple[int, ...]


def _read_texts(value):
    good = isinstance(value, list) and value and all(isinstance(each, str) for each in value)
    return list(map(without_surrogates, value)) if good else None


def _in_tuple_or_missing(kind):
    """Returns a column type whose cells are in a tuple, (None,) if the text is missing."""

    def read(value):
        if is_missing_cell(value) or (isinstance(value, list) and any(map(is_missing_cell, value))):
            return (None,)
        found = kind.read(value)
        return None if found is None else (found,)

    return ColumnType(kind.must, read)


TEXTS = ColumnType("the texts must be a list of strings, at least one", _read_texts)
_ANY = ColumnType("any value is allowed", lambda value: (value,))  # in a tuple, because None marks an invalid value


@dataclasses.dataclass(frozen=True)
class InputTable:
    """A file of texts.

    Attributes:
        path: a table, or any other file with one text per line.
        text_columns: columns of a table, by name or index.
        list_columns: those of them that hold lists of texts.
        id_column: column of row IDs; None: rows are numbered from "0".
        header: whether line 1 of a .tsv or .csv file names the columns.
        keep_columns: columns of a table to copy to the output.
        dialect: how a text file is written.
    """

    path: str
    text_columns: tuple[str, ...] = ("text",)
    list_columns: tuple[str, ...] = ()
    id_column: str | None = None
    header: bool = True
    keep_columns: tuple[str, ...] = ()
    dialect: Dialect = DEFAULT_DIALECT

    def summary(self) -> Summary:
        """Reads the whole file once.

        Raises:
            ValueError: it does not match the settings, or no row has a text; the message has file and line.
        """
        if os.path.exists(self.path) and not (os.path.isfile(self.path) or os.path.isdir(self.path)):
            raise ValueError(f"`input_file` must be a regular file, because it is read twice; {self.path} is not.")
        count, digest, missing, lines = 0, hashlib.sha256(), 0, []
        for line, row in self._rows():
            count += 1
            digest.update(json.dumps(row, default=str).encode() + b"\n")
            if None in row[1 : 1 + len(self.text_columns)]:
                missing += 1
                lines += [line] if len(lines) <= MOST else []
        if not count:
            raise ValueError(
                f"{self.path} has no rows. Check the path, and whether its "
                "only line is a header (`header`)."
            )
        if missing == count:
            raise ValueError(
                f"{self.path} has no texts: all {number_of(count, 'row')} are null. Check "
                "`text_column`."
            )
        return Summary(count, digest.hexdigest(), missing, tuple(lines))

    def parts(self, size: int, count: int) -> Iterator[tuple[int, TableRows]]:
        """Yields (number of the part, its rows): the first `count` rows of the file, `size` rows at a time.

        Raises:
            ValueError: the file has fewer rows.
        """
        rows = itertools.islice(self._rows(), count)  # never to the end, where the count would be logged again
        for number in range(-(-count // size)):
            part = list(itertools.islice(rows, size))
            if len(part) < min(size, count - number * size):
                raise ValueError(
                    f"{self.path} changed while it was read: it has fewer than the {count} rows of the first "
                    "pass. Run the command again."
                )
            ids, *columns = map(list, zip(*(row for _, row in part), strict=True))
            texts, kept = columns[: len(self.text_columns)], columns[len(self.text_columns) :]
            texts, missing = self._filled(texts)
            yield number, TableRows(ids, texts, dict(zip(self.keep_columns, kept, strict=True)), missing)

    def _filled(self, texts):
        """Returns texts with replacements for missing ones, and which rows lack texts."""
        missing = tuple(None in row for row in zip(*texts, strict=True))
        if not any(missing):
            return tuple(texts), ()
        whole = missing.index(False) if False in missing else None
        blank = [["", ""] if name in self.list_columns else "" for name in self.text_columns]
        other = blank if whole is None else [column[whole] for column in texts]
        return tuple(
            [instead if lacks else text for text, lacks in zip(column, missing, strict=True)]
            for column, instead in zip(texts, other, strict=True)
        ), missing

    def _rows(self):
        """Yields the line of each row, and [id, texts ..., kept columns ...]; a missing text is None."""
        kinds = [(Column(name, "text_column"), _in_tuple_or_missing(TEXTS if name in self.list_columns else TEXT))
                 for name in self.text_columns]  # fmt: skip
        kinds += [(Column(name, "keep_columns"), _ANY) for name in self.keep_columns]
        kinds += [(Column(self.id_column, "id_column"), NAME)] if self.id_column is not None else []
        for number, (line, values) in enumerate(self._lines_or_rows([column for column, _ in kinds])):
            kept = read_values(self.path, line, kinds, values)
            name = kept.pop() if self.id_column is not None else str(number)
            yield line, [name, *(value for (value,) in kept)]

    def _lines_or_rows(self, columns):
        if is_table(self.path):
            return iterate_rows(self.path, columns, self.header, dialect=self.dialect)
        if len(columns) > 1 or self.list_columns:
            raise ValueError(
                "`input_file` must be a .tsv, .csv, .jsonl or .parquet file if rows have several columns or "
                f"lists; {self.path} has one text per line."
            )
        return iterate_lines(self.path, self.dialect.encoding)
