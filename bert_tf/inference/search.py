"""Semantic search: the documents of an index that are nearest to texts."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.inference.document_index import DocumentIndex, make_index
from bert_tf.inference.embedders import Indexer
from bert_tf.inference.nearest_neighbors import find_nearest
from bert_tf.inference.segment_graphs import SegmentGraph, check_usearch
from bert_tf.inference.sentence_encoder import SentenceEncoder, identity_of, with_prompt
from bert_tf.inference.settings import EncodeOptions
from bert_tf.inference.vector_types import as_vectors, quantize_vectors, unit_vectors
from bert_tf.utils.files import brief, path_text
from bert_tf.utils.text_inputs import text_list
from bert_tf.utils.token_counts import TokenCountLog


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


class SearchIndex(DocumentIndex):
    """Semantic search over documents on disk, which can be added, replaced and deleted by id.

        index = SearchIndex("news.index")
        index.add(["17"], ["Floods close the valley road."], [{"source": "radio"}])
        [hits] = index.search(["floods in spring"], top_k=5)
        print(hits[0].id, hits[0].score, hits[0].text, hits[0].payload)
        index.delete(["17"])

    Vectors and texts are memory-mapped. An object is a snapshot of the documents, taken when it was opened, or last
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
        self._path, self._approximate, self._graphs = model and resolve_model(model, "model"), approximate, {}
        if approximate:
            check_usearch()
        super().__init__(directory)

    @classmethod
    def create(
        cls, directory: str | os.PathLike, model: str | os.PathLike, *, vector_dtype: str = "float32", **options: Any
    ) -> "SearchIndex":
        """Creates an empty index in a new directory.

        Args:
            directory: the directory.
            model: the model that embeds texts.
            vector_dtype: type of the stored embeddings, as in `quantize_vectors`.
            options: fields of `EncodeOptions`; a prompt is added to documents, not to queries. If no prompt is given,
                the model's prompt for documents, or its default prompt, is used.

        Raises:
            ValueError: the directory is not empty, or as `SentenceEncoder`.
        """
        indexer = Indexer(resolve_model(model, "model"), EncodeOptions(**options), vector_dtype)
        make_index(path_text(directory, "directory"), indexer)
        return cls(directory, model)

    def _open(self):
        before = self._described
        super()._open()
        folders = {each.folder for each in self._segments}
        if self._is_another(before):  # its model may differ, and names of segments recur
            folders = {}
            for name in ("_query_encoder", "_document_encoder"):
                vars(self).pop(name, None)
        self._graphs = {folder: graph for folder, graph in self._graphs.items() if folder in folders}

    def encoder(self, prompt: str | None = None, prompt_name: str | None = None) -> SentenceEncoder:
        """Returns the encoder for queries.

        Args:
            prompt, prompt_name: prompt for queries. If None, the model's prompt for queries, or its default prompt.

        Raises:
            ValueError: the model is not that of the index, or pools differently.
        """
        model, given = self._checked_model(), dataclasses.replace(self._options, prompt=prompt, prompt_name=prompt_name)
        return SentenceEncoder(model, **vars(with_prompt(model, given, "query")))

    @property
    def query_counts(self) -> TokenCountLog:
        """Truncated texts and unknown tokens among the queries so far."""
        return self._query_encoder.token_counts

    @functools.cached_property
    def _query_encoder(self):
        return self.encoder()

    @functools.cached_property
    def _document_encoder(self):
        return self.indexer().encoder()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the embeddings that texts would have as documents of the index, float32 [n, D] of length 1.

        The index's prompt and vector precision apply, so that cosines are comparable with those of hits.

        Raises:
            ValueError: as `encoder`.
        """
        return unit_vectors(quantize_vectors(unit(self._document_encoder(texts)), self._vector_dtype))

    def indexer(self) -> Indexer:
        """Returns the indexer that creates documents for `add_rows`; raises as `encoder`."""
        return Indexer(self._checked_model(), self._options, self._vector_dtype)

    def _checked_model(self):
        """Returns the path of the model; raises ValueError if it is not that of the index, or pools differently."""
        path = self._path or self._model
        if not os.path.exists(path) and not os.path.exists(f"{path}.index"):
            raise ValueError(
                f"Model not found: {path}, the model that {self.directory} was created with. "
                "Pass its current path as `model`."
            )
        there = identity_of(path, self._options)
        if differ := [name for name, value in self._identity.items() if there.get(name) != value]:
            raise ValueError(
                f"`model` must be the model that {self.directory} was created with; {path} has different "
                f"{' and '.join(differ)}. Pass that model, or create the index again with `bert-tf embed`."
            )
        return path

    def search(self, queries: Sequence[str] | np.ndarray, top_k: int = 10) -> list[list[Hit]]:
        """Finds the documents nearest to each query.

        Args:
            queries: texts, or their embeddings, float [q, D].
            top_k: number of documents per query; all documents if there are fewer.

        Returns:
            For each query its hits, the highest cosine first; for equal cosines, the document that was added first.

        Raises:
            ValueError: the vectors have another width than those of the index or are not finite, `top_k` is below 1, or
                as `encoder`.
        """
        if top_k < 1:
            raise ValueError(f"`top_k` must be a positive integer; got {top_k}.")
        is_vectors = isinstance(queries, np.ndarray) and queries.dtype.kind == "f"
        queries = queries if is_vectors else text_list(queries)
        vectors = as_vectors(queries if is_vectors else self._query_encoder(queries))
        if self._segments and vectors.shape[1:] != ((width := self._segments[0].width),):
            raise ValueError(f"`queries` must be vectors of shape [q, {width}]; got {list(vectors.shape)}.")
        if wrong := np.flatnonzero(~np.isfinite(vectors).all(-1)).tolist():
            raise ValueError(
                f"Embeddings of `queries` must be finite; got NaN or infinite values for {len(wrong)} of "
                f"{len(vectors)} queries, such as query {wrong[0]} (counted from 0)"
                f"{'' if is_vectors else f': {brief(queries[wrong[0]])}'}. Correct these embeddings, check whether the "
                "model's weights are damaged, or compute the embeddings in float32."
            )
        nearest = find_nearest(self._segments, vectors, top_k, self._graph if self._approximate else None)
        return [
            [self._hit(score, row) for score, row in zip(*each, strict=True)] for each in zip(*nearest, strict=True)
        ]

    def _hit(self, score, row):
        for segment in self._segments:
            if row < len(segment):
                name, text, payload = (segment.value(column, row) for column in ("ids", "text", "payload"))
                score = float(str(score))  # a float32 in its own decimals: 0.1, not 0.10000000149
                try:
                    return Hit(name, score, text, json.loads(payload or "{}"))
                except (ValueError, RecursionError) as error:
                    raise segment.damage(f"payload of row {row}: {error}") from error
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
            ValueError: the arguments do not match, embeddings are not finite, or another process is changing the index,
                or has created it again; or as `encoder`.
            OSError: a file cannot be written.
        """
        if vectors is None:
            ids, texts = text_list(ids, "ids"), text_list(texts)
            self.refresh()  # to embed with the model of an index that was created again
            vectors = self._document_encoder(texts)
        super().add(ids, texts, payload, vectors)
