"""Indexes on disk of documents and their vectors, found by id, and atomic changes to them.

    news.index/
        index.json          the description: model, settings, version, and the segments with their deleted rows
        segment-000001/     as in `index_segments.py`
        rows.npz            during `add_rows`: the new documents

Each change writes files under new names, and then one new index.json, which makes them count.
"""

import contextlib
import dataclasses
import functools
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf.inference.embedders import Indexer
from bert_tf.inference.index_segments import (
    Segment,
    document_columns,
    export_segments,
    live_blocks,
    merge_segments,
    unpack_segment,
    write_segment,
)
from bert_tf.inference.sentence_encoder import identity_of
from bert_tf.inference.settings import EncodeOptions
from bert_tf.inference.vector_types import as_vectors
from bert_tf.utils.array_files import save_array
from bert_tf.utils.files import check_free, is_temporary, path_text, whole_directory, write_text
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.json_files import read_object
from bert_tf.utils.text_inputs import text_list

INDEX_FILE = "index.json"
_ROWS = "rows.npz"
_ATTEMPTS = 5  # to open an index that is being changed
_REMEDY = "create the index again with `bert-tf embed`"
_OURS = re.compile(r"segment-\d{6,}|deleted-\d{6,}\.npy")  # all that a description may name and a change remove


def make_index(directory: str, indexer: Indexer, write_rows: Callable[[str], Any] | None = None):
    """Writes a new index atomically.

    Args:
        directory: output directory; must not exist or must be empty.
        indexer: creates the embeddings.
        write_rows: writes the output of `indexer` for all rows to an .npz file at the given path, next to `directory`,
            where an interrupted job resumes. If None, there are none. If writing the index from that file fails, the
            embeddings are lost.

    Raises:
        ValueError: `directory` is not empty, the file of the rows exists, or the model or the rows are invalid.
        OSError: a file cannot be written.
    """
    check_free(directory, parameter="index_dir")
    options = dataclasses.asdict(indexer.options_with_prompt)
    described = {"model": os.path.realpath(indexer.path), "identity": identity_of(indexer.path, indexer.options)}
    described |= {"vector_dtype": indexer.vector_dtype, "created": secrets.token_hex(8)}
    rows = f"{os.path.realpath(directory)}.{_ROWS}"
    if write_rows:
        if os.path.lexists(rows):
            raise ValueError(
                f"{rows} already exists. This file stores embeddings until the index is complete. If the file is left "
                "over from an interrupted command, delete it, and the embeddings are computed again; otherwise, move "
                "it or choose another `index_dir`."
            )
        write_rows(rows)  # not in the temporary directory: an error while embedding would remove the finished parts
    try:
        with whole_directory(directory) as aside:
            _write_description(aside, described | {"options": options, "version": 0, "segments": []})
            if write_rows:
                DocumentIndex(aside).add_rows(functools.partial(os.replace, rows))
    finally:
        if write_rows and os.path.exists(rows):
            os.remove(rows)


class DocumentIndex:
    """Documents and their vectors on disk, which are found, added, replaced and deleted by id.

    Args:
        directory: directory of the index.

    Raises:
        ValueError: there is no index, or it is damaged or of another version.
    """

    def __init__(self, directory: str | os.PathLike) -> None:
        self.directory, self._described = path_text(directory, "directory"), {}
        self._open()

    def _open(self):
        """Reads the newest version; another process may remove files of an older one at the same time."""
        for attempt in range(_ATTEMPTS):
            described = _read_description(self.directory)
            if "vector_dtype" not in described:
                raise ValueError(f"{self.directory} was written by another version of bert_tf. To fix this, {_REMEDY}.")
            try:
                self._options, self._vector_dtype = EncodeOptions(**described["options"]), described["vector_dtype"]
                self._model, self._identity = described["model"], described["identity"]
                self._segments = list(map(self._segment, described["segments"]))
                if len(widths := {each.width for each in self._segments}) > 1:
                    raise ValueError(f"embeddings of {' and '.join(map(str, sorted(widths)))} dimensions")
                self._described = described
                return
            except (KeyError, OSError, ValueError, TypeError, IndexError) as error:
                if not isinstance(error, FileNotFoundError) or attempt == _ATTEMPTS - 1:
                    raise ValueError(
                        f"{self.directory} is not a complete index: {error!r:.300}. To fix this, {_REMEDY}."
                    ) from error

    def refresh(self) -> None:
        """Opens the index again if it has changed; raises as the constructor."""
        if _read_description(self.directory) != self._described:
            self._open()

    def _is_another(self, described):
        """Returns whether a description is of another index, which was created in the place of this one."""
        return described.get("created") != self._described.get("created")

    def _is_there(self):
        """Returns whether the directory still contains this index, neither deleted nor created again."""
        try:
            return not self._is_another(_read_description(self.directory))
        except ValueError:
            return False

    def _segment(self, entry):
        name, deleted = entry["name"], entry["deleted"]
        if not all(map(_OURS.fullmatch, filter(None, (name, deleted)))):
            raise ValueError(f"a segment {entry}")
        return Segment(os.path.join(self.directory, name), deleted, self._vector_dtype)

    def __len__(self) -> int:
        return sum(each.num_live for each in self._segments)

    def has_documents(self, ids: Sequence[str]) -> np.ndarray:
        """Returns which ids are those of documents in the index, bool [n]."""
        found = np.zeros(len(ids), bool)
        for segment in self._segments:
            found |= segment.find(ids) >= 0
        return found

    def texts_by_id(self, ids: Sequence[str]) -> dict[str, str]:
        """Returns {id: text} of those of the documents that are in the index."""
        found = {}
        for segment in self._segments:
            rows = zip(ids, segment.find(ids).tolist(), strict=True)
            found |= {name: segment.value("text", row) for name, row in rows if row >= 0}
        return found

    def texts(self) -> Iterator[str]:
        """Yields the texts of all documents."""
        for _, segment, rows in live_blocks(self._segments):
            for row in rows:
                yield segment.value("text", row)

    def export(self, path: str | os.PathLike) -> None:
        """Writes all documents with their embeddings to a Parquet file, as `export_segments` describes.

        Raises:
            ValueError: the index is empty.
            OSError: the file cannot be written.
        """
        if not len(self):
            raise ValueError(f"{self.directory} has no documents to export. Add some.")
        export_segments(os.fspath(path), self._segments)

    def add(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        payload: Sequence[Mapping[str, Any]] | None,
        vectors: np.ndarray,
    ) -> None:
        """Adds documents, with their embeddings by the index's model, float [n, D]; those with a known id are replaced.

        Raises:
            ValueError: the arguments do not match, embeddings are not finite, or another process is changing the index,
                or has created it again.
            OSError: a file cannot be written.
        """
        ids, texts = text_list(ids, "ids"), text_list(texts)
        payload = [{}] * len(ids) if payload is None else list(payload)
        vectors = as_vectors(vectors)
        self._check_shapes(ids, texts, payload, vectors)
        if ids:
            with self._change(adds=True):
                self._check_shapes(ids, texts, payload, vectors)  # another process may have added the first documents
                columns = document_columns(vectors, ids, texts, payload, self._vector_dtype)
                self._add_segment(lambda folder: write_segment(folder, columns))

    def _check_shapes(self, ids, texts, payload, vectors):
        width = self._segments[0].width if self._segments else vectors.shape[-1]
        if not len(ids) == len(texts) == len(payload) or vectors.shape != (len(ids), width):
            raise ValueError(
                f"`ids`, `texts`, `payload` and `vectors` must match; got {len(ids)} ids, {len(texts)} texts, "
                f"{len(payload)} payloads and vectors of shape {list(vectors.shape)}, where the index has {width} "
                "dimensions."
            )

    def add_rows(self, write_rows: Callable[[str], Any]) -> None:
        """Adds the documents of a table, as `add` does; argument and errors as in `make_index`."""
        with self._change(adds=True):
            rows = os.path.join(self.directory, _ROWS)
            write_rows(rows)  # an interrupted job resumes there
            self._add_segment(lambda folder: unpack_segment(folder, rows))
            _remove_if_possible(rows)  # merging may need its space

    def delete(self, ids: Sequence[str]) -> None:
        """Deletes documents.

        Raises:
            ValueError: an id is not in the index, which is unchanged, or another process is changing it.
            OSError: a file cannot be written.
        """
        ids = text_list(ids, "ids")
        with self._change():
            entries, found = self._mark_deleted(lambda: [ids])
            if missing := [name for name, is_there in zip(ids, found, strict=True) if not is_there]:
                raise ValueError(
                    f"All ids must be in {self.directory}. Not found: {', '.join(map(repr, missing[:5]))}"
                    f"{f' and {len(missing) - 5} more' if len(missing) > 5 else ''}. Nothing was deleted."
                )
            self._commit(entries)

    @contextlib.contextmanager
    def _change(self, adds=False):
        """Holds the index's lock, starts from its newest version, and removes files that no version has."""
        with alone_in(self.directory, "index_dir"):
            if adds and self._is_another(_read_description(self.directory)):  # the embeddings may be another model's
                raise ValueError(
                    f"{self.directory} was created again after this program opened it. Nothing was added; call "
                    "`refresh` or run the command again, which embeds with the new index's model."
                )
            self._open()
            self._clean()
            try:
                yield
                try:
                    self._merge()
                except OSError as error:  # merging needs the space of all that it merges
                    logging.warning(
                        "%s was changed, but its segments could not be merged: %s. Searches may be slower until the "
                        "next change to the index, which tries to merge them again.",
                        *(self.directory, error),
                    )
            finally:
                self._clean()

    def _add_segment(self, write):
        name = f"segment-{self._described['version'] + 1:06d}"
        write(os.path.join(self.directory, name))
        new = self._segment({"name": name, "deleted": None})
        entries = self._described["segments"]
        if entries:
            entries, _ = self._mark_deleted(new.id_blocks)
        self._commit([*entries, {"name": name, "deleted": None}])

    def _mark_deleted(self, id_blocks):
        """Marks documents as deleted; returns the segments' new entries and which ids were found, bool [k]."""
        entries, there = [], False
        for entry, segment in zip(self._described["segments"], self._segments, strict=True):
            rows = np.concatenate([segment.find(ids) for ids in id_blocks()])
            there |= rows >= 0
            if (rows >= 0).any():
                deleted = np.zeros(len(segment), bool) if segment.deleted is None else np.array(segment.deleted)
                deleted[rows[rows >= 0]] = True
                name = f"deleted-{self._described['version'] + 1:06d}"
                save_array(segment.folder, name, deleted)
                entry = {**entry, "deleted": f"{name}.npy"}
            entries.append(entry)
        return entries, np.broadcast_to(there, sum(map(len, id_blocks())))

    def _commit(self, entries):
        _write_description(
            self.directory, self._described | {"version": self._described["version"] + 1, "segments": entries}
        )
        self._open()

    def _merge(self):
        """Merges the last segments if they are not much smaller than the one before, so that there are few.

        A segment with more deleted rows than others is written again.
        """
        entries, live = self._described["segments"], [each.num_live for each in self._segments]
        start, size = len(live) - 1, sum(live[-1:])
        while start > 0 and live[start - 1] <= 2 * size:
            start, size = start - 1, size + live[start - 1]
        start = min([start, *(number for number, each in enumerate(self._segments) if _is_sparse(each))])
        if start == len(live) - 1 and not any(map(_is_sparse, self._segments)):
            return
        merged, name = self._segments[start:], f"segment-{self._described['version'] + 1:06d}"
        if any(live[start:]):
            merge_segments(os.path.join(self.directory, name), merged)
        self._commit([*entries[:start], *([{"name": name, "deleted": None}] if any(live[start:]) else [])])

    def _clean(self):
        """Removes the files of interrupted changes and of older versions; readers that have opened them keep them.

        What cannot be removed, such as files in use on a network file system, is left to the next change.
        """
        described = _read_description(self.directory)
        known = {each["name"]: each["deleted"] for each in described["segments"]}
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            if _OURS.fullmatch(name) and name not in known:
                shutil.rmtree(path, ignore_errors=True)
            elif name == _ROWS or is_temporary(name):
                _remove_if_possible(path)
        for name, deleted in known.items():
            for file in os.listdir(os.path.join(self.directory, name)):
                is_unfinished = is_temporary(file) and file.startswith(".deleted-")  # others may be a reader's graph
                if is_unfinished or _OURS.fullmatch(file) and file != deleted:
                    _remove_if_possible(os.path.join(self.directory, name, file))


def _remove_if_possible(path):
    with contextlib.suppress(OSError):
        os.remove(path)


def _is_sparse(segment):
    return segment.num_live < len(segment) / 2


def _read_description(directory):
    path = os.path.join(directory, INDEX_FILE)
    if not os.path.exists(directory):
        raise ValueError(f"The index {directory} does not exist. Check the path.")
    return read_object(path, "the description of an index from `bert-tf embed`", _REMEDY)


def _write_description(directory, described):
    write_text(os.path.join(directory, INDEX_FILE), json.dumps(described, indent=2, ensure_ascii=False) + "\n")
