"""The rows that a job answers for, read as a stream and cut into parts."""

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from bert_tf.data.cells import NAME, TEXT, Cell, without_surrogates
from bert_tf.data.rows import Column, is_table, iterate_lines, iterate_rows
from bert_tf.data.tables import read_values


class Rows(NamedTuple):
    """Some rows of a table.

    Attributes:
        ids: a name for each.
        texts: of each text column its texts; of a column of lists, lists of texts.
        kept: {column: its values} of those that are only passed on.
    """

    ids: list[str]
    texts: tuple[list[str] | list[list[str]], ...]
    kept: dict[str, list] = {}  # which nobody changes


def _texts(value):
    good = isinstance(value, list) and value and all(isinstance(each, str) for each in value)
    return list(map(without_surrogates, value)) if good else None


TEXTS = Cell("the texts must be a list of strings, one at least", _texts)
_ANY = Cell("anything may stand here", lambda value: (value,))  # in a tuple, for None says that it may not


@dataclasses.dataclass(frozen=True)
class Table:
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

    def summary(self) -> tuple[int, str]:
        """Reads the whole file once. Returns how many rows there are, and a digest of their ids and texts.

        Raises:
            ValueError: it cannot be read as said, or has no row; the message names file and line.
        """
        if os.path.exists(self.path) and not (os.path.isfile(self.path) or os.path.isdir(self.path)):
            raise ValueError(f"`input_file` must be a regular file, for it is read twice. Received {self.path}.")
        count, digest = 0, hashlib.sha256()
        for row in self._rows():
            count += 1
            digest.update(json.dumps(row, default=str).encode() + b"\n")
        if not count:
            raise ValueError(
                f"{self.path} must hold at least one row. Received a file without; check the path, and whether its "
                "only line is a header (`header`)."
            )
        return count, digest.hexdigest()

    def parts(self, size: int, count: int) -> Iterator[tuple[int, Rows]]:
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
            ids, *columns = map(list, zip(*part, strict=True))
            texts, kept = columns[: len(self.text_columns)], columns[len(self.text_columns) :]
            yield number, Rows(ids, tuple(texts), dict(zip(self.keep_columns, kept, strict=True)))

    def _rows(self):
        """Yields [id, texts ..., what is passed on ...] of each row."""
        kinds = [(Column(name, "text_column"), TEXTS if name in self.list_columns else TEXT)
                 for name in self.text_columns]  # fmt: skip
        kinds += [(Column(name, "keep_columns"), _ANY) for name in self.keep_columns]
        kinds += [(Column(self.id_column, "id_column"), NAME)] if self.id_column is not None else []
        for number, (line, values) in enumerate(self._lines_or_rows([column for column, _ in kinds])):
            kept = read_values(self.path, line, kinds, values)
            name = kept.pop() if self.id_column is not None else str(number)
            texts = kept[: len(self.text_columns)]
            yield [name, *texts, *(value for (value,) in kept[len(texts) :])]

    def _lines_or_rows(self, columns):
        if is_table(self.path):
            return iterate_rows(self.path, columns, self.header)
        if len(columns) > 1 or self.list_columns:
            raise ValueError(
                "`input_file` must be a .tsv, .csv, .jsonl or .parquet file where a row has several columns or "
                f"lists. Received {self.path}, a text a line."
            )
        return iterate_lines(self.path)
