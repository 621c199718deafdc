"""Segments of a search index: immutable files of documents, memory-mapped, and the rows of them that were deleted.

    segment-000001/
        embeddings.npy                  float32 [n, D], each of length 1; or int8 [n, D], or uint8 [n, D / 8]
        ids.npy, text.npy, payload.npy  UTF-8, concatenated, uint8, with ids_splits.npy and so on: int64 [n + 1]
        id_hashes.npy, id_rows.npy      uint64 and int64 [n], sorted by hash: where each id is
        deleted-000003.npy              bool [n], of the version of the index that has this number
        graph.usearch                   for approximate search, if requested; see nearest_neighbors.py

All files except the graph, which can be created again, are flushed to disk before index.json names them. Older files
are deleted only then, so a power failure cannot leave the index without both.
"""

import hashlib
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.ragged import Ragged, ranges
from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.inference.vector_types import quantize_vectors, stored_width
from bert_tf.utils.array_files import map_array, open_array, save_array
from bert_tf.utils.counts import number_of
from bert_tf.utils.files import atomic_open, brief
from bert_tf.utils.json_files import json_text

EMBEDDINGS = "embeddings"
_COLUMNS = ("ids", "text", "payload")
_STORED = {"float32": "float32", "int8": "int8", "binary": "uint8"}  # type of the vectors -> that of the array
_BLOCK = 2**14  # rows copied or hashed at a time


class Segment:
    """A segment of n rows, some of which may be deleted.

    Args:
        folder: its directory.
        deleted: name of the file of deleted rows; if None, none are deleted.
        vector_dtype: the index's type of vectors, as in `quantize_vectors`.

    Attributes:
        vectors: float32 [n, D], each of length 1, or what `quantize_vectors` makes of them.
        deleted: bool [n], or None.

    Raises:
        FileNotFoundError: a file is missing, such as after an update.
        ValueError: a file is damaged.
    """

    def __init__(self, folder: str, deleted: str | None = None, vector_dtype: str = "float32"):
        self.folder = folder
        self.vectors = map_array(folder, EMBEDDINGS, _STORED[vector_dtype], axes=2)
        self._columns = {name: _load_column(folder, name) for name in _COLUMNS}
        self._hashes, self._rows = map_array(folder, "id_hashes", "uint64"), map_array(folder, "id_rows", "int64")
        self.deleted = None if deleted is None else map_array(folder, deleted.removesuffix(".npy"), "bool")
        count = len(self.vectors)
        lengths = [len(each.splits) - 1 for each in self._columns.values()] + [len(self._hashes), len(self._rows)]
        lengths += [] if self.deleted is None else [len(self.deleted)]
        ends = all(len(each.splits) and each.splits[-1] == len(each.flat) for each in self._columns.values())
        if set(lengths) != {count} or not ends:
            raise ValueError(f"files of {count} vectors and {lengths} rows")

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def width(self) -> int:
        """Number of dimensions of the embeddings."""
        return stored_width(self.vectors)

    @property
    def num_live(self) -> int:
        """Number of rows that are not deleted."""
        return len(self) if self.deleted is None else len(self) - int(np.count_nonzero(self.deleted))

    def live_rows(self, start: int, stop: int) -> np.ndarray:
        """Returns those of the rows from `start` to `stop` (exclusive) that are not deleted, int64, ascending."""
        stop = min(stop, len(self))
        return np.arange(start, stop) if self.deleted is None else start + np.flatnonzero(~self.deleted[start:stop])

    def is_live(self, rows: np.ndarray) -> np.ndarray:
        """Returns which of some rows are not deleted, bool [k]."""
        return np.ones(len(rows), bool) if self.deleted is None else ~self.deleted[rows]

    def value(self, column: str, row: int) -> str:
        """Returns the id, text or payload of a row; raises ValueError if it is damaged."""
        flat, splits = self._columns[column]
        try:
            return bytes(flat[splits[row] : splits[row + 1]]).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.damage(f"{column} of row {row}: {error}") from error

    def damage(self, what: str) -> ValueError:
        """Returns the error for damaged content, which is found only when it is read."""
        return ValueError(f"{self.folder} is damaged: {what}. Create the index again with `bert-tf embed`.")

    def take(self, column: str, rows: np.ndarray) -> Ragged:
        """Returns the values of some rows (ascending), as bytes; raises ValueError if they are damaged."""
        flat, splits = self._columns[column]
        between = splits[rows[0] : rows[-1] + 2] if len(rows) else splits[:1]
        if between[0] < 0 or between[-1] > len(flat) or (between[1:] < between[:-1]).any():
            raise self.damage(f"{column} with missing bytes")
        starts = splits[rows]
        lengths = splits[rows + 1] - starts
        return Ragged.of_lengths(flat[ranges(starts, lengths)], lengths)

    def id_blocks(self) -> Iterator[list[str]]:
        """Yields the ids of all rows in blocks."""
        for start in range(0, len(self), _BLOCK):
            yield [self.value("ids", row) for row in range(start, min(start + _BLOCK, len(self)))]

    def find(self, ids: Sequence[str]) -> np.ndarray:
        """Returns the row of each id, int64; -1 if it has none, or was deleted."""
        hashes = np.array([_hash(each.encode("utf-8", "ignore")) for each in ids], np.uint64)
        return np.array([self._find(*pair) for pair in zip(ids, hashes, strict=True)], np.int64)

    def _find(self, name, hashed):
        place = int(np.searchsorted(self._hashes, hashed))
        while place < len(self) and self._hashes[place] == hashed:  # several ids may have one hash
            row = int(self._rows[place])
            if not 0 <= row < len(self):
                raise self.damage(f"an id in row {row} of {len(self)}")
            if self.value("ids", row) == name:
                return row if self.deleted is None or not self.deleted[row] else -1
            place += 1
        return -1


def _load_column(folder, name):
    return Ragged(map_array(folder, name, "uint8"), map_array(folder, f"{name}_splits", "int64"))


def _hash(name: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")


def document_columns(
    vectors: np.ndarray, ids: Sequence[str], texts: Sequence[str], payload: Sequence[Mapping[str, Any]], dtype: str
) -> dict[str, np.ndarray | Ragged]:
    """Returns the columns of a segment: vectors of length 1, then quantized, and UTF-8 without lone surrogates.

    Args:
        vectors: float32 or float64 [n, D].
        ids, texts, payload: one per document.
        dtype: type of the stored vectors; it and further errors as in `quantize_vectors`.

    Raises:
        ValueError: a vector has NaN or infinite values, which no search could order.
    """
    if wrong := np.flatnonzero(~np.isfinite(vectors).all(-1)).tolist():
        shown = ", ".join(repr(ids[row]) for row in wrong[:5])
        raise ValueError(
            f"Embeddings in an index must be finite; got NaN or infinite values for {len(wrong)} of "
            f"{number_of(len(vectors), 'document')}: ids {shown}"
            f"{f' and {len(wrong) - 5} more' if len(wrong) > 5 else ''}; text of the first: {brief(texts[wrong[0]])}. "
            "Nothing was added. Correct these embeddings, check whether the model's weights are damaged, or compute "
            "them in float32."
        )
    as_json = [json_text(each, ensure_ascii=False, default=str) if each else "" for each in payload]
    columns: dict[str, np.ndarray | Ragged] = {EMBEDDINGS: quantize_vectors(unit(vectors).astype(np.float32), dtype)}
    for name, values in zip(_COLUMNS, (ids, texts, as_json), strict=True):
        encoded = [value.encode("utf-8", "ignore") for value in values]
        columns[name] = Ragged.of_lengths(np.frombuffer(b"".join(encoded), np.uint8), list(map(len, encoded)))
    return columns


def write_segment(folder: str, columns: Mapping[str, np.ndarray | Ragged]):
    """Writes documents, as `document_columns` returns them, to a new directory.

    Raises:
        ValueError: an id occurs twice.
        OSError: a file cannot be written, for example because the disk is full.
    """
    os.mkdir(folder)
    save_array(folder, EMBEDDINGS, columns[EMBEDDINGS])
    for name in _COLUMNS:
        flat, splits = columns[name]
        save_array(folder, name, flat)
        save_array(folder, f"{name}_splits", splits)
    _write_hashes(folder)


def unpack_segment(folder: str, archive: str):
    """Writes documents to a new directory from an .npz file with the arrays of a segment; raises as `write_segment`."""
    os.mkdir(folder)
    with zipfile.ZipFile(archive) as files:  # an array in an archive cannot be memory-mapped
        for name in files.namelist():
            with files.open(name) as source, atomic_open(os.path.join(folder, name), "wb") as target:
                shutil.copyfileobj(source, target)
    _write_hashes(folder)


def merge_segments(folder: str, segments: Sequence[Segment]):
    """Writes the rows of segments that are not deleted to a new directory, block by block.

    Raises:
        OSError: a file cannot be written, for example because the disk is full.
    """
    os.mkdir(folder)
    count, width = sum(each.num_live for each in segments), segments[0].vectors.shape[1]
    with open_array(folder, EMBEDDINGS, segments[0].vectors.dtype, (count, width)) as write:
        for _, segment, rows in live_blocks(segments):
            write(segment.vectors[rows])
    for name in _COLUMNS:
        end = 0
        with open_array(folder, f"{name}_splits", np.dtype(np.int64), (count + 1,)) as write:
            write(np.zeros(1, np.int64))
            for _, segment, rows in live_blocks(segments):
                splits = end + segment.take(name, rows).splits
                write(splits[1:])
                end = int(splits[-1])
        with open_array(folder, name, np.dtype(np.uint8), (end,)) as write:
            for _, segment, rows in live_blocks(segments):
                write(segment.take(name, rows).flat)
    _write_hashes(folder)


def live_blocks(segments: Iterable[Segment]) -> Iterator[tuple[int, Segment, np.ndarray]]:
    """Yields (number of rows before, segment, some of its rows that are not deleted)."""
    first = 0
    for segment in segments:
        for start in range(0, len(segment), _BLOCK):
            rows = segment.live_rows(start, start + _BLOCK)
            yield first, segment, rows
            first += len(rows)


def export_segments(path: str, segments: Sequence[Segment]):
    """Writes the rows of segments that are not deleted to a Parquet file, block by block; it replaces an existing one.

    Columns: `id` and `text`; `payload`, JSON or null; `embedding`, a fixed-size list: float32, normalized to length 1,
    or as in `quantize_vectors`.

    Args:
        path: the file.
        segments: at least one.

    Raises:
        OSError: the file cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    stored = segments[0].vectors
    embedding = pa.list_(pa.from_numpy_dtype(stored.dtype), stored.shape[1])
    schema = pa.schema([("id", pa.string()), ("text", pa.string()), ("payload", pa.string()), ("embedding", embedding)])
    with atomic_open(path, "wb") as file, parquet.ParquetWriter(file, schema) as writer:
        for _, segment, rows in live_blocks(segments):
            columns = [[segment.value(name, row) for row in rows] for name in _COLUMNS]
            columns[-1] = [payload or None for payload in columns[-1]]
            vectors = pa.FixedSizeListArray.from_arrays(segment.vectors[rows].reshape(-1), embedding.list_size)
            writer.write_table(pa.table([*columns, vectors], schema=schema))


def _write_hashes(folder):
    """Writes where each id is: 16 bytes per document, in memory too."""
    flat, splits = _load_column(folder, "ids")
    count = len(splits) - 1
    hashes = np.empty(count, np.uint64)
    for start in range(0, count, _BLOCK):
        ends = splits[start : start + _BLOCK + 1].tolist()
        hashes[start : start + _BLOCK] = [_hash(bytes(flat[a:b])) for a, b in zip(ends, ends[1:], strict=False)]
    rows = np.argsort(hashes, kind="stable")
    hashes = hashes[rows]
    seen = {}  # of one hash: id -> its row
    for place in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
        if not place or hashes[place] != hashes[place - 1]:
            seen = {}
        for row in rows[place : place + 2].tolist():
            name = bytes(flat[splits[row] : splits[row + 1]]).decode("utf-8")
            if seen.setdefault(name, row) != row:
                raise ValueError(
                    f"Each id must be unique; got {name!r} twice, in rows {seen[name]} and {row}, counted from 0; "
                    "give one of them another id, or remove it."
                )
    save_array(folder, "id_hashes", hashes)
    save_array(folder, "id_rows", rows)
