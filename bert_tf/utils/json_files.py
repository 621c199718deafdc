"""JSON: read from files as text is, or, of a model from anywhere, within limits; written as every reader takes it."""

import json
import math
import os

from bert_tf.utils.files import read_text

_LARGEST_OBJECT = 8 * 2**20  # bytes of an object or list: the index of 50,000 weights has 5 MB
_DEEPEST = 50  # levels of it
_MOST_CONTAINERS = 1_000_000  # lists and objects, for which Python takes twenty times their text


def json_text(value, **options) -> str:
    """Returns a value as JSON, in which null stands for a number that is not finite.

    Python's own writer puts a bare NaN or Infinity there, which is no JSON: `jq` and every strict reader refuse the
    whole file.

    Args:
        value: of lists, tuples, dicts, texts, numbers, true, false and None.
        options: of `json.dumps`.
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:  # json looks for such numbers faster than we could
        return json.dumps(_with_nulls(value), allow_nan=False, **options)


def _with_nulls(value):
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: str | os.PathLike, kind: str = "JSON"):
    """Returns the value that the file `path` holds, read as `read_text` does.

    Raises:
        ValueError: as `read_text`, or it is no JSON; the message calls it `kind`.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{os.fspath(path)} must be {kind}. Received {text[:60]!r}, which cannot be parsed ({error}); use another "
            "file."
        ) from error


def read_object(path: str | os.PathLike, kind: str, remedy: str, largest: int = _LARGEST_OBJECT) -> dict:
    """Returns the JSON object that a model's file holds; of a file from anywhere, so that nothing in it can do harm.

    Python's reader takes many times the memory of the text, and what is nested deeply ends in a RecursionError, there
    or where the values are compared and printed: both are bounded.

    Args:
        path: the file.
        kind: what it must be, and `remedy`, what to do where it is not: for the message.
        largest: bytes of the file at most.

    Raises:
        ValueError: there is no such file, it is no UTF-8, no JSON object, too large or nested too deeply.
    """
    return _read_bounded(path, kind, remedy, largest, dict)


def read_list(path: str | os.PathLike, kind: str, remedy: str) -> list:
    """Returns the JSON list that a model's file holds; otherwise as `read_object`."""
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
        raise ValueError(f"{path} must be {kind}. Received: {error}; {remedy}.") from error
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
