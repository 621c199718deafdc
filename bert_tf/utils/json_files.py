"""Reads JSON files, within limits for untrusted model files, and writes strictly valid JSON."""

import codecs
import json
import math
import os
import sys

from bert_tf.utils.files import read_text

_LARGEST_OBJECT = 8 * 2**20  # bytes of an object or list: the index of 50,000 weights has 5 MB
_DEEPEST = 50  # levels of it
_MOST_CONTAINERS = 1_000_000  # lists and objects, which take Python twenty times the memory of their text


def json_text(value, **options) -> str:
    """Returns a value as JSON, with null for numbers that are not finite.

    Python's own writer emits bare NaN or Infinity, which is not valid JSON: `jq` and other strict readers reject the
    whole file.

    Args:
        value: made of lists, tuples, dicts, texts, numbers, true, false and None.
        options: options of `json.dumps`.
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:  # json looks for such numbers faster than we could
        return json.dumps(_with_nulls(value), allow_nan=False, **options)


def printable_json(value, **options) -> str:
    """Returns a value as `json_text` does, for standard output: in ASCII, unless that is UTF-8.

    In another encoding some characters would be bytes of it and the others escapes, which no reader expects.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"  # None: in memory
    return json_text(value, ensure_ascii=codecs.lookup(encoding).name != "utf-8", **options)


def _with_nulls(value):
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: str | os.PathLike, kind: str = "JSON"):
    """Reads the JSON value in a file, decoded like `read_text`.

    Raises:
        ValueError: as `read_text`, or the file is not JSON; the message calls it `kind`.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{os.fspath(path)} must be {kind}; got {text[:60]!r}, which cannot be parsed ({error})."
        ) from error


def read_object(path: str | os.PathLike, kind: str, remedy: str, largest: int = _LARGEST_OBJECT) -> dict:
    """Reads the JSON object in a model file, safely for untrusted files.

    Python's reader takes many times the memory of the text, and deeply nested values cause a RecursionError, there or
    when they are compared and printed: both are bounded.

    Args:
        path: path of the file.
        kind: the expected content, for the message.
        remedy: advice that ends the message.
        largest: maximum size of the file in bytes.

    Raises:
        ValueError: the file is missing, not UTF-8, not a JSON object, too large or nested too deeply.
    """
    return _read_bounded(path, kind, remedy, largest, dict)


def read_list(path: str | os.PathLike, kind: str, remedy: str) -> list:
    """Reads the JSON list in a model file; otherwise like `read_object`."""
    return _read_bounded(path, kind, remedy, _LARGEST_OBJECT, list)


def _read_bounded(path, kind, remedy, largest, expected):
    path = os.fspath(path)
    try:
        if not os.path.isfile(path):
            raise ValueError("a directory" if os.path.isdir(path) else "no file")
        if os.path.getsize(path) > largest:
            raise ValueError(f"{os.path.getsize(path)} bytes, which is too long")
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        if text.count("[") + text.count("{") > _MOST_CONTAINERS:
            raise ValueError(f"more than {_MOST_CONTAINERS:,} lists and objects")
        value = json.loads(text)
        _check_value(value, expected)
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{path} must be {kind}; got {error}; {remedy}.") from error
    return value


def _check_value(value, expected):
    if not isinstance(value, expected):
        name = "an object" if expected is dict else "a list"
        raise ValueError(f"a {type(value).__name__} in place of {name}")
    level = [value]
    for _ in range(_DEEPEST):
        level = [item for each in level if isinstance(each, (dict, list))
                 for item in (each.values() if isinstance(each, dict) else each)]  # fmt: skip
    if level:
        raise ValueError(f"JSON that is nested more than {_DEEPEST} levels deep")
