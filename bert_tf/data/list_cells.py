"""Lists in cells of text: JSON's, Python's as pandas writes them, and numpy's; and the separator of names in a cell."""

import ast
import json
import re
from collections.abc import Collection
from typing import Any

_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_ARRAY = re.compile(r"array\((\[.*\])(?:, dtype=[^()]*)?\)", re.DOTALL)
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMPY_TEXTS = re.compile(rf"\[\s*(?:{_QUOTED})(?:\s+(?:{_QUOTED}))*\s*\]")
_NUMPY_NUMBERS = re.compile(r"\[\s*[-+.\de]+(?:\s+[-+.\de]+)*\s*\]")
_IN_BRACKETS, _OF_LISTS = re.compile(r"\[[^\[\]]*\]"), re.compile(r"[,;|'\"]|\.\.\.")
_SEPARATORS = ("|", ";", ",", "/")  # of names in a cell, the least ambiguous first


def parse_list(text: str) -> list[Any] | None:
    """Returns the items of a text that is a list, tuple, set or array in JSON, Python or numpy; None if it is not one.

    ["film", "music"], ['film', 'music'], ('film', 'music'), ['film' 'music'] and [] are lists; [film] is none, because
    brackets may be part of a name.
    """
    text = text.strip()
    if match := _ARRAY.fullmatch(text):
        text = match[1]
    if text == "set()":
        return []
    if len(text) < 2 or _BRACKETS.get(text[0]) != text[-1]:
        return None
    if _NUMPY_TEXTS.fullmatch(text):  # before Python, to which 'a' 'b' are one text
        return [ast.literal_eval(each) for each in re.findall(_QUOTED, text)]
    if _NUMPY_NUMBERS.fullmatch(text):
        text = f"[{','.join(text[1:-1].split())}]"
    for parse in (json.loads, ast.literal_eval):
        try:
            items = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(items, list | tuple):
            return list(items)
        return sorted(items, key=str) if isinstance(items, set) else None
    return None


def as_list(value: Any) -> Any:
    """Returns the items of a text that is a list, as a table with lists has it in .csv; other values are unchanged."""
    items = parse_list(value) if isinstance(value, str) else None
    return value if items is None else items


def is_one_hot(items: Collection[Any]) -> bool:
    """Returns whether a list contains a 0 or 1 for each of several labels, rather than different names."""
    are_numbers = all(isinstance(each, int | float) and each in (0, 1) for each in items)
    return are_numbers and len(items) > len(set(map(str, items)))


def is_like_list(text: str) -> bool:
    """Returns whether a text that `parse_list` cannot read seems to be a list all the same, such as [film, music]."""
    text = text.strip()
    return bool(_IN_BRACKETS.fullmatch(text) and _OF_LISTS.search(text))


def find_separator(names: Collection[str], own: str | None = None) -> str | None:
    """Returns the probable separator of several names in each of some cells, or None.

    Splitting at it gives fewer distinct names than there are distinct cells, as in "film", "music" and "film|music".

    Args:
        names: the distinct cells.
        own: the separator that they were separated by already.
    """
    for separator in _SEPARATORS:
        if separator != own and any(separator in name for name in names):
            parts = {part.strip() for name in names for part in name.split(separator)}
            if "" not in parts and len(parts) < len(set(names)):
                return separator
    return None
