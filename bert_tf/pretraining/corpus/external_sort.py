"""External sort: sorts rows by uint64 keys on disk, for data that does not fit into memory.

A run is a directory of rows sorted by key. The rows of all runs whose keys lie between two bounds are read together: to
get all rows in the order of their keys, read one range after the other, each small enough for memory. If the keys are
random numbers, this is a shuffle.

    run 0   keys 1 4 8        range [0, 5)   ->   1 2 4
    run 1   keys 2 5 9        range [5, 10)  ->   5 8 9
"""

import contextlib
import os

import numpy as np

from bert_tf.data import ragged
from bert_tf.data.ragged import Ragged
from bert_tf.utils.array_files import open_array, save_array

KEYS = 1 << 64  # the exclusive upper bound of all keys, which are uint64


def write_sorted(directory: str, keys: np.ndarray, columns: dict):
    """Writes a run: a directory of rows sorted by key.

    Args:
        directory: the run's directory, created if it does not exist.
        keys: uint64 [n], in any order.
        columns: {name: array [n, ...] or Ragged of n rows}.

    Raises:
        OSError: the run cannot be written.
    """
    os.makedirs(directory, exist_ok=True)
    in_order = (keys[1:] >= keys[:-1]).all()
    order = np.argsort(keys, kind="stable")
    save_array(directory, "keys", keys[order])
    for name, column in columns.items():
        column = column if in_order else _rows(column, order)
        if isinstance(column, Ragged):
            save_array(directory, f"{name}.splits", column.splits)
        save_array(directory, name, column.flat if isinstance(column, Ragged) else column)


def read_sorted(directories: list[str], names: list[str], low: int, high: int) -> tuple[np.ndarray, dict]:
    """Returns the rows of all runs with low <= key < high, sorted by key (stable over the runs).

    Args:
        directories: directories of the runs, at least one.
        names: names of the columns.
        low, high: Python integers from 0 to KEYS.

    Returns:
        keys uint64 [n] and {name: array or Ragged}.
    """
    keys, columns, order = read_unsorted(directories, names, low, high)
    return keys[order], {name: _rows(column, order) for name, column in columns.items()}


def read_unsorted(directories: list[str], names: list[str], low: int, high: int) -> tuple[np.ndarray, dict, np.ndarray]:
    """As `read_sorted`, but with unsorted rows; the third value is the order that sorts them, int [n]."""
    spans = [(directory, *_span(directory, low, high)) for directory in directories]
    keys = np.concatenate([_load(directory, "keys", a, b) for directory, a, b in spans])
    columns = {}
    for name in names:
        parts = [_column(directory, name, a, b) for directory, a, b in spans]
        columns[name] = ragged.concatenate_features(parts) if isinstance(parts[0], Ragged) else np.concatenate(parts)
    return keys, columns, np.argsort(keys, kind="stable")


def merge_runs(directories: list[str], names: list[str], target: str, range_bytes: int):
    """Merges runs into one: reading a range of many runs opens all their files, so its time grows with their number.

    Args:
        directories: directories of the runs, in the order in which rows with equal keys are sorted.
        names: names of the columns.
        target: directory of the merged run, created if it does not exist.
        range_bytes: about as much is in memory at a time.

    Raises:
        OSError: the run cannot be written.
    """
    os.makedirs(target, exist_ok=True)
    is_ragged = {name: _is_ragged(directories[0], name) for name in names}
    arrays = ["keys", *names, *(f"{name}.splits" for name in names if is_ragged[name])]
    shapes = {array: [_shape(directory, array) for directory in directories] for array in arrays}
    size = sum(length * dtype.itemsize for several in shapes.values() for length, dtype in several)
    of = max(1, -(-size // range_bytes))
    with contextlib.ExitStack() as stack:
        files = {}
        for array, several in shapes.items():
            spare = len(several) - 1 if array.endswith(".splits") else 0  # each run's splits begin with a 0
            length = sum(length for length, _ in several) - spare
            files[array] = stack.enter_context(open_array(target, array, several[0][1], (length,)))
        ends = dict.fromkeys(names, 0)
        for number in range(of):
            keys, columns = read_sorted(directories, names, *bounds(number, of))
            files["keys"](keys)
            for name, column in columns.items():
                files[name](column.flat if is_ragged[name] else column)
                if is_ragged[name]:
                    files[f"{name}.splits"](column.splits[number > 0 :] + ends[name])
                    ends[name] += column.splits[-1]


def bounds(number: int, of: int) -> tuple[int, int]:
    """Returns the bounds of range `number` if all keys are divided into `of` equal ranges."""
    return KEYS * number // of, KEYS * (number + 1) // of


def find_range(keys: np.ndarray, of: int) -> np.ndarray:
    """Returns the range number of each key, int64 [n], if all keys are divided into `of` equal ranges."""
    lows = np.array([bounds(number, of)[0] for number in range(of)], np.uint64)
    return np.searchsorted(lows, keys, "right") - 1


def _load(directory, name, a, b):
    """Returns values a to b of an array; not by mmap, whose pages of hundreds of files count as memory in use."""
    with open(os.path.join(directory, f"{name}.npy"), "rb") as file:
        np.lib.format.read_magic(file)
        _, _, dtype = np.lib.format.read_array_header_1_0(file)
        file.seek(a * dtype.itemsize, os.SEEK_CUR)
        return np.fromfile(file, dtype, b - a)


def _shape(directory, name):
    """Returns the length and the dtype of an array."""
    with open(os.path.join(directory, f"{name}.npy"), "rb") as file:
        np.lib.format.read_magic(file)
        (length,), _, dtype = np.lib.format.read_array_header_1_0(file)
    return length, dtype


def _is_ragged(directory, name):
    return os.path.exists(os.path.join(directory, f"{name}.splits.npy"))


def _rows(column, order):
    return column.take(order) if isinstance(column, Ragged) else column[order]


def _span(directory, low, high):
    """Returns the half-open range of a run's rows with low <= key < high."""
    keys = np.load(os.path.join(directory, "keys.npy"), mmap_mode="r")  # only briefly, and a few pages of it
    return tuple(int(np.searchsorted(keys, np.uint64(x))) if x < KEYS else len(keys) for x in (low, high))


def _column(directory, name, a, b):
    """Returns rows a to b of a column."""
    if not _is_ragged(directory, name):
        return _load(directory, name, a, b)
    splits = _load(directory, f"{name}.splits", a, b + 1)
    return Ragged(_load(directory, name, splits[0], splits[-1]), splits - splits[0])
