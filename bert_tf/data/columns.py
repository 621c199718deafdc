"""Types of a table's columns: a text, one name, several names, or a number."""

import dataclasses
import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from typing import Any

_EXACT = 2.0**53  # beyond it floats have no ones


@dataclasses.dataclass(frozen=True)
class ColumnType:
    """One kind of cell.

    Attributes:
        must: what must hold, as an error says it.
        read: a value of the file -> what is kept of it, or None where `must` does not hold.
    """

    must: str
    read: Callable[[Any], Any]


def several(separator: str) -> ColumnType:
    """Returns the kind that is kept as a tuple of names, each once; an empty field and an empty list hold none.

    Args:
        separator: what separates the names of a field; a list of .jsonl or .parquet needs none.

    Raises:
        ValueError: the separator is empty.
    """
    if not separator:
        raise ValueError("`label_separator` must not be empty. Set it to the text that separates two labels.")
    must = f"labels must be names separated by {separator!r}, or a list of names in .jsonl and .parquet files"
    return ColumnType(must, lambda value: _several(value, separator))


def number(low: float = -math.inf, high: float = math.inf) -> ColumnType:
    """Returns the kind that is kept as a float from `low` to `high`, not nan and not infinite."""
    scale = f" from {low:g} to {high:g}" if math.isfinite(high - low) else ""
    return ColumnType(f"the score must be a number{scale}", lambda value: _number(value, low, high))


def is_whole_number(value: Any) -> bool:
    """Returns whether a value is a number without a fraction that is written with one, such as 1.0."""
    return isinstance(value, numbers.Real | Decimal) and not isinstance(value, int) and abs(value) < _EXACT \
        and value == int(value)  # fmt: skip


def is_missing_cell(value: Any) -> bool:
    """Returns whether a cell holds null, or NaN, as tables write what is missing."""
    return value is None or value != value


def without_surrogates(text: str) -> str:
    """Returns a text without half emojis, such as "\\ud83d": legal JSON but no Unicode; they go as invalid bytes do."""
    return text.encode("utf-8", "ignore").decode("utf-8")


def _text(value):
    return value if isinstance(value, str) else None


def _name(value):
    """Returns a label or id as text (1 -> "1", 1.0 -> "1", True -> "true"), or None for what names nothing.

    Numbers that are equal are one name. A text stays as it is: "1.0" and "1" that are no numbers in the file are two.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, numbers.Number):
        if value != value:  # NaN, as tables write what is missing
            return None
        return str(int(value) if is_whole_number(value) else value)
    one_line = isinstance(value, str) and not {"\n", "\r"} & set(value)  # labels.txt holds one a line
    return value if one_line and value.strip() else None


def _several(value, separator):
    if isinstance(value, str):
        value = [part.strip() for part in value.split(separator)] if value.strip() else []
    elif not isinstance(value, list):
        value = [value]
    names = tuple(dict.fromkeys(_name(part) for part in value))
    return None if None in names else names


def _number(value, low, high):
    if isinstance(value, bool) or not isinstance(value, str | numbers.Real) or "_" in str(value):
        return None  # float() would take "1_000"
    try:
        score = float(value)
    except ValueError:
        return None
    return score if math.isfinite(score) and low <= score <= high else None


TEXT = ColumnType("a text must be a string", _text)
NAME = ColumnType("a label or id must be a number or one line of text", _name)
