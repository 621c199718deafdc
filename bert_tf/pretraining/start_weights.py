"""Non-random initial weights of a new model: word and position embeddings, and the head's bias."""

import itertools
from collections.abc import Callable

import numpy as np
from absl import logging

from bert_tf.checkpoints.loading import ModelDescription
from bert_tf.checkpoints.names.rows import WORDS
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.neighbor_vectors import Neighbors, find_frequent

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
                f"`start_positions={positions}` requires a position table, which this model does not have "
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
    neighbors = Neighbors(config.vocab_size, find_frequent(counts, special))
    for part in np.array_split(ids, max(1, ids.size // 1_000_000)):
        neighbors.add(part)
    found = neighbors.vectors(config.embedding_width, seed)
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
            f"`start_embeddings=neighbors` requires at least {_ROWS} sequences, but there are fewer in "
            f"{', '.join(records.paths[:3])}. Use more text."
        )
    return ids
