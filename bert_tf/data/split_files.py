"""Files of a split: the rows of a table in several files of the same format, byte for byte."""

import codecs
import contextlib
import gzip
import os
from collections.abc import Iterator, Sequence

import numpy as np

from bert_tf.data.dialect import extension_of
from bert_tf.utils import files

_BLANK = b" \t\r\n"


def write_split_files(path: str, begins: Sequence[int], parts: np.ndarray, outputs: Sequence[str]):
    """Writes each row of a table to the file of its part, in the table's order; writes all files or none.

    Rows keep their bytes: quotes, line breaks in fields, and bytes that are not UTF-8. The header and a byte-order mark
    are repeated. A line end is added to the last row if missing. For Parquet, the values and the schema are kept.

    Args:
        path: the table; if it is a .gz file, the outputs are compressed as well.
        begins: the 1-based line on which each row begins.
        parts: int [n], the index in `outputs` of each row's file.
        outputs: paths that do not exist.

    Raises:
        OSError: a file cannot be written.
    """
    is_packed = path.lower().endswith(".gz")
    with _new_files(outputs) as opened:
        if extension_of(path) == ".parquet":
            _write_parquet(path, parts, opened)
            return
        with contextlib.ExitStack() as stack:
            if is_packed:  # without name and time, so that the same rows give the same bytes
                packed = (gzip.GzipFile("", "wb", fileobj=file, mtime=0) for file in opened)
                opened = [stack.enter_context(file) for file in packed]
            _write_rows(_read_blocks(path, begins), parts, opened)


@contextlib.contextmanager
def _new_files(paths):
    """Opens files that appear when the block succeeds; if one fails, all are removed."""
    folder = os.path.dirname(paths[0])
    is_new = not os.path.isdir(folder)
    os.makedirs(folder, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(files.atomic_open(path, "wb")) for path in paths]
    except BaseException:
        for path in filter(os.path.exists, paths):  # none of them existed before
            os.remove(path)
        if is_new:
            os.rmdir(folder)
        raise


def _write_rows(blocks: Iterator[bytes], parts, opened):
    head, first = next(blocks), next(blocks)
    if first.startswith(codecs.BOM_UTF8):  # there is no header with it
        head, first = codecs.BOM_UTF8, first.removeprefix(codecs.BOM_UTF8)
    end = b"\r\n" if (head or first).endswith(b"\r\n") else b"\n"
    for file in opened:
        file.write(head)
    _write_row(opened[parts[0]], first, end)
    for part, row in zip(parts[1:], blocks, strict=True):
        _write_row(opened[part], row, end)


def _write_row(file, row, end):
    file.write(row if row.endswith(b"\n") else row + end)


def _read_blocks(path, begins) -> Iterator[bytes]:
    """Yields the lines before the first row, then those of each row, without blank lines at the end."""
    block, rest = [], iter(begins)
    begin = next(rest)
    for line_number, line in enumerate(files.read_byte_lines(path), 1):
        if line_number == begin:
            yield b"".join(block)
            block, begin = [], next(rest, None)
        block.append(line)
    while len(block) > 1 and not block[-1].strip(_BLANK):
        block.pop()
    yield b"".join(block)


def _write_parquet(path, parts, opened):
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        table = file.read()
    for part, output in enumerate(opened):
        parquet.write_table(table.take(np.flatnonzero(parts == part)), output)
