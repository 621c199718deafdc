"""Checks a graph of USearch before its C++ code maps the file: a damaged one would end the process.

USearch trusts the contents of a file without checking them. This module therefore compares all numbers with the
segment, in one pass over arrays. The layout, little-endian (unum-cloud/usearch, index_dense.hpp and index.hpp):

    uint32 rows, uint32 columns         then the vectors, uint8 [rows, columns]
    64 bytes                            `_HEAD`, padded
    40 bytes                            `_GRAPH`
    int16 [rows]                        the highest level of each node
    nodes                               uint64 key, int16 level, then for each level from 0 on: uint32 count, and room
                                        for as many uint32 neighbors as the graph's connectivity
"""

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from usearch.index import Index

_BLOCK = 2**24  # bytes of nodes checked at a time
_HEAD_SIZE = 64
_HEAD = np.dtype(
    [("magic", "S7"), ("version", "<u2", 3), ("metric", "u1"), ("scalar", "u1"), ("key", "u1"), ("slot", "u1"),
     ("present", "<u8"), ("deleted", "<u8"), ("dimensions", "<u8"), ("multi", "u1")]
)  # fmt: skip
_GRAPH = np.dtype([(name, "<u8") for name in ("size", "connectivity", "base", "max_level", "entry")])
_OLDEST, _NEXT = [2, 26], [3]  # versions of USearch; it reads the numbers of types in older heads differently
_MOST_NEIGHBORS = 2**16  # of a node on one level, so that sizes in bytes cannot overflow; USearch's default is 32
_BITS = {"F16": 16, "I8": 8, "B1": 1}  # of a dimension


def check_graph_file(path: str, rows: int, graph: "Index"):
    """Raises ValueError if USearch cannot read a file safely, or if it is not the graph of a segment.

    Args:
        path: the file.
        rows: number of vectors in it, whose keys are 0, 1, 2, ... in any order.
        graph: an empty graph of USearch with the segment's width, metric and type.
    """
    if not os.path.isfile(path):
        raise ValueError("it is not a regular file")
    if not os.path.getsize(path):
        raise ValueError("it is empty")
    data = np.memmap(path, np.uint8, "r")
    at = _check_head(data, rows, graph)
    said, at = _structure(data, _GRAPH, at), at + _GRAPH.itemsize
    if said["size"] != rows or not 1 <= said["connectivity"] <= said["base"] <= _MOST_NEIGHBORS:
        raise ValueError(f"a graph of {said['size']} nodes with {said['connectivity']} and {said['base']} neighbors")
    levels, at = _take(data, at, 2 * rows).view("<i2"), at + 2 * rows
    if levels.min() < 0 or said["entry"] >= rows or not levels[said["entry"]] == said["max_level"] == levels.max():
        raise ValueError(
            f"node {said['entry']} on level {said['max_level']} as its start, and levels from {levels.min()} to "
            f"{levels.max()}"
        )
    nodes = [_node(level, said) for level in (0, 1)]
    sizes = nodes[0].itemsize + (nodes[1].itemsize - nodes[0].itemsize) * levels.astype(np.int64)
    ends = np.cumsum(sizes)
    if at + int(ends[-1]) != len(data):
        raise ValueError(f"{len(data)} bytes instead of {at + int(ends[-1])}")
    _check_nodes(data[at:], levels, ends - sizes, said)


def _take(data, at, size):
    if at + size > len(data):
        raise ValueError("it is truncated")
    return data[at : at + size]


def _structure(data, dtype, at):
    [record] = _take(data, at, dtype.itemsize).view(dtype)
    return {name: record[name].tolist() for name in dtype.names}


def _check_head(data, rows, graph):
    """Checks the vectors' shape and the head after them; returns the offset of what follows."""
    from usearch.index import ScalarKind

    shape, columns = _take(data, 0, 8).view("<u4").tolist(), graph.ndim * _BITS[graph.dtype.name] // 8
    if shape != [rows, columns]:
        raise ValueError(f"vectors of shape {shape} instead of {[rows, columns]}")
    at = 8 + rows * columns
    head = _structure(data, _HEAD, at)
    expected = {"magic": b"usearch", "metric": graph.metric_kind.value, "scalar": graph.dtype.value}
    expected |= {"key": ScalarKind.U64.value, "slot": ScalarKind.U32.value, "multi": 0}
    expected |= {"present": rows, "deleted": 0, "dimensions": graph.ndim}
    if differ := {name: head[name] for name, value in expected.items() if head[name] != value}:
        raise ValueError(f"a head with {differ}")
    if not _OLDEST <= head["version"] < _NEXT:
        raise ValueError(f"it was written by USearch {'.'.join(map(str, head['version']))}")
    return at + _HEAD_SIZE


def _node(level, said):
    """Returns the dtype of a node whose highest level is `level`."""
    above = np.dtype([("count", "<u4"), ("slots", "<u4", said["connectivity"])])
    base = [("count", "<u4"), ("slots", "<u4", said["base"])]
    return np.dtype([("key", "<u8"), ("level", "<i2"), *base, ("above", above, level)])


def _check_nodes(data, levels, starts, said):
    """Checks keys and neighbors of all nodes, those of one level at a time because their size is the same."""
    seen = np.zeros(len(levels), bool)
    for level in np.unique(levels).tolist():
        dtype = _node(level, said)
        windows, alike = np.lib.stride_tricks.sliding_window_view(data, dtype.itemsize), starts[levels == level]
        step = max(1, _BLOCK // dtype.itemsize)
        for start in range(0, len(alike), step):
            nodes = windows[alike[start : start + step]].view(dtype)[:, 0]
            if (nodes["key"] >= len(levels)).any() or (nodes["level"] != level).any():
                raise ValueError("a node whose key or level is wrong")
            seen[nodes["key"]] = True
            _check_neighbors(nodes, levels, 0)
            for above in range(level):
                _check_neighbors(nodes["above"][:, above], levels, above + 1)
    if not seen.all():
        raise ValueError("nodes with the same key")


def _check_neighbors(lists, levels, level):
    """Checks that lists of neighbors on one level are no longer than their room, and that these nodes exist."""
    counts, slots = lists["count"], lists["slots"]
    if counts.max() > slots.shape[1]:
        raise ValueError(f"a node with {counts.max()} neighbors in a list for {slots.shape[1]}")
    slots = slots[np.arange(slots.shape[1]) < counts[:, None]]
    if slots.size and (slots.max() >= len(levels) or levels[slots].min() < level):
        raise ValueError(f"neighbors that are not on level {level}")
