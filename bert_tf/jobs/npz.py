"""Answers as NumPy's .npz: an array for each column; of rows of unequal lengths, all values and where each row ends."""

import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.files import atomic_open

_SPLITS = "_splits"


class Npz:
    """One uncompressed archive. A `Ragged` column "x" is "x" and "x_splits"."""

    def write(self, path, columns):
        arrays = {}
        for name, values in columns.items():
            ragged = isinstance(values, Ragged)
            arrays[name] = _array(name, values.flat if ragged else values)
            arrays |= {name + _SPLITS: values.splits} if ragged else {}
        with atomic_open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with _member(archive, name) as member:
                    np.lib.format.write_array(member, array)

    def join(self, path, slices):
        with np.load(slices[0].path) as part:
            names = part.files
        with atomic_open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name in names:
                ragged = name + _SPLITS in names
                if ragged or not (name.endswith(_SPLITS) and name.removesuffix(_SPLITS) in names):
                    self._join_column(archive, name, slices, ragged)

    def _join_column(self, archive, name, slices, ragged):
        if not ragged:
            _write(archive, name, slices, lambda each: slice(each.first, each.last))
            return
        lengths = np.concatenate([np.diff(_splits(each, name)) for each in slices])
        _write(archive, name, slices, lambda each: slice(*_splits(each, name)[[0, -1]].tolist()))
        splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        with _member(archive, name + _SPLITS) as member:
            np.lib.format.write_array(member, splits)


def _array(name, values):
    """Returns a column as an array that is no array of Python's objects, which an archive would have to pickle."""
    try:
        array = np.asarray(values.tolist() if isinstance(values, np.ndarray) and values.dtype.hasobject else values)
    except ValueError:  # lists of unequal lengths
        array = np.empty(0, object)
    if array.dtype.hasobject:
        raise ValueError(
            f"`output_file` must end in .jsonl or .parquet for this model. Received .npz, which holds arrays, and "
            f"{name!r} is none."
        )
    return array


def _splits(each, name):
    """Returns the splits of the rows of a slice, int64 [rows + 1]."""
    with np.load(each.path) as part:
        return part[name + _SPLITS][each.first : each.last + 1]


def _write(archive, name, slices, rows_of):
    """Streams one array: its parts are read twice, once for what they are like."""
    kinds, size, shapes = [], 0, set()
    for _, dtype, shape in _chunks(name, slices, rows_of):
        kinds.append(dtype)
        size += shape[0]
        shapes.add(shape[1:])
    assert len(shapes) == 1, (name, shapes)
    dtype = np.result_type(*set(kinds))  # texts are as wide as the longest of their part
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (size, *shapes.pop())}
    with _member(archive, name) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for chunk, _, _ in _chunks(name, slices, rows_of):
            member.write(chunk.astype(dtype).tobytes())


def _chunks(name, slices, rows_of) -> Iterator[tuple[Any, np.dtype, tuple[int, ...]]]:
    """Yields (values, dtype, shape) of the rows of each slice."""
    for each in slices:
        with np.load(each.path) as part:
            chunk = part[name][rows_of(each)]
        yield chunk, chunk.dtype, chunk.shape


def _member(archive, name):
    return archive.open(f"{name}.npy", "w", force_zip64=True)
