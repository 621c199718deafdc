"""Rows of a Parquet file."""

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

_BATCH = 1024  # rows decoded at a time
_BUFFER = 1 << 20  # bytes read at a time


def parquet_rows(path: str, find: Callable[[list[str]], list[int]]) -> Iterator[tuple[int, list[Any]]]:
    """Yields (1-based row, values of the columns asked for) for each row, without ever holding more than a few.

    Args:
        path: the file; only the columns asked for are read.
        find: names of all columns -> the places of those to read.

    Raises:
        ValueError: it is no whole Parquet file, or a column is not there.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if not os.path.exists(path):
        raise ValueError(f"{path} must be a file. Received a path where nothing is; check its spelling.")
    try:
        with parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
            names = file.schema_arrow.names
            headings = [names[place] for place in find(names)]
            numbers = itertools.count(1)
            for batch in file.iter_batches(_BATCH, columns=list(dict.fromkeys(headings))):
                columns = [_plain_values(batch.column(name)) for name in headings]
                yield from ((next(numbers), list(values)) for values in zip(*columns, strict=True))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())  # Arrow's own messages may run over several lines
        raise ValueError(f"{path} must be a whole Parquet file. Received: {reason}; write the file again.") from error


def _plain_values(column):
    """Returns a Parquet column as Python values; 32-bit numbers keep their short form (0.1, not 0.10000000149)."""
    import numpy as np
    import pyarrow as pa

    values = column.to_pylist()
    if pa.types.is_float32(column.type):
        return [None if value is None else float(str(np.float32(value))) for value in values]
    return values
