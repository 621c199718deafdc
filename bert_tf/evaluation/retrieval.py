"""How well texts find what belongs to them: recall among the first k, and the mean reciprocal rank; numpy alone."""

from collections.abc import Sequence

import numpy as np

_BLOCK = 1024  # queries held against all candidates at a time
_SAME = 1e-6  # cosines this near are equal: a text that occurs twice is not worse than itself


def ranks(queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Returns the place of each query's own candidate when all are sorted by cosine, int64 [q], from 1.

    Args:
        queries: float [q, D].
        candidates: float [c, D], c >= q: the n-th is what the n-th query looks for.
    """
    queries, candidates = unit(queries), unit(candidates)
    found = []
    for start in range(0, len(queries), _BLOCK):
        cosines = queries[start : start + _BLOCK] @ candidates.T
        own = cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))]
        found.append(1 + (cosines > own[:, None] + _SAME).sum(1))
    return np.concatenate(found)


def retrieval(places: np.ndarray, at: Sequence[int] = (1, 10)) -> dict[str, float]:
    """Scores places, as `ranks` gives them.

    Args:
        places: int [q], from 1.
        at: the numbers of results that recall is wanted for.

    Returns:
        {"recall_at_k": share of places up to k, for each k; "mrr": mean of 1 / place}.
    """
    recalls = {f"recall_at_{k}": float((places <= k).mean()) for k in at}
    return {**recalls, "mrr": float((1 / places).mean())}


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns the cosine of each of n pairs of vectors, float [n]; both are float [n, D]."""
    return (unit(one) * unit(other)).sum(-1)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Returns vectors, float [n, D], each divided by its length; one of length 0 stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
