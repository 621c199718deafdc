"""Rows of a Parquet file, read a few at a time."""

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

_BATCH = 1024  # rows decoded at a time
_BUFFER = 1 << 20  # bytes read at a time


def parquet_rows(path: str, find: Callable[[list[str]], list[int]]) -> Iterator[tuple[int, list[Any]]]:
    """Yields (1-based row, values of the requested columns) for each row, holding only a few rows in memory.

    Args:
        path: the file; only the columns asked for are read.
        find: names of all columns -> the positions of those to read.

    Raises:
        ValueError: the file is not a complete Parquet file, or a column is missing.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if not os.path.exists(path):
        raise ValueError(f"File not found: {path}. Check its spelling.")
    try:
        with parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
            names = file.schema_arrow.names
            wanted = find(names)
            headings = {names[index] for index in wanted}
            there = [index for index, name in enumerate(names) if name in headings]  # several may have one name
            numbers = itertools.count(1)
            for batch in file.iter_batches(_BATCH, columns=[names[index] for index in there]):
                columns = [_plain_values(batch.column(there.index(index))) for index in wanted]
                yield from ((next(numbers), list(values)) for values in zip(*columns, strict=True))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())  # Arrow's messages may have several lines
        raise ValueError(f"{path} is not a complete Parquet file: {reason}. Write the file again.") from error


def _plain_values(column):
    """Returns a Parquet column as Python values; 32-bit numbers keep their short form (0.1, not 0.10000000149)."""
    import numpy as np
    import pyarrow as pa

    values = column.to_pylist()
    if pa.types.is_float32(column.type):
        return [None if value is None else float(str(np.float32(value))) for value in values]
    return values
