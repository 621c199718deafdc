"""Output as NumPy's .npz: one array per column; for rows of unequal lengths, all values and the end of each row."""

import zipfile
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.inference.batch_prediction.column_values import EntityLists, Labeled, same_labels
from bert_tf.utils.files import atomic_open

_SPLITS, _LABELS = "_splits", "_labels"


class Npz:
    """One uncompressed archive. A `Ragged` column "x" is "x" and "x_splits", a `Labeled` one "x" and "x_labels"."""

    holds_null = False

    def write(self, path, columns):
        arrays = {}
        for name, values in columns.items():
            if isinstance(values, Ragged):
                arrays |= {name: _array(name, values.flat), name + _SPLITS: values.splits}
            elif isinstance(values, Labeled):
                arrays |= {name: values.values, name + _LABELS: np.array(values.labels)}
            else:
                arrays[name] = _array(name, values)
        with atomic_open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with _member(archive, name) as member:
                    np.lib.format.write_array(member, array)

    def join(self, path, slices):
        with np.load(slices[0].path) as part:
            names = part.files
        with atomic_open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name in names:
                if name + _SPLITS in names:
                    _stream(archive, name, lambda name=name: _values(name, slices))
                elif name.endswith(_SPLITS) and name.removesuffix(_SPLITS) in names:
                    _stream(archive, name, lambda name=name: _all_splits(name, slices))
                elif name.endswith(_LABELS) and name.removesuffix(_LABELS) in names:
                    _stream(archive, name, lambda name=name: [_labels_of_all(name, slices)])
                else:
                    _stream(archive, name, lambda name=name: _rows(name, slices))

    def numbers(self, path, name):
        with np.load(path) as archive:
            return archive[name]


def _array(name, values):
    """Returns a column as an array, but not of Python objects, which an archive would have to pickle."""
    if isinstance(values, EntityLists):  # even if there are none in these rows
        raise _no_array(name)
    try:
        array = np.asarray(values.tolist() if isinstance(values, np.ndarray) and values.dtype.hasobject else values)
    except ValueError:  # lists of unequal lengths
        array = np.empty(0, object)
    if array.dtype.hasobject:
        raise _no_array(name)
    return array


def _no_array(name):
    return ValueError(
        f"`output_file` must end in .jsonl or .parquet for this model. .npz can only store arrays, and {name!r} "
        "is not one."
    )


def _rows(name, slices) -> Iterator[np.ndarray]:
    for each in slices:
        with np.load(each.path) as part:
            yield part[name][each.first : each.last]


def _values(name, slices) -> Iterator[np.ndarray]:
    """Yields all values of a `Ragged` column."""
    for each in slices:
        with np.load(each.path) as part:
            splits = part[name + _SPLITS]
            yield part[name][splits[each.first] : splits[each.last]]


def _all_splits(name, slices) -> Iterator[np.ndarray]:
    """Yields the row boundaries of a `Ragged` column across all slices."""
    end = np.zeros(1, np.int64)
    yield end
    for each in slices:
        with np.load(each.path) as part:
            splits = part[name][each.first : each.last + 1]
        yield end + (splits[1:] - splits[0])
        end = end + (splits[-1] - splits[0])


def _labels_of_all(name, slices):
    """Returns the labels of a `Labeled` column, which are the same in all slices."""
    found = []
    for each in slices:
        with np.load(each.path) as part:
            found.append(part[name].tolist())
    return np.array(same_labels(found))


def _stream(archive, name, chunks: Callable[[], Iterable[np.ndarray]]):
    """Writes one array from its chunks, which are generated twice: first for dtype and shape."""
    kinds, shapes, size = set(), set(), 0
    for chunk in chunks():
        kinds.add(chunk.dtype)
        shapes.add(chunk.shape[1:])
        size += len(chunk)
    if len(shapes) > 1:
        raise _no_array(name)
    dtype = np.result_type(*kinds)  # strings are as wide as the longest of their part
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (size, *shapes.pop())}
    with _member(archive, name) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for chunk in chunks():
            member.write(chunk.astype(dtype).tobytes())


def _member(archive, name):
    return archive.open(f"{name}.npy", "w", force_zip64=True)
