"""Semantic search: an index of documents on disk that can be changed, exact cosine search, and a reader of its hits."""

import contextlib
import dataclasses
import functools
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf.evaluation.metrics import unit
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
from bert_tf.inference.nearest_neighbors import SegmentGraph, check_usearch, find_nearest
from bert_tf.inference.sentence_encoder import EncodeOptions, SentenceEncoder, identity_of, with_prompt
from bert_tf.inference.vector_types import quantize_vectors, unit_vectors
from bert_tf.utils.files import check_free, is_temporary, whole_directory, write_text
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.json_files import read_object
from bert_tf.utils.text_lists import text_list


def make_index(directory: str, indexer: Indexer, write_rows: Callable[[str], Any] | None = None):
    """Writes a new index atomically.

    Args:
        directory: output directory; must not exist or must be empty.
        indexer: creates the embeddings.
        write_rows: writes the output of `indexer` for all rows to an .npz file at the given path, next to `directory`,
            where an interrupted job resumes. None: there are none. If writing the index from that file fails, the
            embeddings are lost.

    Raises:
        ValueError: `directory` is not empty, the file of the rows exists, or the model or the rows are invalid.
        OSError: a file cannot be written.
    """
    check_free(directory, parameter="index_dir")
    options = dataclasses.asdict(indexer.with_prompt)
    described = {"model": os.path.realpath(indexer.path), "identity": identity_of(indexer.path, indexer.options)}
    described |= {"vector_dtype": indexer.vector_dtype, "created": secrets.token_hex(8)}
    rows = f"{os.path.realpath(directory)}.{_ROWS}"
    if write_rows:
        if os.path.lexists(rows):
            raise ValueError(
                f"{rows} already exists. Embeddings are stored there until the index is complete. If the file is left "
                "over from an interrupted command, delete it, and the embeddings are computed again; otherwise, move "
                "it or choose another `index_dir`."
            )
        write_rows(rows)  # not in the temporary directory: an error while embedding would remove the finished parts
    try:
        with whole_directory(directory) as aside:
            _write_description(aside, described | {"options": options, "version": 0, "segments": []})
            if write_rows:
                SearchIndex(aside).add_rows(functools.partial(os.replace, rows))
    finally:
        if write_rows and os.path.exists(rows):
            os.remove(rows)


# === Search ===


INDEX_FILE = "index.json"
_ROWS = "rows.npz"
_ATTEMPTS = 5  # to open an index that is being changed
_REMEDY = "create the index again with `bert-tf embed`"
_OURS = re.compile(r"segment-\d{6,}|deleted-\d{6,}\.npy")


class Hit(NamedTuple):
    """A document found by a search.

    Attributes:
        id: its id.
        score: cosine similarity to the query.
        text: its text.
        payload: further values, JSON.
    """

    id: str
    score: float
    text: str
    payload: dict[str, Any]


class SearchIndex:
    """Semantic search over documents on disk, which can be added, replaced and deleted by id.

        index = SearchIndex("news.index")
        index.add(["17"], ["Floods close the valley road."], [{"source": "radio"}])
        [hits] = index.search(["floods in spring"], top_k=5)
        print(hits[0].id, hits[0].score, hits[0].text, hits[0].payload)
        index.delete(["17"])

    Vectors and texts are memory-mapped. An object keeps the documents of the moment when it was opened, or last
    changed, whatever other processes change. One process changes an index at a time; a change that is interrupted
    leaves the index as it was.

    Args:
        directory: directory of the index.
        model: the model that embeds texts. If None, its path when the index was created.
        approximate: whether searches of large segments compare queries only with documents that a graph proposes, which
            may miss some of the nearest. The first search creates the graphs; it requires USearch.

    Raises:
        ValueError: there is no index, or it is damaged or of another version; or USearch is not installed.
    """

    def __init__(
        self, directory: str | os.PathLike, model: str | os.PathLike | None = None, approximate: bool = False
    ) -> None:
        self.directory, self._path = os.fspath(directory), model and os.fspath(model)
        self._approximate, self._graphs, self._described = approximate, {}, {}
        if approximate:
            check_usearch()
        self._open()

    @classmethod
    def create(
        cls, directory: str | os.PathLike, model: str | os.PathLike, *, vector_dtype: str = "float32", **options: Any
    ) -> "SearchIndex":
        """Creates an empty index in a new directory.

        Args:
            directory: the directory.
            model: the model that embeds texts.
            vector_dtype: type of the stored embeddings, as in `quantize_vectors`.
            options: fields of `EncodeOptions`; a prompt is added to documents, not to queries. If none is given,
                it is the model's for documents, or its default prompt.

        Raises:
            ValueError: the directory is not empty, or as `SentenceEncoder`.
        """
        make_index(os.fspath(directory), Indexer(os.fspath(model), EncodeOptions(**options), vector_dtype))
        return cls(directory, model)

    def _open(self):
        """Reads the newest version; another process may remove files of an older one at the same time."""
        for attempt in range(_ATTEMPTS):
            described = _read_description(self.directory)
            if "vector_dtype" not in described:
                raise ValueError(f"{self.directory} was written by another version of bert_tf. To fix this, {_REMEDY}.")
            try:
                self._options = EncodeOptions(**described["options"])
                self._model, self._identity = self._path or described["model"], described["identity"]
                self._vector_dtype = described["vector_dtype"]
                segments = list(map(self._segment, described["segments"]))
                folders = {each.folder for each in segments}
                if self._is_another(described):  # created again: its model may differ, and names of segments recur
                    folders = {}
                    for name in ("_query_encoder", "_document_encoder"):
                        vars(self).pop(name, None)
                self._described, self._segments = described, segments
                self._graphs = {folder: graph for folder, graph in self._graphs.items() if folder in folders}
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
        return described.get("created") != self._described.get("created")

    def _is_there(self):
        """Returns whether the directory still holds this index, neither deleted nor created again."""
        try:
            return not self._is_another(_read_description(self.directory))
        except ValueError:
            return False

    def _segment(self, entry):
        name, deleted = entry["name"], entry["deleted"]
        if not all(map(_OURS.fullmatch, filter(None, (name, deleted)))):
            raise ValueError(f"a segment {entry}")
        return Segment(os.path.join(self.directory, name), deleted)

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

    def encoder(self, prompt: str | None = None, prompt_name: str | None = None) -> SentenceEncoder:
        """Returns the encoder for queries.

        Args:
            prompt, prompt_name: prompt for queries; None: the model's for queries, or its default prompt.

        Raises:
            ValueError: the model is not that of the index, or pools differently.
        """
        self._check_model()
        given = dataclasses.replace(self._options, prompt=prompt, prompt_name=prompt_name)
        return SentenceEncoder(self._model, **vars(with_prompt(self._model, given, "query")))

    @functools.cached_property
    def _query_encoder(self):
        return self.encoder()

    @functools.cached_property
    def _document_encoder(self):
        return self.indexer().encoder()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the embeddings that the index has of texts as its documents, float32 [n, D] of length 1.

        They have its prompt, and the precision of its vectors, so that their cosines compare with those of its hits.

        Raises:
            ValueError: as `encoder`.
        """
        return unit_vectors(quantize_vectors(unit(self._document_encoder(texts)), self._vector_dtype))

    def indexer(self) -> Indexer:
        """Returns what creates documents for `add_rows`; raises as `encoder`."""
        self._check_model()
        return Indexer(self._model, self._options, self._vector_dtype)

    def _check_model(self):
        """Raises ValueError if the model is not that of the index, or pools differently."""
        path = self._model
        if not os.path.exists(path) and not os.path.exists(f"{path}.index"):
            raise ValueError(
                f"Model not found: {path}, the model that {self.directory} was created with. "
                "Pass its current path as `model`."
            )
        there = identity_of(path, self._options)
        if differ := [name for name, value in self._identity.items() if there.get(name) != value]:
            raise ValueError(
                f"`model` must be the model that {self.directory} was created with; {path} has different "
                f"{' and '.join(differ)}. Pass that model, or {_REMEDY}."
            )

    def search(self, queries: Sequence[str] | np.ndarray, top_k: int = 10) -> list[list[Hit]]:
        """Finds the documents nearest to each query.

        Args:
            queries: texts, or their embeddings, float [q, D].
            top_k: number of documents per query; all documents if there are fewer.

        Returns:
            For each query its hits, the highest cosine first; for equal cosines, the document that was added first.

        Raises:
            ValueError: the vectors have another width than those of the index, `top_k` is below 1, or as `encoder`.
        """
        if top_k < 1:
            raise ValueError(f"`top_k` must be a whole number from 1 up. Received: {top_k}.")
        is_vectors = isinstance(queries, np.ndarray) and queries.dtype.kind == "f"
        vectors = queries if is_vectors else self._query_encoder(text_list(queries))
        if self._segments and vectors.shape[1:] != ((width := self._segments[0].width),):
            raise ValueError(f"`queries` must be vectors of shape [q, {width}]. Received: {list(vectors.shape)}.")
        nearest = find_nearest(self._segments, vectors, top_k, self._graph if self._approximate else None)
        return [
            [self._hit(score, row) for score, row in zip(*each, strict=True)] for each in zip(*nearest, strict=True)
        ]

    def _hit(self, score, row):
        for segment in self._segments:
            if row < len(segment):
                name, text, payload = (segment.value(column, row) for column in ("ids", "text", "payload"))
                return Hit(name, float(str(score)), text, json.loads(payload or "{}"))
            row -= len(segment)
        raise AssertionError(row)

    def _graph(self, segment):
        """Returns the graph of a segment; None if it cannot be written, as in an index that is mounted read-only."""
        if segment.folder not in self._graphs:
            try:
                if not self._is_there():
                    raise OSError("the index was deleted or created again after this program opened it; call `refresh`")
                self._graphs[segment.folder] = SegmentGraph(segment)
            except OSError as error:
                logging.warning("%s is searched without a graph, which cannot be written: %s", segment.folder, error)
                self._graphs[segment.folder] = None
        return self._graphs[segment.folder]

    def export(self, path: str | os.PathLike) -> None:
        """Writes all documents with their embeddings to a Parquet file, as `export_segments` describes.

        Raises:
            ValueError: the index is empty.
            OSError: the file cannot be written.
        """
        if not len(self):
            raise ValueError(f"{self.directory} has no documents to export. Add some.")
        export_segments(os.fspath(path), self._segments)

    # Changes. Each writes files under new names, and then one new index.json, which makes them count.

    def add(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        payload: Sequence[Mapping[str, Any]] | None = None,
        vectors: np.ndarray | None = None,
    ) -> None:
        """Adds documents; those whose id is in the index are replaced.

        Args:
            ids: their ids, each once.
            texts: their texts.
            payload: further values of each, JSON. If None, there are none.
            vectors: their embeddings by the index's model, float [n, D]. If None, they are computed.

        Raises:
            ValueError: the arguments do not match, or another process is changing the index, or has created it again.
            OSError: a file cannot be written.
        """
        ids, texts = text_list(ids, "ids"), text_list(texts)
        if vectors is None:
            self.refresh()  # to embed with the model of an index that was created again
        payload = [{}] * len(ids) if payload is None else list(payload)
        vectors = self._document_encoder(texts) if vectors is None else np.asarray(vectors, np.float32)
        self._check_shapes(ids, texts, payload, vectors)
        if not np.isfinite(vectors).all():
            raise ValueError("`vectors` must be finite. Received NaN or infinite values.")
        if ids:
            with self._change(adds=True):
                self._check_shapes(ids, texts, payload, vectors)  # another process may have added the first documents
                columns = document_columns(vectors, ids, texts, payload, self._vector_dtype)
                self._add(lambda folder: write_segment(folder, columns))

    def _check_shapes(self, ids, texts, payload, vectors):
        width = self._segments[0].width if self._segments else vectors.shape[-1]
        if not len(ids) == len(texts) == len(payload) or vectors.shape != (len(ids), width):
            raise ValueError(
                f"`ids`, `texts`, `payload` and `vectors` must match. Received {len(ids)} ids, {len(texts)} texts, "
                f"{len(payload)} payloads and vectors of shape {list(vectors.shape)}, where the index has {width} "
                "dimensions."
            )

    def add_rows(self, write_rows: Callable[[str], Any]) -> None:
        """Adds the documents of a table, as `add` does; argument and errors as in `make_index`."""
        with self._change(adds=True):
            rows = os.path.join(self.directory, _ROWS)
            write_rows(rows)  # an interrupted job resumes there
            self._add(lambda folder: unpack_segment(folder, rows))
            os.remove(rows)

    def delete(self, ids: Sequence[str]) -> None:
        """Deletes documents.

        Raises:
            ValueError: an id is not in the index, which is unchanged, or another process is changing it.
            OSError: a file cannot be written.
        """
        ids = text_list(ids, "ids")
        with self._change():
            entries, found = self._without(lambda: [ids])
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
                self._merge()
            finally:
                self._clean()

    def _add(self, write: Callable[[str], Any]):
        name = f"segment-{self._described['version'] + 1:06d}"
        write(os.path.join(self.directory, name))
        new = Segment(os.path.join(self.directory, name))
        entries = self._described["segments"]
        if entries:
            entries, _ = self._without(new.id_blocks)
        self._commit([*entries, {"name": name, "deleted": None}])

    def _without(self, id_blocks):
        """Returns the segments' entries without some documents, and which of them were there, bool [k]."""
        entries, there = [], False
        for entry, segment in zip(self._described["segments"], self._segments, strict=True):
            rows = np.concatenate([segment.find(ids) for ids in id_blocks()])
            there |= rows >= 0
            if (rows >= 0).any():
                deleted = np.zeros(len(segment), bool) if segment.deleted is None else np.array(segment.deleted)
                deleted[rows[rows >= 0]] = True
                entry = {**entry, "deleted": f"deleted-{self._described['version'] + 1:06d}.npy"}
                np.save(os.path.join(segment.folder, entry["deleted"]), deleted)
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
        """Removes the files of interrupted changes and of older versions; readers that have opened them keep them."""
        described = _read_description(self.directory)
        known = {each["name"]: each["deleted"] for each in described["segments"]}
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            if _OURS.fullmatch(name) and name not in known:
                shutil.rmtree(path)
            elif name == _ROWS or is_temporary(name):
                os.remove(path)
        for name, deleted in known.items():
            for file in os.listdir(os.path.join(self.directory, name)):
                if _OURS.fullmatch(file) and file != deleted:
                    os.remove(os.path.join(self.directory, name, file))


def _is_sparse(segment):
    return segment.num_live < len(segment) / 2


def _read_description(directory):
    path = os.path.join(directory, INDEX_FILE)
    if not os.path.exists(directory):
        raise ValueError(f"The index {directory} does not exist. Check the path.")
    return read_object(path, "the description of an index from `bert-tf embed`", _REMEDY)


def _write_description(directory, described):
    write_text(os.path.join(directory, INDEX_FILE), json.dumps(described, indent=2, ensure_ascii=False) + "\n")
