"""Writes arrays to .npy files in parts and durably, and maps untrusted ones; errors name the file, NumPy's do not."""

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterator

import numpy as np

from bert_tf.utils.files import atomic_open

_START = b"\x93NUMPY\x01\x00"  # of a file as `open_array` and np.save write it; the header's length in 2 bytes follows
_SHAPE = rb"\((\d{1,18}),(?: (\d{1,18}))?\)"
_HEADER = re.compile(rb"\{'descr': '([<|]\w\d)', 'fortran_order': False, 'shape': " + _SHAPE + rb", \} *\n")
_LONGEST_HEADER = 1000  # bytes


@contextlib.contextmanager
def open_array(folder: str, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> Iterator[Callable]:
    """Yields a function that appends rows to a new array, NAME.npy, which is created when all rows are written.

    A memory map would be simpler, but a full disk would kill the process.

    Args:
        folder, name: where.
        dtype, shape: of the whole array.

    Raises:
        OSError: the file cannot be written.
    """
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with atomic_open(os.path.join(folder, f"{name}.npy"), "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        yield lambda rows: file.write(np.ascontiguousarray(rows))  # the errors of `write_array` name no file


def save_array(folder: str, name: str, array: np.ndarray):
    """Writes an array to NAME.npy in a directory; raises as `open_array`."""
    with open_array(folder, name, array.dtype, array.shape) as write:
        write(array)


def map_array(folder: str, name: str, dtype: str, axes: int = 1) -> np.ndarray:
    """Maps the array in NAME.npy, as `open_array` writes it, into memory, read-only.

    Unlike np.load, it is safe for untrusted files: np.load raises many kinds of errors, and also opens archives.

    Args:
        folder, name: where.
        dtype: the type that it must have, such as "float32".
        axes: the number of axes that it must have, 1 or 2.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or has another type or number of axes.
    """
    path = os.path.join(folder, f"{name}.npy")
    with open(path, "rb") as file:
        start = file.read(len(_START) + 2)
        size = int.from_bytes(start[len(_START) :], "little")
        header = _HEADER.fullmatch(file.read(min(size, _LONGEST_HEADER)))
    offset = len(_START) + 2 + size
    if not start.startswith(_START) or header is None:
        raise ValueError(f"{path} is not an array as bert_tf writes it")
    kind, *sizes = header.groups()
    shape = tuple(int(size) for size in sizes if size is not None)
    if kind.decode() != np.dtype(dtype).str or len(shape) != axes:
        raise ValueError(f"{path} has an array of type {kind.decode()} and shape {shape} instead of {dtype}")
    if os.path.getsize(path) != offset + math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError(f"{path} has {os.path.getsize(path)} bytes, but an array of type {dtype} and shape {shape}")
    if not math.prod(shape):  # nothing can be mapped
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape)
