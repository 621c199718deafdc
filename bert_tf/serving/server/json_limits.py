"""Limits of a JSON text, measured before parsing: eighteen megabytes of `[]` would become gigabytes of Python lists.

Whole chunks are searched with NumPy instead of single characters in Python, so it takes a tenth of the parsing time.
"""

import re
from collections.abc import Iterator

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.limits import Limits

_CHUNK = 2**20  # bytes at a time, so that other threads get their turn in between
_OTHER = bytes(set(range(256)) - set(b'"[]{},'))
_STEP = np.zeros(256, np.int8)  # change of depth by a character
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1
_STARTS = np.zeros(256, bool)  # characters that may precede a value
_STARTS[list(b"[{,")] = True
# Escapes without surrogates, up to a thousand at once, or a whole pair; otherwise, half of one.
_ESCAPE = re.compile(rb"\\(?:[^u](?:\\[^u]){0,999}|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F]))")
_MAY_BE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def check_json(body: bytes, limits: Limits):
    """Raises ServingError if a JSON text is nested too deeply, has too many values or half of a surrogate pair.

    Invalid JSON may pass or fail with any of these, because the parser reports it.
    """
    is_small = len(body) <= limits.max_json_values and body.count(b"[") + body.count(b"{") <= limits.max_nesting
    if not is_small:
        _check_marks(body, limits)
    if _MAY_BE_SURROGATE.search(body):
        for match in _ESCAPE.finditer(body):
            if match[1]:
                raise invalid(f"JSON Parse error: The surrogate pair in string is invalid. at offset: {match.start()}")


def _check_marks(body, limits):
    """Raises ServingError as `check_json`, for all but half of a surrogate pair."""
    depth = values = 0
    inside = 0  # whether a chunk starts inside a string
    for chunk in _chunks(body):
        marks = np.frombuffer(chunk.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _OTHER), np.uint8)
        if not len(marks):
            continue
        quotes = np.cumsum(marks == ord('"'), dtype=np.int32) + inside
        inside = int(quotes[-1]) & 1
        marks = marks[quotes & 1 == 0]  # includes quotes that end a string, which do not count
        levels = np.cumsum(_STEP[marks], dtype=np.int32) + depth
        if len(levels) and levels.max() > limits.max_nesting:
            raise invalid(f"JSON Parse error: Lists and objects may nest at most {limits.max_nesting} deep")
        depth = int(levels[-1]) if len(levels) else depth
        values += int(_STARTS[marks].sum())
        if values > limits.max_json_values:
            most = limits.max_json_values
            raise invalid(f"JSON Parse error: The document may have {most} values and has more; send it in parts")


def _chunks(body) -> Iterator[bytes]:
    """Yields the body in chunks that do not end in the middle of an escape."""
    start = 0
    while start < len(body):
        chunk = body[start : start + _CHUNK]
        if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2:
            chunk += body[start + _CHUNK : start + _CHUNK + 1]
        yield chunk
        start += len(chunk)
