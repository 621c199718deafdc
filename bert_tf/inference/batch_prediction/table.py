"""The input table of a batch prediction, its parts, and how their predictions are joined."""

import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf.data.columns import NAME, TEXT, ColumnType, is_missing_cell, without_surrogates
from bert_tf.data.features import Ragged
from bert_tf.data.table_reader import Column, is_table, iterate_lines, iterate_rows
from bert_tf.data.tables import MOST, read_values
from bert_tf.inference.batch_prediction.formats import Format, Partial, Slice
from bert_tf.utils.names import number_of
from bert_tf.utils.progress import Countdown

# === Table ===
# The rows that a job answers for, read as a stream and cut into parts.


class TableRows(NamedTuple):
    """Some rows of a table.

    Attributes:
        ids: a name for each.
        texts: of each text column its texts; of a column of lists, lists of texts.
        kept: {column: its values} of those that are only passed on.
        missing: whether each row lacks a text: in place of its texts stand those of another row, and its answers do not
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


# === Parts ===
# The answers for one part of a table, as a file of the work folder.


_NAMES = ("id", "linex_index")  # columns that say which row it is, also where it has no answer
_NAME = re.compile(r"part-(\d{8})")


@dataclasses.dataclass
class PartWriter:
    """Answers and writes; can be pickled until it is `ready`.

    Attributes:
        maker: of the function that answers.
        form: of the files.
        folder: where they go.
    """

    maker: Any
    form: Format
    folder: str

    def ready(self) -> "PartWriter":
        """Has the function made that answers, and returns itself."""
        self._answer = self.maker()
        return self

    def path(self, number: int) -> str:
        """Returns the path of a part."""
        return os.path.join(self.folder, f"part-{number:08d}")

    def there(self) -> set[int]:
        """Returns the numbers of the parts that are written."""
        return {int(match[1]) for match in map(_NAME.fullmatch, os.listdir(self.folder)) if match}

    def write(self, number: int, rows: TableRows) -> int:
        """Answers for the rows of a part, writes what came, and returns how many there are."""
        answers = self._answer(rows)
        _warn_of_not_finite(number, answers)
        columns = _join_columns(rows.kept, answers)
        for name, values in columns.items():
            found = len(values.lengths) if isinstance(values, Ragged) else len(values)
            assert found == len(rows.ids), (name, found, len(rows.ids))
        if rows.missing:
            missing = np.array(rows.missing)
            answers = columns.keys() - {*_NAMES, *rows.kept}
            columns |= {name: Partial(columns[name], missing) for name in answers}
        self.form.write(self.path(number), columns)
        return len(rows.ids)


def _warn_of_not_finite(number, answers):
    """Says how many numbers of a part are none, which files of text have no word for."""
    for name, values in answers.items():
        array = values.flat if isinstance(values, Ragged) else values
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            logging.warning(
                "Part %d: %s of %s of %r are NaN or infinite; is the precision that the model computes in too narrow?",
                *(number, f"{np.count_nonzero(~finite):,}", number_of(array.size, "number"), name),
            )


def _join_columns(kept, answers):
    """Returns the answers with what is passed on between the ids, where there are some, and the rest."""
    twice = sorted(kept.keys() & answers.keys())
    if twice:
        raise ValueError(
            f"`keep_columns` must name other columns than the answers, which are {', '.join(answers)}. Received "
            f"{', '.join(twice)}; name such a column by its number."
        )
    ids = {name: answers[name] for name in ("id",) if name in answers}
    return ids | kept | answers


# === Joining ===
# Parts put together: the output file, or its shards.


def join_parts(writer: PartWriter, count: int, size: int, outputs: list[str]):
    """Writes the output files into the work folder, and then renames them.

    Args:
        writer: of the parts, all of which are there.
        count: of rows.
        size: rows of a part.
        outputs: each gets its share of the rows, in order.
    """
    bounds = [count * n // len(outputs) for n in range(len(outputs) + 1)]
    aside = [os.path.join(writer.folder, f"shard-{n:05d}") for n in range(len(outputs))]
    with Countdown("Putting together", "rows", count) as progress:
        for path, first, last in zip(aside, bounds, bounds[1:], strict=False):
            writer.form.join(path, slices(writer, size, first, last))
            progress.advance(last - first)
    for path, output in zip(aside, outputs, strict=True):
        os.replace(path, os.path.realpath(output))


def slices(writer: PartWriter, size: int, first: int, last: int) -> list[Slice]:
    """Returns which rows of which parts are the rows `first` to `last` (exclusive) of the table."""
    return [
        Slice(writer.path(number), max(first - number * size, 0), min(last - number * size, size))
        for number in range(first // size, -(-last // size))
    ]
