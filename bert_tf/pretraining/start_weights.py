"""Non-random initial weights of a new model: word and position embeddings, and the head's bias."""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
from absl import logging

from bert_tf.checkpoints.loading import ModelDescription
from bert_tf.checkpoints.names.rows import WORDS
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.batches import Records

_MOST = 20_000_000  # maximum positions to read: about 80 MB of ids, a minute of one core
_ROWS = 8  # sequences at a time; the remainder is ignored
_POSITIONS = "bert/embeddings/position_embeddings"
_BIASES = ("cls/predictions/output_bias", "generator/cls/predictions/output_bias")
_LONGEST_WAVE = 10_000.0  # positions per radian of the slowest wave (Vaswani et al. 2017, section 3.5)


def start_weights(
    embeddings: str, positions: str, records: Records, model: ModelDescription, seed: int
) -> Callable | None:
    """Returns a function that computes {variable path: initial array}, or None if all weights begin random.

    Args:
        embeddings: initialization of word embeddings, one of `names.START_EMBEDDINGS`.
        positions: initialization of position embeddings, one of `names.START_POSITIONS`.
        records: the training records.
        model: description of the model to pretrain.
        seed: seed of the random numbers.
    """
    makers = []
    if embeddings != "random":
        makers.append(lambda: _word_weights(records, model, seed))
    if positions != "random":
        if not model.config.has_position_table:
            raise ValueError(
                f"`start_positions={positions}` requires a position table, but this model has none "
                "(global_rope_theta, or position_biased_input false). Remove `start_positions`."
            )
        makers.append(lambda: {_POSITIONS: make_sinusoids(model.config)})
    return (lambda: {path: array for make in makers for path, array in make().items()}) if makers else None


def make_sinusoids(config: EncoderConfig) -> np.ndarray:
    """Returns sinusoidal position embeddings, sines then cosines, float32 [P, E], scaled like the random ones.

    A linear map can compute the distance between two positions from them, so a layer need not first learn which
    positions are adjacent.
    """
    half = (config.embedding_width + 1) // 2
    waves = _LONGEST_WAVE ** -(np.arange(half) / half)
    angles = np.arange(config.max_position_embeddings)[:, np.newaxis] * waves
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, : config.embedding_width]
    return (table * np.sqrt(2) * config.initializer_range).astype(np.float32)


def _word_weights(records, model, seed):
    """Returns {path: array} of word embeddings and the masked LM head's bias, the tokens' log frequencies."""
    config, names = model.config, set(model.tokenizer.special_tokens.values())
    special = [number for number, token in enumerate(model.tokenizer.vocab) if token in names]
    ids = np.concatenate(_read_ids(records))
    counts = np.bincount(ids.reshape(-1), minlength=config.vocab_size)
    counts[special] = 0
    neighbours = Neighbours(config.vocab_size, find_frequent(counts, special))
    for part in np.array_split(ids, max(1, ids.size // 1_000_000)):
        neighbours.add(part)
    found = neighbours.vectors(config.embedding_width, seed)
    known = (np.abs(found).sum(1) > 0) & (np.bincount(special, minlength=config.vocab_size) == 0)
    logging.info("%d of %d word embeddings are initialized from their neighbors in %d positions of the records.",
                 known.sum(), config.vocab_size, ids.size)  # fmt: skip
    random = np.random.default_rng(seed).normal(size=found.shape).astype(np.float32)
    bias = np.log((counts + 1) / (counts + 1).sum()).astype(np.float32)
    words = np.where(known[:, np.newaxis], found, random) * np.float32(config.initializer_range)
    return {WORDS: words} | dict.fromkeys(_BIASES, bias)


def _read_ids(records):
    """Returns the ids of the sequences to read, int32 [_ROWS, S] each."""
    most = _MOST // (_ROWS * records.max_seq_length)
    ids = [batch["input_ids"].numpy() for batch in itertools.islice(records.in_order(_ROWS), most)]
    if not ids:
        raise ValueError(
            f"`start_embeddings=neighbours` requires at least {_ROWS} sequences, but there are fewer in "
            f"{', '.join(records.paths[:3])}. Use more text."
        )
    return ids


# === Vectors of neighbours ===
# The positive pointwise mutual information of tokens and their neighbours, factorized (Levy and Goldberg 2014, "Neural
# Word Embedding as Implicit Matrix Factorization"; Levy et al. 2015, "Improving Distributional Similarity with Lessons
# Learned from Word Embeddings", whose smoothing and root of the singular values these are).


_NEIGHBOURS = 4096  # number of neighbour ids, the most frequent ones: others are rare, and cost memory
_SMOOTHING = 0.75  # exponent of neighbour frequencies, without which the rarest would have the highest information
_OVERSAMPLING, _ROUNDS = 16, 4  # of the randomized factorization (Halko et al. 2011, algorithm 4.4)


class Neighbours:
    """Counts co-occurrences of tokens; a pair at distance d counts 1 / d.

    Memory use is 4 bytes for each token of the vocabulary and each of 4,096 neighbours, and temporarily the same again
    at the end: 260 MB for 8,000 tokens.

    Args:
        vocab_size: the vocabulary size V; ids are below it.
        frequent: the ids of neighbours; see `find_frequent`.
        window: maximum distance.
    """

    def __init__(self, vocab_size: int, frequent: np.ndarray, window: int = 5):
        self.window = window
        self.columns = np.full(vocab_size, -1)
        self.columns[frequent] = np.arange(len(frequent))
        self.counts = np.zeros((vocab_size, len(frequent)), np.float32)

    def add(self, ids: np.ndarray):
        """Counts the pairs in rows of ids, int [N, S]; non-neighbour ids may be arbitrary, including padding."""
        for distance in range(1, self.window + 1):
            for tokens, near in ((ids[:, :-distance], ids[:, distance:]), (ids[:, distance:], ids[:, :-distance])):
                columns = self.columns[near]
                positions = (tokens * self.counts.shape[1] + columns)[columns >= 0]
                positions, times = np.unique(positions, return_counts=True)
                self.counts.reshape(-1)[positions] += times / distance

    def vectors(self, width: int, seed: int = 0) -> np.ndarray:
        """Returns embeddings, float32 [V, width], with mean square 1 per row, or 0 for a token without neighbours.

        Raises:
            ValueError: there are fewer neighbours than `width`.
        """
        if width > self.counts.shape[1]:
            raise ValueError(
                "The width of the neighbor embeddings must be at most the number of distinct tokens in the records, "
                f"{self.counts.shape[1]}. Received {width}; use more text, or `start_embeddings=random`."
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
        """Returns the positive PMI max(0, log(P(token, neighbour) / (P(token) P(neighbour)))), [V, neighbours]."""
        of_token, of_near = self.counts.sum(1, keepdims=True), self.counts.sum(0) ** _SMOOTHING
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.counts / of_token  # one copy, modified in place
            found /= of_near / of_near.sum()
            np.log(found, out=found)
        np.nan_to_num(found, copy=False, nan=0.0, neginf=0.0)
        return np.maximum(found, 0.0, out=found)


def find_frequent(counts: np.ndarray, special: Iterable[int]) -> np.ndarray:
    """Returns the ids to use as neighbours, most frequent first.

    Args:
        counts: int [V], frequency of each id.
        special: ids that are not words, such as padding.
    """
    counts = np.array(counts)
    counts[list(special)] = 0
    order = np.argsort(-counts, kind="stable")[:_NEIGHBOURS]
    return order[counts[order] > 0]
