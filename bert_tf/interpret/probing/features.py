"""Hidden states of labeled words or texts before the first layer and after each, computed once."""

import dataclasses
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf.checkpoints.feature_extractor import Extractor
from bert_tf.interpret.probing.examples import Labelled
from bert_tf.utils.memory import free_memory, group_limits
from bert_tf.utils.progress import Countdown

_CHUNK = 256  # texts
_SHARE = 0.5  # of the free memory for features; beyond that, they go into a file


class Features(NamedTuple):
    """Features and labels of n words or texts to train probes on.

    Attributes:
        values: float32 [n, L + 1, H]; [:, 0] is the input of the first layer. For a word, the mean over its tokens.
        types: n names, as in `Labelled`.
        labels: n.
    """

    values: np.ndarray
    types: list[str]
    labels: list[str]


class _WithEmbeddings:
    """An encoder whose layers include the input of the first, for `Extractor`."""

    def __init__(self, encoder):
        self._encoder = encoder
        self.config = dataclasses.replace(encoder.config, num_hidden_layers=encoder.config.num_hidden_layers + 1)

    def __call__(self, features, training=False):
        outputs = self._encoder(features, training=training)
        return outputs | {"encoder_outputs": [outputs["embedding_output"], *outputs["encoder_outputs"]]}


def compute(bert: Any, examples: Labelled, max_seq_length: int, folder: str) -> Features:
    """Computes the features of all words or texts; words beyond `max_seq_length` are left out and counted in the log.

    Args:
        bert: a model from `bert_tf.load`.
        examples: with labels.
        max_seq_length: longest sequence in tokens.
        folder: directory of a temporary file for features that do not fit in memory.
    """
    layers = range(bert.config.num_hidden_layers + 1)
    encoder = _WithEmbeddings(bert.encoder)
    extract = Extractor(encoder, bert.tokenizer, tuple(layers), "mean", max_seq_length=max_seq_length)
    values = _allocate((examples.count, len(layers), bert.config.hidden_size), folder)
    count, types, labels = 0, [], []
    with Countdown("Reading with the frozen encoder", "texts", len(examples)) as countdown:
        for start in range(0, len(examples), _CHUNK):
            part = examples.take(range(start, min(start + _CHUNK, len(examples))))
            for i, chosen, vectors in _compute_vectors(extract, part):
                values[count : count + len(chosen)] = vectors.reshape(len(chosen), *values.shape[1:])
                count += len(chosen)
                types += [part.types[i][k] for k in chosen]
                labels += [part.labels[i][k] for k in chosen]
            countdown.advance(len(part))
    if count < examples.count:
        logging.warning(
            "%s: %d of %d words have no token within `max_seq_length=%d` and are left out.",
            *(examples.path, examples.count - count, examples.count, max_seq_length),
        )
    return Features(values[:count], types, labels)


def _allocate(shape, folder):
    """Returns an array for the features: in memory, or in a file that disappears with the process."""
    size = 4 * int(np.prod(shape))
    free = min([free_memory(), *group_limits()])
    if size <= _SHARE * free:
        return np.zeros(shape, np.float32)
    logging.info("The features, %.1f GB, go into a file: %.1f GB of memory are free.", size / 1e9, free / 1e9)
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, np.float32, "w+", shape=shape)


def _compute_vectors(extract, examples: Labelled) -> Iterator[tuple[int, list[int], np.ndarray]]:
    """Yields (number of a text, indices of its words, their features [words, D])."""
    if examples.words is None:
        for i, vector in enumerate(extract(examples.texts)):
            yield i, [0], vector[np.newaxis]
        return
    for i, (spans, tokens) in enumerate(zip(examples.words, extract.tokens(examples.texts), strict=True)):
        own = np.flatnonzero((tokens.of_text == 0) & (tokens.starts < tokens.ends))
        word = np.searchsorted([start for start, _ in spans], tokens.starts[own], "right") - 1
        chosen, of_token = np.unique(word, return_inverse=True)
        sums = np.zeros([len(chosen), tokens.values.shape[1]], np.float32)
        np.add.at(sums, of_token, tokens.values[own])
        yield i, chosen.tolist(), sums / np.bincount(of_token, minlength=len(chosen))[:, np.newaxis]
