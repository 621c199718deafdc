"""The input table of a batch prediction: rows read as a stream and split into parts."""

import dataclasses
import hashlib
import itertools
import json
import os
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.data.columns import NAME, TEXT, TITLE, ColumnType, is_missing_cell, joined_type, without_surrogates
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect, extension_of
from bert_tf.data.list_cells import as_list
from bert_tf.data.row_errors import line_position
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import is_table, iterate_lines, iterate_rows, names_in
from bert_tf.data.tables import MOST, is_empty, read_values
from bert_tf.utils.counts import number_of


class TableRows(NamedTuple):
    """Some rows of a table.

    Attributes:
        ids: one ID per row, as in the table; "0", "1", ... if the rows are numbered.
        texts: the texts of each text column; for a column of lists, lists of texts.
        kept: {column: its values} the columns that are copied to the output.
        missing: whether each row lacks a text: it then has another row's texts, and its predictions do not
            count; () if none does.
        id_name: name of the column of IDs.
    """

    ids: list
    texts: tuple[list[str] | list[list[str]], ...]
    kept: dict[str, list] = {}  # never modified
    missing: tuple[bool, ...] = ()
    id_name: str = "id"


class Summary(NamedTuple):
    """Counts and digest of a table after one pass.

    Attributes:
        total: number of rows in the file.
        count: number of rows that get a prediction or null: fewer than `total` if rows without a text are skipped.
        digest: digest of their ids and texts.
        missing: number of rows without a text.
        lines: line numbers of the first of these.
        types: {copied column: {kind of value: the first line that has it}}, if the file may have several in a column.
    """

    total: int
    count: int
    digest: str
    missing: int
    lines: tuple[int, ...]
    types: dict[str, dict[str, int]]


def _read_texts(value):
    value = as_list(value)
    good = isinstance(value, list) and value and all(isinstance(each, str) for each in value)
    return list(map(without_surrogates, value)) if good else None


def _in_tuple(kind):
    """Returns a column type whose cells are in a tuple, because None marks an invalid value."""

    def read(value):
        found = kind.read(value)
        return None if found is None else (found,)

    return ColumnType(kind.must, read)


def _in_tuple_or_missing(kind):
    """Returns a column type whose cells are in a tuple, (None,) if the text is missing."""
    in_tuple = _in_tuple(kind)

    def read(value):
        if is_missing_cell(value) or (isinstance(value, list) and (not value or any(map(is_missing_cell, value)))):
            return (None,)
        return in_tuple.read(value)

    return ColumnType(kind.must, read)


TEXTS = ColumnType("the texts must be a list of strings, at least one", _read_texts)
_ANY = ColumnType("any value is allowed", lambda value: (value,))  # in a tuple, because None marks an invalid value
_ID = ColumnType(
    "an id must be a number or one line of text; a column with empty cells can be in `keep_columns` instead",
    lambda value: None if NAME.read(value) is None else (value,),
)


_JSON_TYPES = {str: "text", int: "number", float: "number", bool: "true or false", list: "list", dict: "object"}


@dataclasses.dataclass(frozen=True)
class InputTable:
    """A file of texts.

    Attributes:
        path: a table, or any other file with one text per line.
        text_columns: columns of a table, by name or index.
        list_columns: those of them that contain lists of texts.
        id_column: column of row IDs; if None, rows are numbered from "0".
        header: whether line 1 of a .tsv or .csv file names the columns.
        keep_columns: columns of a table to copy to the output.
        on_null: as in `TableJob`.
        dialect: how a text file is written.
        joins_texts: as in `Maker`.
    """

    path: str
    text_columns: tuple[str, ...] = ("text",)
    list_columns: tuple[str, ...] = ()
    id_column: str | None = None
    header: bool = True
    keep_columns: tuple[str, ...] = ()
    on_null: str | None = None
    dialect: Dialect = DEFAULT_DIALECT
    joins_texts: bool = False

    def summary(self, unique_ids: bool = False) -> Summary:
        """Reads the whole file once.

        Args:
            unique_ids: whether no two rows may have the same id, which takes some 30 bytes of memory per row.

        Raises:
            ValueError: it does not match the settings, no row has a text, or an id occurs twice; the message has file
                and line.
        """
        if os.path.exists(self.path) and not (os.path.isfile(self.path) or os.path.isdir(self.path)):
            raise ValueError(f"`input_file` must be a regular file, because it is read twice; {self.path} is not.")
        total, digest, missing, lines = 0, hashlib.sha256(), 0, []
        copied = {place: name for place, name in self._copied() if extension_of(self.path) == ".jsonl"}
        types, hashes = {name: {} for name in copied.values()}, array("q")
        unique_ids &= self.id_column is not None
        for line, row in self._rows():
            total += 1
            if unique_ids:
                hashes.append(hash(_id_text(row[0])))
            digest.update(json.dumps(row, default=str).encode() + b"\n")
            for place, name in copied.items():
                if row[place] is not None:
                    types[name].setdefault(_JSON_TYPES[type(row[place])], line)
            if self._lacks_text(row):
                missing += 1
                lines += [line] if len(lines) <= MOST else []
        if not total:
            raise ValueError(
                f"{self.path} has no rows. Check the path, and whether its "
                "only line is a header (`header`)."
            )
        if missing == total:
            raise ValueError(
                f"{self.path} has no texts: all {number_of(total, 'row')} are {self.null}. Check "
                "`text_column`."
            )
        self._check_unique(hashes)
        count = total - missing if self.on_null == "skip" else total
        return Summary(total, count, digest.hexdigest(), missing, tuple(lines), types)

    def _check_unique(self, hashes):
        """Raises ValueError if two rows have the same id; reads the rows again if two have the same hash."""
        values, counts = np.unique(np.asarray(hashes, np.int64), return_counts=True)
        again, first = set(values[counts > 1].tolist()), {}  # id -> its first line
        for line, row in self._rows() if again else ():
            name = _id_text(row[0])
            if hash(name) in again and first.setdefault(name, line) != line:
                raise ValueError(
                    f"{line_position(self.path, line)}: each id must be unique; got {name!r}, the id of "
                    f"{line_position(self.path, first[name])}, again; give one of them another id, or remove it."
                )

    @property
    def null(self) -> str:
        """What a missing text is, in messages."""
        return "null or empty" if self.on_null else "null"

    @property
    def id_name(self) -> str:
        """Name of the column of IDs in the output: its own, or "id" if it has none."""
        if self.id_column is None or not (names := _column_names(self.path, self.header, self.dialect)):
            return "id"
        place = Column(self.id_column, "id_column").find(names, self.path)
        return "id" if place is None else names[place]

    def arrow_types(self) -> dict[str, Any]:
        """Returns {copied column: its Arrow type} of a Parquet file, {} of another."""
        if extension_of(self.path) != ".parquet":
            return {}
        from pyarrow import parquet

        schema = parquet.read_schema(self.path)
        asked = {self.id_name: self.id_column} if self.id_column is not None else {}
        asked |= {name: name for name in self.keep_columns}
        places = {name: Column(column, "keep_columns").find(schema.names, self.path) for name, column in asked.items()}
        return {name: schema.types[place] for name, place in places.items()}

    def parts(self, size: int, count: int) -> Iterator[tuple[int, TableRows]]:
        """Yields (number of the part, its rows): the first `count` rows of the file, `size` rows at a time.

        Raises:
            ValueError: the file has fewer rows.
        """
        id_name = self.id_name
        rows = (row for _, row in self._rows() if not (self.on_null == "skip" and self._lacks_text(row)))
        rows = itertools.islice(rows, count)  # never to the end, where the count would be logged again
        for number in range(-(-count // size)):
            part = list(itertools.islice(rows, size))
            if len(part) < min(size, count - number * size):
                raise ValueError(
                    f"{self.path} changed while it was read: it has fewer than the {count} rows of the first "
                    "pass. Run the command again."
                )
            ids, *columns = map(list, zip(*part, strict=True))
            texts, kept = columns[: len(self.text_columns)], columns[len(self.text_columns) :]
            texts, missing = self._filled(texts)
            yield number, TableRows(ids, texts, dict(zip(self.keep_columns, kept, strict=True)), missing, id_name)

    def _copied(self):
        """Yields the place in a row of `_rows` and the name of each column that is copied to the output."""
        yield from [(0, self.id_name)] if self.id_column is not None else []
        yield from enumerate(self.keep_columns, 1 + len(self.text_columns))

    def _lacks_text(self, row):
        return None in row[1 : 1 + len(self.text_columns)]

    def examples(self) -> Iterator[tuple]:
        """Yields the texts of each row, one per text column; a missing text is None."""
        return (tuple(row[1 : 1 + len(self.text_columns)]) for _, row in self._rows())

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
        kinds = [(Column(name, "text_column"), self._text_type(name)) for name in self.text_columns]
        kinds += [(Column(name, "keep_columns"), _ANY) for name in self.keep_columns]
        kinds += [(Column(self.id_column, "id_column"), _ID)] if self.id_column is not None else []
        width = len(self.text_columns)
        for number, (line, values) in enumerate(self._lines_or_rows([column for column, _ in kinds])):
            row = [value for (value,) in read_values(self.path, line, kinds, values)]
            name = row.pop() if self.id_column is not None else str(number)
            if self.on_null and all(map(_is_blank, row[:width])):
                row[:width] = [None] * width
            yield line, [name, *row]

    def _text_type(self, name):
        if name in self.list_columns:
            return _in_tuple_or_missing(TEXTS)
        kind = joined_type(name) if self.joins_texts and len(self.text_columns) > 1 else TEXT
        return _in_tuple(kind) if kind is TITLE else _in_tuple_or_missing(kind)

    def _lines_or_rows(self, columns):
        if is_table(self.path):
            return iterate_rows(self.path, columns, self.header, dialect=self.dialect)
        if len(columns) > 1 or self.list_columns:
            raise ValueError(
                "`input_file` must be a .tsv, .csv, .jsonl or .parquet file if rows have several columns or "
                f"lists; {self.path} has one text per line."
            )
        return iterate_lines(self.path, self.dialect.encoding)


def _id_text(value):
    return without_surrogates(NAME.read(value))


def _is_blank(text):
    return all(map(is_empty, text)) if isinstance(text, list) else is_empty(text)


def _column_names(path, header, dialect):
    """Returns the names of a table's columns, [] if it has none."""
    has_names = header or extension_of(path) in (".jsonl", ".parquet")
    return names_in(path, dialect) if has_names and is_table(path) else []


def expand_columns(
    keep_columns: Sequence[str], path: str, header: bool, others: Sequence[str], dialect: Dialect = DEFAULT_DIALECT
) -> tuple[str, ...]:
    """Returns the columns to keep, with all columns of the table but `others` in place of "*".

    Args:
        keep_columns: columns by name or index, and "*".
        path: the table.
        header: whether line 1 of a .tsv or .csv file names the columns.
        others: columns by name or index, which are read for something else.
        dialect: how a text file is written.

    Raises:
        ValueError: the file has no columns.
    """
    if "*" not in keep_columns:
        return tuple(keep_columns)
    if not is_table(path):
        raise ValueError(f"`keep_columns=*` requires a table as `input_file`; {path} has one text per line.")
    names = _column_names(path, header, dialect) or list(map(str, range(len(names_in(path, dialect)))))
    used = {Column(name, "keep_columns").find(names, path) for name in (*others, *keep_columns)}
    rest = [name for place, name in enumerate(names) if place not in used]
    return tuple(column for name in keep_columns for column in (rest if name == "*" else [name]))
