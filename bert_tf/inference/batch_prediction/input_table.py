"""The input table of a batch prediction: its rows, read as a stream and cut into parts."""

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from bert_tf.data.columns import NAME, TEXT, ColumnType, is_missing_cell, without_surrogates
from bert_tf.data.table_reader import Column, is_table, iterate_lines, iterate_rows
from bert_tf.data.tables import MOST, read_values
from bert_tf.utils.names import number_of


class TableRows(NamedTuple):
    """Some rows of a table.

    Attributes:
        ids: a name for each.
        texts: of each text column its texts; of a column of lists, lists of texts.
        kept: {column: its values} of those that are only passed on.
        missing: whether each row lacks a text: it has another row's texts instead, and its answers do not
            count; () where none does.
    """

    ids: list[str]
    texts: tuple[list[str] | list[list[str]], ...]
    kept: dict[str, list] = {}  # which nobody changes
    missing: tuple[bool, ...] = ()


class Summary(NamedTuple):
    """Counts and digest of a table that was read once.

    Attributes:
        count: of its rows.
        digest: of their ids and texts.
        missing: how many of them lack a text.
        lines: where the first of these are.
    """

    count: int
    digest: str
    missing: int
    lines: tuple[int, ...]


def _read_texts(value):
    good = isinstance(value, list) and value and all(isinstance(each, str) for each in value)
    return list(map(without_surrogates, value)) if good else None


def _in_tuple_or_missing(kind):
    """Returns a kind of cell that is kept in a tuple, as (None,) where it lacks a text."""

    def read(value):
        if is_missing_cell(value) or (isinstance(value, list) and any(map(is_missing_cell, value))):
            return (None,)
        found = kind.read(value)
        return None if found is None else (found,)

    return ColumnType(kind.must, read)


TEXTS = ColumnType("the texts must be a list of strings, one at least", _read_texts)
_ANY = ColumnType("anything may stand here", lambda value: (value,))  # in a tuple, for None says that it may not


@dataclasses.dataclass(frozen=True)
class InputTable:
    """A file of texts.

    Attributes:
        path: a table, or any other file: a text a line.
        text_columns: of a table, by name or index.
        list_columns: those among them that hold lists of texts.
        id_column: of the rows' names; None: they are numbered from "0".
        header: whether line 1 of a .tsv or .csv file names the columns.
        keep_columns: of a table, that are passed on.
    """

    path: str
    text_columns: tuple[str, ...] = ("text",)
    list_columns: tuple[str, ...] = ()
    id_column: str | None = None
    header: bool = True
    keep_columns: tuple[str, ...] = ()

    def summary(self) -> Summary:
        """Reads the whole file once.

        Raises:
            ValueError: it cannot be read as said, or has no row with a text; the message names file and line.
        """
        if os.path.exists(self.path) and not (os.path.isfile(self.path) or os.path.isdir(self.path)):
            raise ValueError(f"`input_file` must be a regular file, for it is read twice. Received {self.path}.")
        count, digest, missing, lines = 0, hashlib.sha256(), 0, []
        for line, row in self._rows():
            count += 1
            digest.update(json.dumps(row, default=str).encode() + b"\n")
            if None in row[1 : 1 + len(self.text_columns)]:
                missing += 1
                lines += [line] if len(lines) <= MOST else []
        if not count:
            raise ValueError(
                f"{self.path} must hold at least one row. Received a file without; check the path, and whether its "
                "only line is a header (`header`)."
            )
        if missing == count:
            raise ValueError(
                f"{self.path} must hold a text somewhere. Received null in all {number_of(count, 'row')}; check "
                "`text_column`."
            )
        return Summary(count, digest.hexdigest(), missing, tuple(lines))

    def parts(self, size: int, count: int) -> Iterator[tuple[int, TableRows]]:
        """Yields (number of the part, its rows): the first `count` rows of the file, `size` of them at a time.

        Raises:
            ValueError: there are fewer.
        """
        rows = itertools.islice(self._rows(), count)  # never to the end, where the log would count once more
        for number in range(-(-count // size)):
            part = list(itertools.islice(rows, size))
            if len(part) < min(size, count - number * size):
                raise ValueError(
                    f"{self.path} must not change while it is read. Received fewer than the {count} rows of a moment "
                    "ago; start again."
                )
            ids, *columns = map(list, zip(*(row for _, row in part), strict=True))
            texts, kept = columns[: len(self.text_columns)], columns[len(self.text_columns) :]
            texts, missing = self._filled(texts)
            yield number, TableRows(ids, texts, dict(zip(self.keep_columns, kept, strict=True)), missing)

    def _filled(self, texts):
        """Returns texts that stand in for those that are missing, and which rows these are."""
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
        """Yields the line of each row, and [id, texts ..., what is passed on ...]; a text that is missing is None."""
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
            return iterate_rows(self.path, columns, self.header)
        if len(columns) > 1 or self.list_columns:
            raise ValueError(
                "`input_file` must be a .tsv, .csv, .jsonl or .parquet file where a row has several columns or "
                f"lists. Received {self.path}, a text a line."
            )
        return iterate_lines(self.path)
