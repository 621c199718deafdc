"""Writes arrays to .npy files: in parts, durably, and with errors that name the file, which np.save's do not."""

import contextlib
import os
from collections.abc import Callable, Iterator

import numpy as np

from bert_tf.utils.files import atomic_open


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
