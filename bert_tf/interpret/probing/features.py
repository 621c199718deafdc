"""The vectors of labelled words or texts in front of the first layer and behind each, computed once."""

import dataclasses
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf.checkpoints.extractor import Extractor
from bert_tf.interpret.probing.examples import Labelled
from bert_tf.utils.memory_limits import free_memory, group_limits
from bert_tf.utils.progress import Countdown

_CHUNK = 256  # texts
_SHARE = 0.5  # of the free memory may be features; more go into a file


class Features(NamedTuple):
    """What probes learn from: n words or texts.

    Attributes:
        values: float32 [n, L + 1, H]; [:, 0] is what the first layer reads. Of a word the mean of its pieces.
        types: n names, as of `Labelled`.
        labels: n.
    """

    values: np.ndarray
    types: list[str]
    labels: list[str]


class _WithEmbeddings:
    """An encoder whose layers begin with what its first layer reads, as `Extractor` takes one."""

    def __init__(self, encoder):
        self._encoder = encoder
        self.config = dataclasses.replace(encoder.config, num_hidden_layers=encoder.config.num_hidden_layers + 1)

    def __call__(self, features, training=False):
        outputs = self._encoder(features, training=training)
        return outputs | {"encoder_outputs": [outputs["embedding_output"], *outputs["encoder_outputs"]]}


def compute(bert: Any, examples: Labelled, max_seq_length: int, folder: str) -> Features:
    """Computes the features of all words or texts; words beyond the longest row are left out, and the log counts them.

    Args:
        bert: what `bert_tf.load` gave.
        examples: with labels.
        max_seq_length: longest row in pieces.
        folder: where a file without a name holds the features that memory does not.
    """
    layers = range(bert.config.num_hidden_layers + 1)
    encoder = _WithEmbeddings(bert.encoder)
    extract = Extractor(encoder, bert.tokenizer, tuple(layers), "mean", max_seq_length=max_seq_length)
    values = _storage((examples.count, len(layers), bert.config.hidden_size), folder)
    place, types, labels = 0, [], []
    with Countdown("Reading with the frozen encoder", "texts", len(examples)) as countdown:
        for start in range(0, len(examples), _CHUNK):
            part = examples.take(range(start, min(start + _CHUNK, len(examples))))
            for i, chosen, vectors in _vectors(extract, part):
                values[place : place + len(chosen)] = vectors.reshape(len(chosen), *values.shape[1:])
                place += len(chosen)
                types += [part.types[i][k] for k in chosen]
                labels += [part.labels[i][k] for k in chosen]
            countdown.advance(len(part))
    if place < examples.count:
        logging.warning(
            "%s: %d of %d words have no piece within `max_seq_length=%d` and are left out.",
            *(examples.path, examples.count - place, examples.count, max_seq_length),
        )
    return Features(values[:place], types, labels)


def _storage(shape, folder):
    """Returns an array for the features: in memory, or in a file that is gone with the process."""
    size = 4 * int(np.prod(shape))
    free = min([free_memory(), *group_limits()])
    if size <= _SHARE * free:
        return np.zeros(shape, np.float32)
    logging.info("The features, %.1f GB, go into a file: %.1f GB of memory are free.", size / 1e9, free / 1e9)
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, np.float32, "w+", shape=shape)


def _vectors(extract, examples: Labelled) -> Iterator[tuple[int, list[int], np.ndarray]]:
    """Yields (number of a text, which of its words, their features [words, D]); of a text all are its own."""
    if examples.words is None:
        for i, vector in enumerate(extract(examples.texts)):
            yield i, [0], vector[np.newaxis]
        return
    for i, (spans, pieces) in enumerate(zip(examples.words, extract.pieces(examples.texts), strict=True)):
        own = np.flatnonzero((pieces.of_text == 0) & (pieces.starts < pieces.limits))
        word = np.searchsorted([start for start, _ in spans], pieces.starts[own], "right") - 1
        chosen, of_piece = np.unique(word, return_inverse=True)
        sums = np.zeros([len(chosen), pieces.values.shape[1]], np.float32)
        np.add.at(sums, of_piece, pieces.values[own])
        yield i, chosen.tolist(), sums / np.bincount(of_piece, minlength=len(chosen))[:, np.newaxis]
