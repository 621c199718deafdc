"""Whole rows of a table: read with all of their columns, and written to a new table."""

import contextlib
import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.data.columns import SPAN_KEYS
from bert_tf.data.dialect import Dialect, extension_of
from bert_tf.data.row_errors import line_position
from bert_tf.data.table_columns import Column, find_columns
from bert_tf.data.table_reader import iterate_lines, names_in, parse_object, read_rows
from bert_tf.utils import files


def read_whole_rows(
    path: str, columns: Sequence[Column], header: bool, dialect: Dialect
) -> tuple[list[str] | None, list[tuple[int, Any]], list[Any]]:
    """Returns the first line's names or None, [(line, row)], and the keys of `columns` in a row: a list or a dict.

    Raises:
        ValueError: the table cannot be read this way, or has texts with entities.
    """
    dialect.check(path)
    if extension_of(path) == ".jsonl":
        lines = [(line, text) for line, (text,) in iterate_lines(path, dialect.encoding) if text.strip()]
        rows = [(line, parse_object(line_position(path, line), text)) for line, text in lines]
        for line, row in rows:
            find_columns(columns, list(row), line_position(path, line), header=False)
            if any(isinstance(row.get(key), list) and any(isinstance(each, list | dict) for each in row[key])
                   for key in SPAN_KEYS):  # fmt: skip
                raise ValueError(
                    f"{line_position(path, line)}: texts with entities cannot be cleaned, because the offsets of the "
                    "entities would change. Clean the texts before they are annotated."
                )
        return None, rows, [str(column.name) for column in columns]
    names = names_in(path, dialect)
    every = [Column(i, "text_column") for i in range(len(names))]
    rows = read_rows(path, every or columns, header, dialect=dialect)
    is_named = header or extension_of(path) == ".parquet"
    keys = find_columns(columns, names if is_named else list(map(str, range(len(names)))), path, header=header)
    return names if is_named else None, rows, keys


def write_whole_rows(path: str, output: str, head: list[str] | None, rows: Sequence, kept: Sequence[int], keys: list):
    """Writes some rows of a table to a new table of the same format, in UTF-8.

    Args:
        path: the old table, whose other columns a Parquet file takes over.
        output: the new table.
        head, rows, keys: as from `read_whole_rows`; the cells of `keys` may have been changed.
        kept: indices of the rows to write.

    Raises:
        OSError: the output cannot be written.
    """
    extension = extension_of(output)
    with files.atomic_open(output, "wb") as file, contextlib.ExitStack() as stack:
        if extension == ".parquet":
            _write_parquet(path, file, rows, kept, keys)
            return
        if output.lower().endswith(".gz"):
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        for line in _lines(extension, head, [rows[i][1] for i in kept]):
            file.write(line.encode("utf-8", "ignore"))


def _lines(extension, head, rows) -> Iterator[str]:
    if extension == ".jsonl":
        yield from (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return
    rows = [*([head] if head else []), *rows]
    if extension == ".tsv":  # which has no quotes
        yield from ("\t".join(re.sub("[\t\n\r]", " ", cell) for cell in row) + "\n" for row in rows)
        return
    for row in rows:
        buffer = io.StringIO(newline="")
        csv.writer(buffer).writerow(row)  # whose lines end in CR LF, so that it quotes both
        yield buffer.getvalue().removesuffix("\r\n") + "\n"


def _write_parquet(path, file, rows, kept, keys):
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(path) as source:
        table = source.read()
    for key in keys:
        field = table.schema.field(key)
        table = table.set_column(key, field, pa.array([row[key] for _, row in rows], field.type))
    parquet.write_table(table.take(kept), file)
