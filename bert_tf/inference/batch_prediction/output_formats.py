"""Output formats: how a part is written, and how slices of parts are joined into one file."""

import csv
import dataclasses
import itertools
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.data.table_reader import FIELD_LIMIT
from bert_tf.serving.client import results
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

# === Npz ===
# Output as NumPy's .npz: one array per column; for rows of unequal lengths, all values and the end of each row.


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
        f"`output_file` must end in .jsonl or .parquet for this model. .npz can only hold arrays, and {name!r} "
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


# === Parquet ===
# Output as Parquet: a vector is a list of numbers; one row group per part.


@dataclasses.dataclass(frozen=True)
class Parquet:
    """Parquet files for pyarrow, pandas, DuckDB and Spark. The labels of a `Labeled` column are in the metadata.

    Attributes:
        types: {column: its Arrow type}; the others have the type of their values.
    """

    types: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    holds_null = True

    def write(self, path, columns):
        import pyarrow as pa
        from pyarrow import parquet

        arrays = {name: _arrow_array(values, self.types.get(name)) for name, values in columns.items()}
        plain = [values.values if isinstance(values, Partial) else values for values in columns.values()]
        labels = [json_text(each.labels) for each in plain if isinstance(each, Labeled)]
        with atomic_open(path, "wb") as file:
            parquet.write_table(pa.table(arrays, metadata={"labels": labels[0]} if labels else None), file)

    def join(self, path, slices):
        import pyarrow as pa
        from pyarrow import parquet

        # A column that is empty in one part and has numbers in the next, or is wider there, gets the wider type.
        schemas = [parquet.read_schema(each.path) for each in slices]
        metadata = same_labels([schema.metadata for schema in schemas])
        different = sorted({schema.remove_metadata() for schema in schemas}, key=str)
        schema = pa.unify_schemas(different, promote_options="permissive").with_metadata(metadata)
        with atomic_open(path, "wb") as file, parquet.ParquetWriter(file, schema) as writer:
            for part, first, last in slices:
                table = parquet.ParquetFile(part).read()
                writer.write_table(table.slice(first, last - first).cast(schema))

    def numbers(self, path, name):
        from pyarrow import parquet

        return parquet.read_table(path, columns=[name]).column(name).to_numpy()


def _arrow_array(values, type=None):
    """Converts a column to Arrow; the dimensions of an array after the first become lists.

    `type` is of a list of values.
    """
    import pyarrow as pa

    if isinstance(values, Partial):
        indices = pa.array(np.arange(len(values.missing)), mask=values.missing)
        return _arrow_array(values.values).take(indices)
    if isinstance(values, Ragged):
        return pa.ListArray.from_arrays(pa.array(values.splits, pa.int32()), _arrow_array(values.flat))
    if isinstance(values, Labeled):
        values = values.values
    if isinstance(values, EntityLists):  # also known if there are none
        numbers = [("start", pa.int64()), ("end", pa.int64()), ("score", pa.float32())]
        type = pa.list_(pa.struct([("text", pa.string()), ("type", pa.string()), *numbers]))
    if not isinstance(values, np.ndarray):
        return pa.array([value.tolist() if hasattr(value, "tolist") else value for value in values], type)
    inner = pa.array(values.reshape(-1))
    for n in range(values.ndim - 1, 0, -1):
        ends = np.arange(0, int(np.prod(values.shape[:n], dtype=np.int64)) + 1) * values.shape[n]
        inner = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner)
    return inner


# === Csv files ===
# Output as .csv with a header, for spreadsheets: compound values are JSON in their cell, NaN is an empty cell.


_QUOTED = re.compile(r'[",\r\n]')
# Texts that a spreadsheet may run as a formula, even in quotes; signed numbers are not formulas.
_FORMULA = re.compile(r"(?![+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z)[=+\-@\t\r\n]")


@dataclasses.dataclass(frozen=True)
class Csv:
    """RFC 4180 with line feeds; each part has the header. Null is an empty cell.

    Attributes:
        quote_formulas: put an apostrophe before texts that a spreadsheet would run as a formula, as is common.
    """

    quote_formulas: bool = True
    holds_null = True

    def write(self, path, columns):
        cells = [[self._cell(value) for value in to_json_values(values)] for values in columns.values()]
        names = [self._cell(name) for name in columns]
        with atomic_open(path) as file:
            file.writelines(map(_line, [names, *zip(*cells, strict=True)]))

    def join(self, path, slices):
        csv.field_size_limit(FIELD_LIMIT)
        with atomic_open(path) as target:
            for number, (part, first, last) in enumerate(slices):
                with open(part, encoding="utf-8", newline="") as source:
                    rows = csv.reader(source)
                    header = next(rows)
                    target.writelines(map(_line, [header] if number == 0 else []))
                    target.writelines(map(_line, itertools.islice(rows, first, last)))

    def numbers(self, path, name):
        csv.field_size_limit(FIELD_LIMIT)
        with open(path, encoding="utf-8", newline="") as file:
            return numbers_of(json.loads(row[name] or "null") for row in csv.DictReader(file))

    def _cell(self, value):
        if not isinstance(value, str | int | float | list | dict | None):
            value = _to_text(value)
        if isinstance(value, str):
            return f"'{value}" if self.quote_formulas and _FORMULA.match(value) else value
        text = json_text(value, ensure_ascii=False, default=_to_text)
        return "" if text == "null" else text


def _line(cells):
    """Returns a row as a line. Python's writer does not quote carriage returns if lines end with a line feed."""
    quoted = ['"{}"'.format(cell.replace('"', '""')) if _QUOTED.search(cell) else cell for cell in cells]
    return (",".join(quoted) if quoted != [""] else '""') + "\n"


# === Formats ===


class Slice(NamedTuple):
    """Some rows of a part.

    Attributes:
        path: file of the part.
        first, last: rows, half-open.
    """

    path: str
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Partial:
    """A column in which some rows have no prediction.

    Attributes:
        values: one value per row.
        missing: bool [rows]: whether a row's value is missing.
    """

    values: np.ndarray | list | Ragged
    missing: np.ndarray


@dataclasses.dataclass(frozen=True)
class Labeled:
    """A column with one number per label: the labels are keys in text formats, and stand once in the others.

    Attributes:
        values: one row of L numbers per row, [n, L].
        labels: the L labels.
    """

    values: np.ndarray
    labels: list[str]

    def __len__(self):
        return len(self.values)


class EntityLists(list):
    """A column with a list of entities per row, {"text", "type", "start", "end", "score"}."""


def same_labels(found: Sequence) -> Any:
    """Returns the first of the labels of several rows or parts; raises ValueError if others differ."""
    if different := [each for each in found if each != found[0]]:
        raise ValueError(
            f"The labels must be the same in all rows; got {found[0]} and {different[0]}. Write only the probability "
            "of each prediction with `probabilities=none`, or the most probable labels with `top_k`."
        )
    return found[0]


class Format(Protocol):
    """Base class of output formats; objects can be pickled.

    Attributes:
        holds_null: whether it can write a `Partial`.
    """

    holds_null: bool

    def write(self, path: str, columns: Mapping[str, Any]):
        """Writes the columns of a part, `table_job.Columns` or `Partial`: all or, with OSError, nothing."""

    def join(self, path: str, slices: list[Slice]):
        """Writes the rows of all slices to one file, holding a part at a time."""

    def numbers(self, path: str, name: str) -> np.ndarray:
        """Returns the numbers in a column of a file that `join` wrote; null is NaN."""


class Jsonl:
    """JSON Lines: one object per line; null represents a number that is not finite."""

    holds_null = True

    def write(self, path, columns):
        lists = {name: to_json_values(values) for name, values in columns.items()}
        with atomic_open(path) as file:
            for row in zip(*lists.values(), strict=True):
                file.write(json_text(dict(zip(lists, row, strict=True)), ensure_ascii=False, default=_to_text) + "\n")

    def join(self, path, slices):
        with atomic_open(path, "wb") as target:
            for part, first, last in slices:
                with open(part, "rb") as source:
                    target.writelines(itertools.islice(source, first, last))

    def numbers(self, path, name):
        with open(path, encoding="utf-8") as file:
            return numbers_of(json.loads(line)[name] for line in file)


def numbers_of(values: Iterable) -> np.ndarray:
    """Converts numbers read from text to float [n]; None becomes NaN."""
    return np.array([math.nan if value is None else value for value in values])


def to_json_values(values) -> list:
    """Returns the values of a column for JSON; a float32 has its own digits, not those of a double."""
    if isinstance(values, Partial):
        return [
            None if lacks else value for value, lacks in zip(to_json_values(values.values), values.missing, strict=True)
        ]
    if isinstance(values, Labeled):
        return [dict(zip(values.labels, row, strict=True)) for row in results.to_nested_lists(values.values)]
    if isinstance(values, Ragged):
        flat, splits = to_json_values(values.flat), values.splits.tolist()
        return [flat[first:last] for first, last in itertools.pairwise(splits)]
    if not isinstance(values, np.ndarray):
        return [value.tolist() if hasattr(value, "tolist") else value for value in values]
    return results.to_nested_lists(values)


def _to_text(value):
    """Returns a copied value that JSON does not have, such as a date, as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def format_of(output_file: str, quote_formulas: bool = True, types: Mapping[str, Any] | None = None) -> Format:
    """Returns the format for a file name.

    Args:
        output_file: the name.
        quote_formulas: as in `Csv`.
        types: as in `Parquet`.

    Raises:
        ValueError: the extension is unknown.
    """

    forms = {".npz": Npz, ".jsonl": Jsonl, ".parquet": lambda: Parquet(types or {}),
             ".csv": lambda: Csv(quote_formulas)}  # fmt: skip
    ending = os.path.splitext(output_file.lower())[1]
    if ending not in forms:
        raise ValueError(
            "`output_file` must end in .npz, .jsonl, .parquet or .csv, which sets its format; got "
            f"{output_file!r}."
        )
    return forms[ending]()
