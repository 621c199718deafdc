"""Nearest neighbors in the segments of a search index, by exact cosines."""

from collections.abc import Callable, Iterable

import numpy as np

from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.inference.index_segments import Segment
from bert_tf.inference.segment_graphs import SegmentGraph
from bert_tf.inference.vector_types import as_vectors, unit_vectors

_BLOCK, _COSINES = 2**16, 2**22  # embeddings compared at a time with all queries, and maximum number of cosines
_LEAST_ROWS = 10_000  # of a segment with a graph; fewer are compared just as fast without one


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
    """Returns the places of the k highest scores of each row, in ties the first one first, int64 [q, k]."""
    if scores.shape[1] <= k:
        return np.argsort(-scores, axis=1, kind="stable")
    order = np.empty([len(scores), k], np.int64)
    for row, lowest in enumerate(np.partition(scores, -k, axis=1)[:, -k]):
        places = np.flatnonzero(scores[row] >= lowest)  # few: sorting all would take most of the search's time
        order[row] = places[np.argsort(-scores[row, places], kind="stable")[:k]]
    return order
