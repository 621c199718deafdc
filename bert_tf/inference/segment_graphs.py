"""Graphs of USearch that propose the nearest neighbors in a segment of a search index.

    segment-000001/graph.usearch    an HNSW graph (Malkov and Yashunin 2018) over all rows, with copies of their vectors

The graph proposes documents, whose cosines are then computed exactly. It is written when it is first needed and
memory-mapped from then on; segments never change, so it stays valid.
"""

import os

import numpy as np
from absl import logging

from bert_tf.inference.graph_file import check_graph_file
from bert_tf.inference.index_segments import Segment
from bert_tf.inference.vector_types import quantize_vectors, unit_vectors
from bert_tf.utils.counts import number_of
from bert_tf.utils.extras import require_packages
from bert_tf.utils.files import temporary_path
from bert_tf.utils.progress import Countdown
from bert_tf.utils.resources import cores

GRAPH_FILE = "graph.usearch"
_GRAPH_BLOCK = 2**14  # rows added to a graph at a time
_EXPANSION = 128  # candidates that a search keeps; more of them find more of the nearest documents, but take longer
# Stored type -> metric and type of the graph's vectors, and proposals per document to find: bits rank them worst.
_KINDS = {"float32": ("cos", "f16", 2), "int8": ("cos", "i8", 2), "uint8": ("hamming", "b1", 10)}


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
        found = [_best(segment, *pair, count) for pair in zip(queries, proposals, strict=True)]
        return tuple(np.stack(each) for each in zip(*found, strict=True))

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
