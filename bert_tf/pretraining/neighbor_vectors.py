"""Vectors of tokens from their neighbors: their positive pointwise mutual information, factorized.

Levy and Goldberg 2014, "Neural Word Embedding as Implicit Matrix Factorization"; Levy et al. 2015, "Improving
Distributional Similarity with Lessons Learned from Word Embeddings", from which the smoothing and the root of the
singular values come.
"""

from collections.abc import Iterable

import numpy as np

_NEIGHBOURS = 4096  # number of neighbor ids, the most frequent ones: others are rare, and cost memory
_SMOOTHING = 0.75  # exponent of neighbor frequencies, without which the rarest would have the highest information
_OVERSAMPLING, _ROUNDS = 16, 4  # of the randomized factorization (Halko et al. 2011, algorithm 4.4)


class Neighbors:
    """Counts co-occurrences of tokens; a pair at distance d counts 1 / d.

    Memory use is 4 bytes for each token of the vocabulary and each of 4,096 neighbors, and temporarily the same again
    at the end: 260 MB for 8,000 tokens.

    Args:
        vocab_size: the vocabulary size V; ids are below it.
        frequent: the ids of neighbors; see `find_frequent`.
        window: maximum distance.
    """

    def __init__(self, vocab_size: int, frequent: np.ndarray, window: int = 5):
        self.window = window
        self.columns = np.full(vocab_size, -1)
        self.columns[frequent] = np.arange(len(frequent))
        self.counts = np.zeros((vocab_size, len(frequent)), np.float32)

    def add(self, ids: np.ndarray):
        """Counts the pairs in rows of ids, int [N, S]; non-neighbor ids may be arbitrary, including padding."""
        for distance in range(1, self.window + 1):
            for tokens, near in ((ids[:, :-distance], ids[:, distance:]), (ids[:, distance:], ids[:, :-distance])):
                columns = self.columns[near]
                positions = (tokens * self.counts.shape[1] + columns)[columns >= 0]
                positions, times = np.unique(positions, return_counts=True)
                self.counts.reshape(-1)[positions] += times / distance

    def vectors(self, width: int, seed: int = 0) -> np.ndarray:
        """Returns embeddings, float32 [V, width], with mean square 1 per row, or 0 for a token without neighbors.

        Raises:
            ValueError: there are fewer neighbors than `width`.
        """
        if width > self.counts.shape[1]:
            raise ValueError(
                "The width of the neighbor embeddings must be at most the number of distinct tokens in the records, "
                f"{self.counts.shape[1]}; got {width}; use more text, or `start_embeddings=random`."
            )
        information = self._information()
        rng, size = np.random.default_rng(seed), min(width + _OVERSAMPLING, self.counts.shape[1])
        basis = rng.normal(size=(self.counts.shape[1], size)).astype(np.float32)
        for _ in range(_ROUNDS):
            basis, _ = np.linalg.qr(information.T @ (information @ basis))
        left, values, _ = np.linalg.svd(information @ basis, full_matrices=False)
        vectors = left[:, :width] * np.sqrt(values[:width])
        norms = np.sqrt(np.mean(vectors**2, axis=1, keepdims=True))
        return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 1e-6 * norms.max(initial=0))

    def _information(self):
        """Returns the positive PMI max(0, log(P(token, neighbor) / (P(token) P(neighbor)))), [V, neighbors]."""
        of_token, of_near = self.counts.sum(1, keepdims=True), self.counts.sum(0) ** _SMOOTHING
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.counts / of_token  # one copy, modified in place
            found /= of_near / of_near.sum()
            np.log(found, out=found)
        np.nan_to_num(found, copy=False, nan=0.0, neginf=0.0)
        return np.maximum(found, 0.0, out=found)


def find_frequent(counts: np.ndarray, special: Iterable[int]) -> np.ndarray:
    """Returns the ids to use as neighbors, most frequent first.

    Args:
        counts: int [V], frequency of each id.
        special: ids that are not words, such as padding.
    """
    counts = np.array(counts)
    counts[list(special)] = 0
    order = np.argsort(-counts, kind="stable")[:_NEIGHBOURS]
    return order[counts[order] > 0]
