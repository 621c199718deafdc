"""Rows of .tsv, .csv, .jsonl and .parquet files: the requested columns, with their line numbers."""

import csv
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from bert_tf.data.columns import without_surrogates
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect, QuotedRows, extension_of, separator_name
from bert_tf.data.parquet_rows import parquet_rows
from bert_tf.data.row_errors import bare_returns, excerpt, line_position
from bert_tf.data.table_columns import Column, find_columns, missing_columns
from bert_tf.utils import files
from bert_tf.utils.counts import number_of

_FEW = 1e-3  # share of rows that may be malformed in files known for it
FIELD_LIMIT = 2**31 - 1  # Python's csv refuses fields over 128 KiB by default


def read_rows(
    path: str, wanted: Sequence[Column], header: bool, skip_short: bool = False, dialect: Dialect = DEFAULT_DIALECT
) -> list[tuple[int, list[Any]]]:
    """Returns the rows of `iterate_rows` as a list."""
    return list(iterate_rows(path, wanted, header, skip_short, dialect))


def iterate_rows(
    path: str, wanted: Sequence[Column], header: bool, skip_short: bool = False, dialect: Dialect = DEFAULT_DIALECT
) -> Iterator[tuple[int, list[Any]]]:
    """Yields (1-based line or Parquet row, values of `wanted`) for each row; the extension decides the format.

    Holds only a few rows in memory. With `skip_short`, a few rows of .tsv and .csv may have too few columns: they are
    skipped, and the log reports how many. `dialect` is how a text file is written.

    Raises:
        ValueError: as for `bert_tf.data.tables.read_table`, after the rows before the bad one are yielded.
    """
    if os.path.isdir(path):
        raise ValueError(f"{path} is a directory, not a file. Name one file inside it.")
    if extension_of(path) not in _READERS:
        raise ValueError(
            f"{path} must end in .tsv, .csv, .jsonl (each optionally with .gz) or .parquet, because the extension "
            f"decides the format; got the name {os.path.basename(path)!r}; rename or convert the file."
        )
    dialect.check(path)
    return _READERS[extension_of(path)](path, wanted, header, skip_short, dialect)


def iterate_lines(path: str, encoding: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yields (1-based line, [its text]) for each line of a text file, including blank ones; a final line feed ends one.

    Raises:
        ValueError: as `files.read_text`.
    """
    for number, line in enumerate(_lines(path, encoding), 1):
        yield number, [without_end(line)]


def is_table(path: str) -> bool:
    """Returns whether the extension is that of a table; other files are read with `iterate_lines`."""
    return extension_of(path) in _READERS or path.lower().endswith(".parquet.gz")  # compressed twice: an error


def without_end(line: str) -> str:
    """Returns a line without its line feed and the carriage return before it."""
    return line.removesuffix("\n").removesuffix("\r")


def _lines(path, encoding):
    """Yields the lines of a file, each with its end.

    Not those of str.splitlines(), which also breaks at U+2028, U+0085 and vertical tabs: they count as ordinary text.

    Raises:
        ValueError: as in `files.read_lines`, or the lines end in bare carriage returns.
    """
    for number, line in enumerate(files.read_lines(path, encoding), 1):
        if number == 1 and not line.endswith("\n") and "\r" in line.removesuffix("\r"):
            raise bare_returns(path, number, line)
        yield line


def _read_tsv(path, wanted, header, skip_short, dialect):
    separator = dialect.separator_of(".tsv")
    return _select(path, _tsv_rows(path, separator, dialect.encoding), separator, wanted, header, skip_short)


def _tsv_rows(path, separator, encoding):
    quoted = QuotedRows(separator)
    for number, line in enumerate(map(without_end, _lines(path, encoding)), 1):
        if line:
            quoted.add(number, line)
        yield number, line.split(separator) if line else []
    if quoted.are_certain:
        logging.warning(
            "%s: %d of %d rows have fields in double quotes, as in .csv, which are read as part of the text; %s.",
            *(path, len(quoted.lines), quoted.count, QuotedRows.REMEDY),
        )


def _read_csv(path, wanted, header, skip_short, dialect):
    separator = dialect.separator_of(".csv")
    rows = _csv_rows(path, separator, dialect.encoding)
    return _select(path, rows, separator, wanted, header, skip_short)


def _csv_rows(path, separator, encoding):
    csv.field_size_limit(FIELD_LIMIT)
    reader, start = csv.reader(_lines(path, encoding), delimiter=separator, strict=True), 1
    try:
        for row in reader:
            yield start, row
            start = reader.line_num + 1  # a quoted field may contain line feeds: a row may span several lines
    except csv.Error as error:
        if "new-line character" in str(error):
            number = reader.line_num
            line = next(itertools.islice(_lines(path, encoding), number - 1, None))
            raise bare_returns(path, number, line) from error
        raise ValueError(
            f"{path}:{start}: the row that begins here is not valid CSV (RFC 4180): {error}. "
            "Put the field in double quotes and double the quotes inside, or rename the file to .tsv."
        ) from error


def _read_jsonl(path, wanted, header, skip_short, dialect):
    """Reads one object per line; `header` and `skip_short` are ignored, since every object names its columns."""
    lines = ((number, line.strip(" \t\r\n")) for number, line in enumerate(_lines(path, dialect.encoding), 1))
    broken = 0
    for number, line in _without_blank_end(lines):
        row = parse_object(line_position(path, number), line)
        if missing := [column for column in wanted if not column.optional and str(column.name) not in row]:
            raise missing_columns(missing, list(row), line_position(path, number), header=False)
        values = [row.get(str(column.name)) for column in wanted]
        whole = [without_surrogates(value) if isinstance(value, str) else value for value in values]
        broken += whole != values
        yield number, whole
    if broken:
        logging.warning("%s: dropped lone surrogates, which UTF-8 cannot represent, in %s.", path,
                        number_of(broken, "line"))  # fmt: skip


def parse_object(at: str, line: str) -> dict:
    """Parses the JSON object in a line; `at` is "file:line" for errors."""
    try:
        value = json.loads(line, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{at}: every line must be one JSON object; got {excerpt(line)}, which cannot be parsed ({error})."
        ) from error
    if not isinstance(value, dict):
        raise ValueError(
            f'{at}: every line must be one JSON object, as in {{"text": "..."}}; got {excerpt(value)}.'
        )
    return value


def _unique(pairs):
    """Returns the object of a list of (key, value), of which Python's own keeps only the last of a key."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs more than once")
    return values


def _read_parquet(path, wanted, header, skip_short, dialect):
    """Reads a Parquet file; `header` and `skip_short` are ignored, since the file names its columns."""
    return parquet_rows(path, lambda names: find_columns(wanted, names, path, header=False))


_READERS = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}


def _select(path, rows, separator, wanted, header, skip_short):
    """Yields (line, values of the requested columns) for every row; with `header`, the first row contains the names."""
    rows = _without_blank_end(rows)
    first = next(rows, None)
    if first is None:
        return
    names = first[1] if header else None
    if header:
        indexes = find_columns(wanted, names, line_position(path, first[0]))
    else:
        indexes, rows = [_index_without_header(path, column) for column in wanted], itertools.chain([first], rows)
    separators = separator_name(separator)
    need, total, short, first_short = max(indexes) + 1, 0, 0, None
    for line, row in rows:
        total += 1
        if names is not None and any(row[len(names) :]):
            raise _too_wide(path, line, row, names, separators)
        if len(row) >= need:
            yield line, [row[i] for i in indexes]
        elif skip_short:
            short, first_short = short + 1, first_short or (line, row)
        else:
            raise _too_short(path, line, row, need, wanted, separators)
    if short > _FEW * total:
        raise _too_short(path, *first_short, need, wanted, separators)
    if short:
        logging.warning("%s: skipped %s with fewer than %s, the first in line %d.",
                        *(path, number_of(short, "row"), number_of(need, "column"), first_short[0]))  # fmt: skip


def _too_wide(path, line, row, names, separators):
    is_csv = extension_of(path) == ".csv"
    advice = f"put a field with {separators} in double quotes" if is_csv else f"remove stray {separators}"
    return ValueError(
        f"{line_position(path, line)}: a row must have the {len(names)} columns of line 1, separated by {separators}; "
        f"got {len(row)}: {excerpt(row)}; {advice}, or name the columns by index with `header=false`."
    )


def _too_short(path, line, row, need, wanted, separators):
    parameters = " and ".join(dict.fromkeys(f"`{column.parameter}`" for column in wanted))
    remedy = wanted[0].remedy or f"correct this line, or check {parameters}"
    if separators == "tabs" and any('"' in cell for cell in row):
        remedy = (
            'a stray quote (") may have swallowed a tab or a line end when the file was written, because quotes are '
            f"ordinary characters in .tsv: write it again without quoting, or {remedy}"
        )
    return ValueError(
        f"{line_position(path, line)}: a row must have at least {number_of(need, 'column')}, separated by "
        f"{separators}; got {len(row)}: {excerpt(row)}; {remedy}."
    )


def _index_without_header(path, column):
    if column.index() is None:
        raise ValueError(
            f"{path}: `{column.parameter}` must be an index from 0 if the file has no header (`header=false`); "
            f"got {column.name!r}; pass the index, or `header=true` if line 1 is a header."
        )
    return column.index()


def _without_blank_end(rows):
    """Removes blank lines at the end, which lose nothing, while a blank line elsewhere would be a row."""
    blank = []
    for row in rows:
        if not row[1]:
            blank.append(row)
            continue
        yield from blank
        blank = []
        yield row


def names_in(path: str, dialect: Dialect = DEFAULT_DIALECT) -> list[str]:
    """Returns the column names: the header in line 1, the keys of the first object, or those of the Parquet schema.

    Returns:
        the names; [] if the file cannot be read; `read_rows` then raises the error.
    """
    extension = extension_of(path)
    try:
        if extension == ".parquet":
            from pyarrow import parquet

            return parquet.read_schema(path).names
        lines = files.read_lines(path, dialect.encoding)
        if extension == ".csv":
            csv.field_size_limit(FIELD_LIMIT)
            return next(csv.reader(lines, delimiter=dialect.separator_of(extension), strict=True), [])
        if extension == ".jsonl":
            return list(parse_object(path, next(lines, "")))
        return without_end(next(lines, "")).split(dialect.separator_of(extension)) if extension == ".tsv" else []
    except (ValueError, OSError, csv.Error, RecursionError):  # pyarrow's errors are ValueErrors
        return []
