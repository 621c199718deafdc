"""Nearest neighbors in the segments of a search index: of all documents, or of those that graphs of USearch propose.

    segment-000001/graph.usearch    an HNSW graph (Malkov and Yashunin 2018) over all rows, with copies of their vectors

The graph proposes documents, whose cosines are then computed exactly. It is written when it is first needed and
memory-mapped from then on; segments never change, so it stays valid.
"""

import os
from collections.abc import Callable, Iterable

import numpy as np
from absl import logging

from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.inference.graph_file import check_graph_file
from bert_tf.inference.index_segments import Segment
from bert_tf.inference.vector_types import as_vectors, quantize_vectors, unit_vectors
from bert_tf.utils.extras import require_packages
from bert_tf.utils.files import temporary_path
from bert_tf.utils.names import number_of
from bert_tf.utils.progress import Countdown
from bert_tf.utils.resources import cores

GRAPH_FILE = "graph.usearch"
_BLOCK, _COSINES = 2**16, 2**22  # embeddings compared at a time with all queries, and maximum number of cosines
_LEAST_ROWS = 10_000  # of a segment with a graph; fewer are compared just as fast without one
_GRAPH_BLOCK = 2**14  # rows added to a graph at a time
_EXPANSION = 128  # candidates that a search keeps; more of them find more of the nearest documents, but take longer
# Stored type -> metric and type of the graph's vectors, and proposals per document to find: bits rank them worst.
_KINDS = {"float32": ("cos", "f16", 2), "int8": ("cos", "i8", 2), "uint8": ("hamming", "b1", 10)}


def find_nearest(
    segments: Iterable[Segment],
    queries: np.ndarray,
    top_k: int,
    get_graph: Callable[[Segment], "SegmentGraph | None"] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the documents whose vectors are nearest to those of queries.

    Args:
        segments: the documents.
        queries: [q, D], of any length.
        top_k: number of documents per query, from 1.
        get_graph: returns the graph of a large segment, or None if it has none. If None, all documents are compared.

    Returns:
        Cosines float32 [q, k], the highest first, and the documents' rows over all segments, int64 [q, k], where k is
        `top_k` or the number of documents, if there are fewer. For equal cosines, the first row comes first.
    """
    queries, first = unit(as_vectors(queries)).astype(np.float32), 0
    best = np.zeros([len(queries), 0], np.float32), np.zeros([len(queries), 0], np.int64)
    for segment in segments:
        for scores, rows in _compare(segment, queries, top_k, get_graph):
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(scores.sum()):  # NaN is neither higher nor lower than others
                    raise segment.damage("embeddings with NaN or infinite values")
            pairs = zip(best, (scores, first + rows), strict=True)
            scores, rows = (np.concatenate(pair, 1) for pair in pairs)
            order = _order(scores, top_k)
            best = np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
        first += len(segment)
    return best


def _compare(segment, queries, top_k, get_graph):
    """Yields cosines and rows of a segment's documents, [q, k] each: of all, or of those that a graph proposes."""
    if get_graph and len(queries) and len(segment) >= _LEAST_ROWS and segment.num_live:
        graph = get_graph(segment)
        if graph and (found := graph.nearest(segment, queries, top_k)) is not None:
            yield found
            return
    size = max(1, min(_BLOCK, _COSINES // max(1, len(queries))))
    for start in range(0, len(segment), size):
        live = segment.live_rows(start, start + size)
        block = np.asarray(segment.vectors[start : start + size])
        block = unit_vectors(block if len(live) == len(block) else block[live - start])
        with np.errstate(over="ignore", invalid="ignore"):  # of damaged ones, which are refused
            scores = queries @ block.T
        yield scores, np.broadcast_to(live, [len(queries), len(live)])


def _order(scores, k):
    """Returns the places of the k highest scores of each row, the first of equal ones first, int64 [q, k]."""
    if scores.shape[1] <= k:
        return np.argsort(-scores, axis=1, kind="stable")
    order = np.empty([len(scores), k], np.int64)
    for row, lowest in enumerate(np.partition(scores, -k, axis=1)[:, -k]):
        places = np.flatnonzero(scores[row] >= lowest)  # few: sorting all would take most of the search's time
        order[row] = places[np.argsort(-scores[row, places], kind="stable")[:k]]
    return order


# === Graphs ===


def check_usearch():
    """Raises ValueError if USearch is not installed."""
    require_packages("`approximate`", "usearch.index")


class SegmentGraph:
    """Finds the probably nearest documents of a segment.

    Args:
        segment: a segment with at least one row. Its graph is created if it does not exist.

    Raises:
        ValueError: USearch is not installed, or the graph does not belong to the segment.
        OSError: the graph cannot be written.
    """

    def __init__(self, segment: Segment):
        check_usearch()
        path, self._graph = os.path.join(segment.folder, GRAPH_FILE), _empty_graph(segment)
        if not os.path.exists(path):
            _write_graph(segment, path)
        try:
            check_graph_file(path, len(segment), self._graph)
            self._graph.view(path)
        except (ValueError, RuntimeError) as error:  # USearch's own is a RuntimeError
            raise ValueError(
                f"{path} is damaged or not the graph of its segment: {error}. Remove the file; it will be recreated."
            ) from error

    def nearest(
        self, segment: Segment, queries: np.ndarray, top_k: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns the probably nearest documents of queries.

        Args:
            segment: that of the graph; its deleted rows may have changed.
            queries: float32 [q, D], each of length 1.
            top_k: number of documents per query, from 1.

        Returns:
            Cosines float32 [q, k] and rows int64 [q, k] in no particular order, where k is `top_k` or the number of
            documents, if there are fewer. None if the graph finds fewer.
        """
        stored = segment.vectors.dtype.name
        factor, count = _KINDS[stored][2], min(top_k, segment.num_live)
        asked = factor * count
        while True:
            asked = min(asked, len(segment))
            proposals = [rows[segment.is_live(rows)] for rows in self._search(queries, stored, asked)]
            if all(len(rows) >= count for rows in proposals):
                break
            if asked == len(segment):
                return None
            asked *= 2  # deleted rows were among them
        nearest = [_best(segment, *pair, count) for pair in zip(queries, proposals, strict=True)]
        cosines, rows = zip(*nearest, strict=True)
        return np.stack(cosines), np.stack(rows)

    def _search(self, queries, stored, count):
        """Returns the rows that the graph proposes for each query, int64."""
        self._graph.expansion_search = max(_EXPANSION, count)
        dtype = "binary" if stored == "uint8" else stored
        found = self._graph.search(quantize_vectors(queries, dtype), count, threads=cores())
        matches = [found[n] for n in range(len(queries))] if len(queries) > 1 else [found]
        return [each.keys.astype(np.int64) for each in matches]


def _best(segment, query, rows, count):
    """Returns the highest cosines among some rows, and these rows."""
    rows = np.sort(rows)
    scores = unit_vectors(segment.vectors[rows]) @ query
    order = np.argsort(-scores, kind="stable")[:count]
    return scores[order], rows[order]


def _empty_graph(segment):
    from usearch.index import Index

    metric, dtype, _ = _KINDS[segment.vectors.dtype.name]
    return Index(ndim=segment.width, metric=metric, dtype=dtype)


def _write_graph(segment, path):
    logging.info(
        "Creating the graph of %s in %s, once; it takes memory for all vectors.",
        *(number_of(len(segment), "vector"), segment.folder),
    )
    graph = _empty_graph(segment)
    with Countdown("Creating", "vectors", len(segment)) as progress:
        for start in range(0, len(segment), _GRAPH_BLOCK):
            block = np.asarray(segment.vectors[start : start + _GRAPH_BLOCK])
            graph.add(np.arange(start, start + len(block)), block, threads=cores())
            progress.advance(len(block))
    with temporary_path(path) as temporary:
        try:
            graph.save(temporary)
        except RuntimeError as error:  # of a full disk, for example
            raise OSError(f"{path} cannot be written: {error}") from error
        os.replace(temporary, path)
