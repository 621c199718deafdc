"""Measures a JSON text before it is read: eighteen megabytes of `[]` would become gigabytes of Python's lists.

Whole pieces are searched at once and no character is looked at by Python, so it takes a tenth of what reading takes.
"""

import re
from collections.abc import Iterator

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.limits import Limits

_PIECE = 2**20  # bytes at a time, so that other threads get their turn in between
_OTHER = bytes(set(range(256)) - set(b'"[]{},'))
_STEP = np.zeros(256, np.int8)  # by how much a character leads deeper
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1
_STARTS = np.zeros(256, bool)  # characters after which a value may come
_STARTS[list(b"[{,")] = True
# Escapes that say nothing about surrogates, up to a thousand at once, or a whole pair; else half of one.
_ESCAPE = re.compile(rb"\\(?:[^u](?:\\[^u]){0,999}|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F]))")
_MAY_BE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def check(body: bytes, limits: Limits):
    """Raises ServingError where a JSON text nests too deep, has too many values or half of a surrogate pair.

    What is no JSON may pass, or fail with any of these: the reader has words for that.
    """
    depth = values = 0
    inside = 0  # whether a piece begins within a string
    for piece in _pieces(body):
        marks = np.frombuffer(piece.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _OTHER), np.uint8)
        if not len(marks):
            continue
        quotes = np.cumsum(marks == ord('"'), dtype=np.int32) + inside
        inside = int(quotes[-1]) & 1
        marks = marks[quotes & 1 == 0]  # a quote that ends a string is among them, and counts for nothing
        levels = np.cumsum(_STEP[marks], dtype=np.int32) + depth
        if len(levels) and levels.max() > limits.max_nesting:
            raise invalid(f"JSON Parse error: Lists and objects may nest {limits.max_nesting} deep and nest deeper")
        depth = int(levels[-1]) if len(levels) else depth
        values += int(_STARTS[marks].sum())
        if values > limits.max_json_values:
            raise invalid(f"JSON Parse error: The document may have {limits.max_json_values} values and has more")
    if _MAY_BE_SURROGATE.search(body):
        _check_surrogates(body)


def _pieces(body) -> Iterator[bytes]:
    """Yields the body in pieces that end in the middle of no escape."""
    start = 0
    while start < len(body):
        piece = body[start : start + _PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece += body[start + _PIECE : start + _PIECE + 1]
        yield piece
        start += len(piece)


def _check_surrogates(body):
    for match in _ESCAPE.finditer(body):
        if match[1]:
            raise invalid(f"JSON Parse error: The surrogate pair in string is invalid. at offset: {match.start()}")
