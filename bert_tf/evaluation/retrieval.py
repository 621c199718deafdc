"""Retrieval metrics: recall among the first k, and the mean reciprocal rank."""

from collections.abc import Sequence

import numpy as np

from bert_tf.evaluation.cosine_similarity import unit

_BLOCK = 1024  # queries compared with all candidates at a time
_SAME = 1e-6  # cosines this close are equal: a text that occurs twice ties with itself


def ranks(
    queries: np.ndarray,
    candidates: np.ndarray,
    query_texts: np.ndarray | None = None,
    candidate_texts: np.ndarray | None = None,
) -> np.ndarray:
    """Computes the rank of each query's matching candidate by cosine similarity, int64 [q], from 1.

    Args:
        queries: float [q, D].
        candidates: float [c, D], c >= q: the n-th candidate matches the n-th query.
        query_texts, candidate_texts: int [q] and [c], equal for equal texts. A candidate that occurs several times
            counts once, and the matches of equal queries do not count for each other. If None, all texts differ.
    """
    queries, candidates, found, matches = unit(queries), unit(candidates), [], {}
    if query_texts is None or candidate_texts is None:
        query_texts, candidate_texts = np.arange(len(queries)), np.arange(len(candidates))
    _, first, columns = np.unique(candidate_texts, return_index=True, return_inverse=True)
    candidates, columns = candidates[first], columns[: len(queries)]
    for query, column in zip(query_texts.tolist(), columns.tolist(), strict=True):
        matches.setdefault(query, []).append(column)
    for start in range(0, len(queries), _BLOCK):
        cosines = queries[start : start + _BLOCK] @ candidates.T
        own = cosines[np.arange(len(cosines)), columns[start : start + _BLOCK]]
        for row, query in enumerate(query_texts[start : start + _BLOCK].tolist()):
            cosines[row, matches[query]] = -np.inf
        found.append(1 + (cosines > own[:, None] + _SAME).sum(1))
    return np.concatenate(found)


def retrieval(found_ranks: np.ndarray, at: Sequence[int] = (1, 10)) -> dict[str, float]:
    """Computes recall at k and the mean reciprocal rank from the output of `ranks`.

    Args:
        found_ranks: int [q], from 1.
        at: the values of k for recall.

    Returns:
        {"recall_at_k": fraction of ranks up to k, for each k; "mrr": mean of 1 / rank}.
    """
    recalls = {f"recall_at_{k}": float((found_ranks <= k).mean()) for k in at}
    return {**recalls, "mrr": float((1 / found_ranks).mean())}
