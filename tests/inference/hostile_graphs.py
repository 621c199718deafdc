"""Crafted graph files of USearch, each with one number that it follows without checking."""

import struct

import numpy as np

_NODE = 4 + 4 * 32  # bytes of level 0 of a node after its key and level: a count, and 32 neighbors
_ABOVE = 4 + 4 * 16  # of each other level


def crafted_graphs(data: bytes) -> dict[str, bytes]:
    """Returns {what is wrong: file} from the bytes of a good file of float32 vectors."""
    rows, columns = struct.unpack_from("<II", data)
    head = 8 + rows * columns
    graph, levels = head + 64, head + 64 + 40
    above = np.frombuffer(data, "<i2", rows, levels).astype(int)
    starts = levels + 2 * rows + np.concatenate([[0], np.cumsum(10 + _NODE + _ABOVE * above)])
    first, high, low = int(starts[0]), int(starts[above.argmax()]), int(above.argmin())
    swapped = [levels + 2 * above.tolist().index(1), levels + 2 * low]
    spots = {
        "rows": (0, "<I", (0, 1, rows - 1, rows + 1, 2**32 - 1)),
        "columns": (4, "<I", (0, 1, 2**31, 2**32 - 1)),
        "magic": (head, "<Q", (0,)),
        "version": (head + 7, "<HHH", ((1, 26, 0), (2, 9, 9), (3, 0, 0))),
        "metric": (head + 13, "<B", (0, ord("b"), ord("h"), 255)),
        "type of vectors": (head + 14, "<B", (0, 1, 10, 11, 23, 255)),
        "type of keys": (head + 15, "<B", (0, 2, 15)),
        "type of slots": (head + 16, "<B", (0, 2, 14)),
        "present": (head + 17, "<Q", (0, rows + 1, 2**64 - 1)),
        "deleted": (head + 25, "<Q", (1, 2**64 - 1)),
        "dimensions": (head + 33, "<Q", (0, 1, 2**20, 2**64 - 1)),
        "multi": (head + 41, "<B", (1, 255)),
        "size": (graph, "<Q", (0, 1, rows + 1, 2**63, 2**64 - 1)),
        "connectivity": (graph + 8, "<Q", (0, 1, 17, 2**62, 2**64 - 1)),
        "connectivity of the base": (graph + 16, "<Q", (0, 1, 31, 33, 2**62, 2**64 - 1)),
        "highest level": (graph + 24, "<Q", (0, 1, 2**15 - 1, 2**64 - 1)),
        "entry": (graph + 32, "<Q", (low, rows, 2**32, 2**64 - 1)),
        "a level": (levels, "<h", (-1, 9, 2**15 - 1, -(2**15))),
        "a key": (first, "<Q", (1, rows, 2**32, 2**63, 2**64 - 1)),
        "the level of a node": (first + 8, "<h", (-1, 9, 2**15 - 1)),
        "neighbors": (first + 10, "<I", (33, 40_000, 2**31, 2**32 - 1)),
        "a neighbor": (first + 14, "<I", (rows, 40_000, 2**31, 2**32 - 1)),
        "neighbors above": (high + 10 + _NODE, "<I", (17, 40_000, 2**32 - 1)),
        "a neighbor above": (high + 14 + _NODE, "<I", (low, rows, 2**32 - 1)),
        "bytes at the end": (len(data), "<B", (0,)),
    }
    crafted = {}
    for name, (at, form, values) in spots.items():
        for value in values:
            packed = struct.pack(form, *(value if isinstance(value, tuple) else (value,)))
            crafted[f"{name}: {value}"] = data[:at] + packed + data[at + len(packed) :]
    exchanged = bytearray(data)
    for at, other in (swapped, swapped[::-1]):  # the sum of the sizes stays the same
        exchanged[at : at + 2] = data[other : other + 2]
    return crafted | {"exchanged levels": bytes(exchanged), "nothing": b"", "half": data[: len(data) // 2]}


def odd_graphs(data: bytes) -> dict[str, bytes]:
    """Returns {what is odd: file} of graphs that are safe to search, although they find little."""
    rows, columns = struct.unpack_from("<II", data)
    levels = 8 + rows * columns + 64 + 40
    above = np.frombuffer(data, "<i2", rows, levels).astype(int)
    starts = levels + 2 * rows + np.concatenate([[0], np.cumsum(10 + _NODE + _ABOVE * above)])[:-1]
    lonely, selfish = bytearray(data), bytearray(data)
    for slot, at in enumerate(starts.tolist()):
        lonely[at + 10 : at + 14] = bytes(4)
        (count,) = struct.unpack_from("<I", data, at + 10)
        selfish[at + 14 : at + 14 + 4 * count] = struct.pack("<I", slot) * count
    vectors = {"NaN": b"\xff\x7f", "infinity": b"\x00\x7c", "zeros": bytes(2)}
    odd = {name: data[:8] + value * (rows * columns // 2) + data[8 + rows * columns :]
           for name, value in vectors.items()}  # fmt: skip
    return odd | {"no neighbors": bytes(lonely), "only themselves": bytes(selfish)}
