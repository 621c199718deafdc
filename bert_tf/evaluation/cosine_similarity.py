"""Cosine similarity of vectors, and vectors of length 1."""

import numpy as np

_MARGIN = 1e4  # between lengths that are computed directly and the roots of the smallest and the largest number


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Computes the cosine similarity of n pairs of vectors, float [n]; both are float [n, D]."""
    return (unit(one) * unit(other)).sum(-1)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Normalizes vectors, float [n, D], to length 1, however large or small they are; zero vectors are unchanged."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        limits = np.finfo(lengths.dtype)  # squares of numbers beyond its roots overflow, or lose their digits
        is_safe = (lengths > np.sqrt(limits.tiny) * _MARGIN) & (lengths < np.sqrt(limits.max) / _MARGIN)
        if not is_safe.all():
            largest = np.abs(vectors).max(-1, keepdims=True, initial=0)
            vectors = vectors / np.where(~is_safe & (largest > 0), largest, 1).astype(lengths.dtype)
            lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1)
