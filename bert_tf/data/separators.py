"""What separates the columns of a text table, told by how even its rows are."""

import collections
import csv
import io
import itertools
from collections.abc import Iterator

NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
OF_EXTENSION = {".tsv": "\t", ".csv": ","}
_LOOKED_AT = 1000  # rows whose columns are counted
_EVEN, _UNEVEN = 0.95, 0.8  # share of rows with as many columns as most: a separator that fits, one that does not


def likely_separator(text: str, extension: str) -> str | None:
    """Returns what seems to separate the columns, a key of `NAMES`, where that is not what the extension says.

    Args:
        text: of the file.
        extension: ".tsv" or ".csv".
    """
    own = OF_EXTENSION[extension]
    if _evenness(text, extension, own) >= _UNEVEN:
        return None
    others = {each: _evenness(text, extension, each) for each in NAMES if each != own}
    best = max(others, key=others.get)
    return best if others[best] >= _EVEN else None


def widths(text: str, extension: str, separator: str | None = None) -> Iterator[int]:
    """Yields how many columns each row has, blank ones left out; it ends at what is no CSV.

    Args:
        text, extension: as in `likely_separator`.
        separator: None: what the extension says.
    """
    separator = separator or OF_EXTENSION[extension]
    if separator == "\t" or extension == ".tsv":
        yield from (line.count(separator) + 1 for line in text.split("\n") if line and line != "\r")
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        yield from (len(row) for row in reader if row)
    except csv.Error:
        return


def _evenness(text, extension, separator):
    """Returns the share of rows with as many columns as most, of which there are two at least."""
    counts = collections.Counter(itertools.islice(widths(text, extension, separator), _LOOKED_AT))
    width, rows = max(counts.items(), key=lambda item: item[1], default=(1, 0))
    return rows / counts.total() if width > 1 else 0.0
