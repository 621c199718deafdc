"""Crafted Parquet files: each number of the footer and of the page headers is changed, and each byte after a header.

Parquet's structures are Thrift's compact protocol (apache/thrift, thrift-compact-protocol.md).
"""

import functools
from collections.abc import Callable

_BINARY, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12
_SIZES = {1: 0, 2: 0, 3: 1, 7: 8}  # bytes of values of a fixed size: true, false, byte, double
_EXTREMES = (0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)  # zigzag: also -1, -2^31 and -2^63
_TAIL = 8  # bytes: the footer's length and the mark
_CONTENT = 24  # bytes after a page's header: levels, bit widths and the first values


def crafted_parquet(data: bytes) -> dict[str, Callable[[], bytes]]:
    """Returns {what is wrong: function that makes the file} for a good file, some hundreds."""
    start = len(data) - _TAIL - int.from_bytes(data[-_TAIL:-4], "little")
    found, crafted = _Numbers(data[start:-_TAIL]), {}
    found.struct(0)
    for at, end in found.places:
        for value in _EXTREMES:
            footer = found.data[:at] + _varint(value) + found.data[end:]
            whole = data[:start], footer, len(footer).to_bytes(4, "little"), data[-4:]
            crafted[f"footer {at}: {value}"] = functools.partial(b"".join, whole)
    pages, at = [], 4
    while at < start - 100 and len(pages) < 8:
        header = _Numbers(data[at:start])
        end = at + header.struct(0)
        pages.append((at, end, [(at + a, at + b) for a, b in header.places]))
        at = end + header.values[2]  # the compressed size is the third number
    for begin, end, places in pages:
        for a, b in places:
            for value in (b"\x00", b"\x01", b"\x7f"):
                same = b"\x80" * (b - a - 1) if value == b"\x00" else b"\xff" * (b - a - 1)  # no offset moves
                crafted[f"page {begin}, {a}: {value}"] = functools.partial(_replaced, data, a, same + value)
        for at in range(end, end + _CONTENT):
            for value in (b"\x00", b"\x7f", b"\xff"):
                crafted[f"page {begin}, content {at - end}: {value}"] = functools.partial(_replaced, data, at, value)
    return crafted


def _replaced(data, at, value):
    return data[:at] + value + data[at + len(value) :]


def _varint(value):
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


class _Numbers:
    """The numbers of a structure: `places` are where each begins and ends, `values` the integers without their sign."""

    def __init__(self, data):
        self.data, self.places, self.values = data, [], []

    def struct(self, at):
        """Walks through a structure; returns where it ends."""
        while self.data[at]:
            head, at = self.data[at], at + 1
            if not head >> 4:
                _, at = self._number(at)
            at = self._value(head & 15, at)
        return at + 1

    def _number(self, at):
        begin, value = at, 0
        while True:
            value |= (self.data[at] & 0x7F) << 7 * (at - begin)
            at += 1
            if self.data[at - 1] < 0x80:
                return value, at

    def _value(self, kind, at):
        if kind in _SIZES:
            return at + _SIZES[kind]
        if kind == _STRUCT:
            return self.struct(at)
        if kind in (_LIST, _SET):
            head, at = self.data[at], at + 1
            size = head >> 4
            if size == 15:
                size, at = self._place(at)
            for _ in range(size):
                at = self._value(head & 15, at) if head & 15 not in (1, 2) else at + 1
            return at
        assert kind != _MAP, "Parquet has no maps"
        value, end = self._place(at)
        if kind == _BINARY:
            return end + value
        self.values.append(value >> 1)
        return end

    def _place(self, at):
        value, end = self._number(at)
        self.places.append((at, end))
        return value, end
