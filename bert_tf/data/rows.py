"""Rows of .tsv, .csv, .jsonl and .parquet files: the values of the columns asked for, with the line they came from."""

import csv
import dataclasses
import io
import json
import os
from collections.abc import Sequence
from typing import Any

from absl import logging

from bert_tf import files

_FEW = 1e-3  # share of rows that may be broken where a file is known for it
_FIELD_LIMIT = 2**31 - 1  # Python's csv refuses fields over 128 KiB unless told otherwise


@dataclasses.dataclass(frozen=True)
class Column:
    """A column that was asked for by name or index.

    Attributes:
        name: its name or index.
        parameter: by which it came; None: files of this kind always have it.
        remedy: advice that ends errors about it, needed where there is no parameter.
        meaning: what it holds, where there is no parameter.
    """

    name: str | int
    parameter: str | None = None
    remedy: str | None = None
    meaning: str | None = None

    def index(self) -> int | None:
        """Returns the column as an index from 0, or None where it is a name."""
        text = str(self.name)
        return int(text) if text.isascii() and text.isdecimal() else None

    def find(self, names: Sequence[str], at: str, header: bool = True) -> int:
        """Returns the column's place among `names`; a name that happens to be digits goes before an index.

        `at` is "file:line" for errors; `header` says whether an error may blame the parameter `header`.
        """
        if isinstance(self.name, str) and names.count(self.name) > 1:
            raise ValueError(
                f"{at}: column names must differ. Received {self.name!r} more than once in {excerpt(names)}; "
                f"give `{self.parameter}` by index, from 0, or rename one."
            )
        if isinstance(self.name, str) and self.name in names:
            return names.index(self.name)
        if self.index() is None or self.index() >= len(names):
            raise self.missing(names, at, header)
        return self.index()

    def missing(self, names: Sequence[str], at: str, header: bool) -> ValueError:
        """Returns the error that says which columns there are instead."""
        advice = f"choose one with `{self.parameter}`"
        advice += ", or say `header=false` if line 1 is already an example" if header else ""
        what = self.meaning or f"`{self.parameter}`"
        return ValueError(
            f"{at}: there must be a column {self.name!r} ({what}). "
            f"Received the columns {excerpt(list(names), 200)}; {self.remedy or advice}."
        )


def read_rows(
    path: str, wanted: Sequence[Column], header: bool, skip_short: bool = False
) -> list[tuple[int, list[Any]]]:
    """Returns (1-based line or Parquet row, values of `wanted`) for each row; the extension tells the format.

    With `skip_short` a few rows of .tsv and .csv may have too few columns: they are left out, and the log counts them.

    Raises:
        ValueError: `bert_tf.data.tables.read_table` says when.
    """
    extension = _extension(path)
    if os.path.isdir(path):
        raise ValueError(f"{path} must be a file. Received a directory; name one file inside it.")
    if extension not in _READERS:
        raise ValueError(
            f"{path} must end in .tsv, .csv, .jsonl (each also with .gz) or .parquet, which tells its format. "
            f"Received the name {os.path.basename(path)!r}; rename or convert the file."
        )
    return _READERS[extension](path, wanted, header, skip_short)


def names_in(path: str) -> list[str]:
    """Returns the names of the columns: those of line 1, the keys of the first object, or those of the Parquet schema.

    Returns:
        the names; [] where the file cannot be read so, of which `read_rows` says why.
    """
    try:
        return _NAMES[_extension(path)](path)
    except (KeyError, ValueError, OSError, csv.Error, RecursionError):  # pyarrow's errors are of the second kind
        return []


def _extension(path):
    stem, extension = os.path.splitext(path.lower())
    packed = extension == ".gz" and not stem.endswith(".parquet")  # Parquet packs its columns itself
    return os.path.splitext(stem)[1] if packed else extension


def where(path: str, line: int) -> str:
    """Returns "file:line", with which every error about a row begins."""
    return f"{path}: row {line}" if path.lower().endswith(".parquet") else f"{path}:{line}"


def excerpt(value: Any, length: int = 80) -> str:
    """Returns repr(value), cut to about `length` characters."""
    text = repr(value)
    return text if len(text) <= length else text[:length] + "..."


def _read_tsv(path, wanted, header, skip_short):
    # Not str.splitlines(): it also breaks at U+2028, U+0085 and vertical tabs, which are ordinary text here.
    lines = (line.removesuffix("\r") for line in files.read_text(path).split("\n"))
    rows = [(number, line.split("\t") if line else []) for number, line in enumerate(lines, 1)]
    return _select(path, rows, wanted, header, "tabs", skip_short)


def _read_csv(path, wanted, header, skip_short):
    csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(io.StringIO(files.read_text(path), newline="\n"), strict=True)
    rows, start = [], 1
    try:
        for row in reader:
            rows.append((start, row))
            start = reader.line_num + 1  # a quoted field may hold line feeds: a row can be longer than a line
    except csv.Error as error:
        raise ValueError(
            f"{path}:{start}: the row that begins here must be CSV as in RFC 4180. "
            f"Received: {error}; put the field in double quotes and double the quotes inside, or name the file .tsv."
        ) from error
    return _select(path, rows, wanted, header, "commas", skip_short)


def _read_jsonl(path, wanted, header, skip_short):
    """Reads one object a line; the settings say nothing here, since every object names its columns."""
    lines = [line.strip(" \t\r") for line in files.read_text(path).split("\n")]
    rows, broken = [], 0
    for number, line in _drop_blank_end(list(enumerate(lines, 1))):
        row = _parse_object(where(path, number), line)
        for column in wanted:
            if str(column.name) not in row:
                raise column.missing(list(row), where(path, number), header=False)
        values = [row[str(column.name)] for column in wanted]
        whole = [_drop_surrogates(value) for value in values]
        broken += whole != values
        rows.append((number, whole))
    if broken:
        logging.warning("%s: dropped lone surrogates, which UTF-8 does not have, in %d lines.", path, broken)
    return rows


def _parse_object(at, line):
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{at}: every line must be one JSON object. Received {excerpt(line)}, which does not parse ({error}); "
            "correct this line."
        ) from error
    if not isinstance(value, dict):
        raise ValueError(
            f'{at}: every line must be one JSON object, as in {{"text": "..."}}. Received: {excerpt(value)}; '
            "correct this line."
        )
    return value


def _drop_surrogates(value):
    """Half an emoji, as in "\\ud83d", is legal JSON but no Unicode text; it goes the way of invalid bytes."""
    if isinstance(value, list):
        return [_drop_surrogates(each) for each in value]
    return value.encode("utf-8", "ignore").decode("utf-8") if isinstance(value, str) else value


def _read_parquet(path, wanted, header, skip_short):
    """Reads only the columns asked for; the settings say nothing here, since the file names its columns."""
    import pyarrow as pa
    from pyarrow import parquet

    if not os.path.exists(path):
        raise ValueError(f"{path} must be a file. Received a path where nothing is; check its spelling.")
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            headings = [names[column.find(names, path, header=False)] for column in wanted]
            columns = [_plain_values(file.read(columns=[name]).column(name)) for name in headings]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())  # Arrow's own messages may run over several lines
        raise ValueError(f"{path} must be a whole Parquet file. Received: {reason}; write the file again.") from error
    return [(number, list(values)) for number, values in enumerate(zip(*columns, strict=True), 1)]


def _plain_values(column):
    """Returns a Parquet column as Python values; 32-bit numbers keep their short form (0.1, not 0.10000000149)."""
    import numpy as np
    import pyarrow as pa

    values = column.to_pylist()
    if pa.types.is_float32(column.type):
        return [None if value is None else float(str(np.float32(value))) for value in values]
    return values


def _names_in_tsv(path):
    return files.read_text(path).partition("\n")[0].removesuffix("\r").split("\t")


def _names_in_csv(path):
    csv.field_size_limit(_FIELD_LIMIT)
    return next(csv.reader(io.StringIO(files.read_text(path), newline="\n"), strict=True), [])


def _names_in_jsonl(path):
    return list(_parse_object(path, files.read_text(path).partition("\n")[0]))


def _names_in_parquet(path):
    from pyarrow import parquet

    return parquet.read_schema(path).names


_NAMES = {".tsv": _names_in_tsv, ".csv": _names_in_csv, ".jsonl": _names_in_jsonl, ".parquet": _names_in_parquet}
_READERS = {".tsv": _read_tsv, ".csv": _read_csv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}


def _select(path, rows, wanted, header, separators, skip_short):
    """Returns (line, values of the wanted columns) of every row; with `header` the first row gives the names."""
    rows = _drop_blank_end(rows)
    if not rows:
        return []
    if header:
        (line, names), *rows = rows
        indexes = [column.find(names, where(path, line)) for column in wanted]
        _check_widths(path, rows, names, separators)
    else:
        indexes = [_index_without_header(path, column) for column in wanted]
    need = max(indexes) + 1
    short = [(line, row) for line, row in rows if len(row) < need]
    if short and not (skip_short and len(short) <= _FEW * len(rows)):
        raise _too_short(path, *short[0], need, wanted, separators)
    if short:
        logging.warning("%s: left out %d rows of fewer than %d columns, the first in line %d.",
                        *(path, len(short), need, short[0][0]))  # fmt: skip
    return [(line, [row[i] for i in indexes]) for line, row in rows if len(row) >= need]


def _check_widths(path, rows, names, separators):
    """Raises ValueError where a row has more columns than are named: then what is read is perhaps another column."""
    for line, row in rows:
        if any(row[len(names) :]):
            advice = "put a field with commas into double quotes" if separators == "commas" else "take out a stray tab"
            raise ValueError(
                f"{where(path, line)}: a row must have the {len(names)} columns of line 1, separated by {separators}. "
                f"Received {len(row)}: {excerpt(row)}; {advice}, or name the columns by number, with `header=false`."
            )


def _too_short(path, line, row, need, wanted, separators):
    """Returns the error of a row with fewer than `need` columns, and its likely reason."""
    parameters = " and ".join(dict.fromkeys(f"`{column.parameter}`" for column in wanted))
    remedy = wanted[0].remedy or f"correct this line, or check {parameters}"
    if separators == "tabs" and any('"' in cell for cell in row):
        remedy = (
            'a stray quote (") may have swallowed a tab or a line end when the file was written, for quotes are '
            f"ordinary characters in .tsv: write it again without quoting, or {remedy}"
        )
    return ValueError(
        f"{where(path, line)}: a row must have at least {need} columns, separated by {separators}. Received "
        f"{len(row)}: {excerpt(row)}; {remedy}."
    )


def _index_without_header(path, column):
    if column.index() is None:
        raise ValueError(
            f"{path}: `{column.parameter}` must be an index from 0 where no line names the columns (`header=false`). "
            f"Received: {column.name!r}; give the index, or `header=true` if line 1 names the columns."
        )
    return column.index()


def _drop_blank_end(rows):
    """Takes (line, empty) off the end: nothing is lost, while a blank line elsewhere would be a row."""
    while rows and not rows[-1][1]:
        rows.pop()
    return rows
