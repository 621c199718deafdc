"""Token vectors from co-occurrence in a corpus, by which word embeddings may be initialized.

The positive pointwise mutual information of tokens and their neighbours, factorized (Levy and Goldberg 2014, "Neural
Word Embedding as Implicit Matrix Factorization"; Levy et al. 2015, "Improving Distributional Similarity with Lessons
Learned from Word Embeddings", whose smoothing and root of the singular values these are).
"""

from collections.abc import Iterable

import numpy as np

_NEIGHBOURS = 4096  # ids that count as neighbours, the most frequent ones: others are rare, and cost memory
_SMOOTHING = 0.75  # power of how often a neighbour is there, or the rarest would have the highest information
_OVERSAMPLING, _ROUNDS = 16, 4  # of the randomized factorization (Halko et al. 2011, algorithm 4.4)


class Neighbours:
    """Counts how often tokens stand near each other; a pair at distance d counts 1 / d.

    Memory is 4 bytes for each token of the vocabulary and each of 4,096 neighbours, and as much again at the end: 260
    MB for 8,000 tokens.

    Args:
        vocab_size: V; ids lie below.
        frequent: the ids that count as neighbours; see `frequent_of`.
        window: the longest distance.
    """

    def __init__(self, vocab_size: int, frequent: np.ndarray, window: int = 5):
        self.window = window
        self.columns = np.full(vocab_size, -1)
        self.columns[frequent] = np.arange(len(frequent))
        self.counts = np.zeros((vocab_size, len(frequent)), np.float32)

    def add(self, ids: np.ndarray):
        """Counts the pairs in rows of ids, int [N, S]; ids that are no neighbours may be anything, padding too."""
        for distance in range(1, self.window + 1):
            for tokens, near in ((ids[:, :-distance], ids[:, distance:]), (ids[:, distance:], ids[:, :-distance])):
                columns = self.columns[near]
                indices = (tokens * self.counts.shape[1] + columns)[columns >= 0]
                indices, times = np.unique(indices, return_counts=True)
                self.counts.reshape(-1)[indices] += times / distance

    def vectors(self, width: int, seed: int = 0) -> np.ndarray:
        """Returns float32 [V, width], each row of mean square 1, or 0 where a token has no neighbours.

        Raises:
            ValueError: there are fewer neighbours than numbers in a vector.
        """
        if width > self.counts.shape[1]:
            raise ValueError(
                f"Vectors of neighbours must be no wider than there are kinds of pieces in the records, "
                f"{self.counts.shape[1]}. Received a width of {width}; give more text, or `start_embeddings=random`."
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
        """Returns max(0, log(P(token, neighbour) / (P(token) P(neighbour)))), float32 [V, neighbours]."""
        of_piece, of_near = self.counts.sum(1, keepdims=True), self.counts.sum(0) ** _SMOOTHING
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.counts / of_piece  # one copy, changed in place
            found /= of_near / of_near.sum()
            np.log(found, out=found)
        np.nan_to_num(found, copy=False, nan=0.0, neginf=0.0)
        return np.maximum(found, 0.0, out=found)


def frequent_of(counts: np.ndarray, special: Iterable[int]) -> np.ndarray:
    """Returns the ids, most frequent first, that count as neighbours.

    Args:
        counts: int [V], how often each id is there.
        special: ids that are no words, such as padding.
    """
    counts = np.array(counts)
    counts[list(special)] = 0
    order = np.argsort(-counts, kind="stable")[:_NEIGHBOURS]
    return order[counts[order] > 0]
