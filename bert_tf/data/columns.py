"""Types of a table's columns: a text, one name, several names, or a number."""

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeGuard

from bert_tf.data.list_cells import as_list, is_like_list, is_one_hot, parse_list

SPAN_KEYS = ("entities", "label", "labels", "spans")  # of the entities of a text in .jsonl; the first that a file has
TITLE_COLUMN = "title"  # a column with this name precedes the text of a document, as in BEIR's files
_EXACT = 2.0**53  # above it, floats cannot represent all integers
_REAL: tuple[type[Any], ...] = (numbers.Real, Decimal)


@dataclasses.dataclass(frozen=True)
class ColumnType:
    """The type of a column's cells.

    Attributes:
        must: the requirement, as in error messages.
        read: maps a value of the file to its parsed value, or to None if it violates `must`.
    """

    must: str
    read: Callable[[Any], Any]


def several(separator: str) -> ColumnType:
    """Returns the type of cells with several names, parsed as a tuple without duplicates; empty cells have none.

    Args:
        separator: separator of the names in a field; ignored for lists in .jsonl or .parquet.

    Raises:
        ValueError: the separator is empty.
    """
    if not separator:
        raise ValueError("`label_separator` must not be empty. Set it to the text that separates two labels.")
    must = (
        f"labels must be names separated by {separator!r} (set by `label_separator`), or a list of names; 0s and 1s "
        "must be in columns (`label_columns`)"
    )
    return ColumnType(must, lambda value: _several(value, separator))


def number(low: float = -math.inf, high: float = math.inf) -> ColumnType:
    """Returns a column type for finite numbers from `low` to `high`, parsed as floats."""
    scale = f" from {low:g} to {high:g}" if math.isfinite(high - low) else ""
    return ColumnType(f"the score must be a number{scale}", lambda value: _number(value, low, high))


def is_whole_number(value: Any) -> TypeGuard[float]:
    """Returns whether a value is a float with an integer value, such as 1.0."""
    return isinstance(value, _REAL) and not isinstance(value, int) and abs(value) < _EXACT \
        and value == int(value)  # fmt: skip


def is_missing_cell(value: Any) -> bool:
    """Returns whether a cell is null or NaN (missing values in tables)."""
    return value is None or value != value


def without_surrogates(text: str) -> str:
    """Removes lone surrogates, such as "\\ud83d", which are legal JSON but not Unicode, like invalid bytes."""
    return text.encode("utf-8", "ignore").decode("utf-8")


def join_texts(texts: Iterable[str]) -> str:
    """Joins the texts of a document, such as its title and its text, by spaces; empty ones are left out."""
    return " ".join(filter(None, texts))


def joined_type(name: str | int) -> ColumnType:
    """Returns the type of a column, by name or index, whose texts `join_texts` joins: only a title may be null."""
    return TITLE if name == TITLE_COLUMN else TEXT


def _text(value):
    return value if isinstance(value, str) else None


def _title(value):
    return "" if is_missing_cell(value) else _text(value)


def _name(value):
    """Returns a label or id as text (1 -> "1", 1.0 -> "1", True -> "true"), or None if it is not a name.

    Equal numbers are the same name. Texts are unchanged: the strings "1.0" and "1" are different names.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, numbers.Number):
        if value != value:  # NaN, a missing value in tables
            return None
        return str(int(value) if is_whole_number(value) else value)
    one_line = isinstance(value, str) and not {"\n", "\r"} & set(value)  # labels.txt has one label per line
    return value if one_line and value.strip() else None


def _label(value):
    """Returns the name of a label: of a text that is a list of one name, as of pandas, that name."""
    items = parse_list(value) if isinstance(value, str) else None
    if not items or not any(isinstance(item, str) for item in items):
        return _name(value)
    return _name(items[0]) if len(items) == 1 else None


def _several(value, separator):
    value = as_list(value)
    if isinstance(value, str):
        if is_like_list(value):
            return None
        value = [part.strip() for part in value.split(separator)] if value.strip() else []
    elif not isinstance(value, list):
        value = [value]
    if is_one_hot(value):
        return None
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


def _yes_or_no(value):
    if is_missing_cell(value):
        return False
    return _YES_OR_NO.get(str(value).strip().lower())


_YES_OR_NO = {
    "": False, "0": False, "0.0": False, "false": False, "no": False, "1": True, "1.0": True, "true": True, "yes": True,
}  # fmt: skip
YES_OR_NO = ColumnType("a label's column must contain 0, 1, true, false, yes or no, or be empty", _yes_or_no)
TEXT = ColumnType("a text must be a string", _text)
TITLE = ColumnType("a title must be a string or null", _title)
NAME = ColumnType("a label or id must be a number or one line of text", _name)
LABEL = ColumnType(
    "a label must be a number or one line of text; several labels require `problem_type=multi_label`", _label
)
