"""Texts to vectors: a frozen encoder's features, for each piece or pooled for each text."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.modeling.pooling import Layers, Pooling, check_layers, check_pooling, joined, pool

_CHUNK = 10_000  # texts tokenized at a time
_TOKENS = 4096  # of a batch, padding included
_WIDTHS = 8  # widths are multiples of this


class PieceFeatures(NamedTuple):
    """The pieces of one text, special ones included, and their features.

    Attributes:
        pieces: as the vocabulary writes them.
        values: float32 [number of pieces, D].
        starts, limits: where each piece lies in the text, half-open, in Unicode code points; 0, 0 for special ones.
    """

    pieces: list[str]
    values: np.ndarray
    starts: np.ndarray
    limits: np.ndarray


class Extractor:
    """A frozen encoder that turns texts into vectors; `bert.features` is the short way to it.

    Args:
        encoder: an `Encoder` with weights.
        tokenizer: its `BaseTokenizer`.
        layers: one of `names.LAYERS`, or indices of blocks (-1: the last), whose outputs are put side by side.
        pooling: one of `names.POOLINGS`, or several, whose vectors are put side by side.
        normalize: divide each pooled vector by its length.
        max_seq_length: longest row, special pieces included; what is longer is cut. None: what the model can take.
        unpooled: so many pieces at the start of each row are not pooled: those of a prompt.
        finish: what is made of the pooled vectors, float32 [n, D], before they are normalized; in the graph.

    Raises:
        ValueError: the model has no such layers, there is no such pooling, or its rows are shorter.
    """

    def __init__(
        self,
        encoder,
        tokenizer,
        layers: Layers = "last",
        pooling: Pooling = "mean",
        normalize=False,
        max_seq_length=None,
        unpooled: int = 0,
        finish: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ):
        config = encoder.config
        check_layers(layers, config.num_hidden_layers)
        check_pooling(pooling)
        self.max_seq_length = max_seq_length or config.max_length
        if not tokenizer.template.special(1) < self.max_seq_length <= config.max_length:
            raise ValueError(
                f"`max_seq_length` must be from {tokenizer.template.special(1) + 1} to {config.max_length}, the "
                f"model's longest row. Received: {max_seq_length}."
            )
        self.tokenizer = tokenizer
        self._encoder, self._layers, self._pooling, self._normalize = encoder, layers, pooling, normalize
        self._unpooled, self._finish = unpooled, finish or tf.identity

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Returns a vector for each text, float32 [n, D]."""
        parts = [self._vectors(texts[start : start + _CHUNK]) for start in range(0, len(texts), _CHUNK)]
        return np.concatenate(parts) if parts else np.zeros([0, self.width], np.float32)

    @property
    def width(self) -> int:
        """D, the length of the vectors."""
        return self._of_texts.structured_outputs.shape[-1]

    def pieces(self, texts: Sequence[str]) -> Iterator[PieceFeatures]:
        """Yields the features of each text's pieces, in order."""
        for start in range(0, len(texts), _CHUNK):
            yield from self._pieces(texts[start : start + _CHUNK])

    @functools.cached_property
    def _of_pieces(self):
        return _traced(self._piece_values)

    @functools.cached_property
    def _of_texts(self):
        return _traced(self._text_values)

    def _piece_values(self, features):
        return tf.cast(joined(self._encoder(features, training=False), self._layers), tf.float32)

    def _text_values(self, features):
        mask = features["input_mask"]
        if self._unpooled:
            mask *= tf.cast(tf.range(tf.shape(mask)[1]) >= self._unpooled, mask.dtype)
        values = self._finish(pool(self._pooling, self._piece_values(features), mask))
        return tf.math.l2_normalize(values, -1) if self._normalize else values

    def _vectors(self, texts):
        rows = self._rows(self.tokenizer.tokenize(list(texts)))
        vectors = None
        for chosen, features in self._batches(rows):
            values = self._of_texts(features).numpy()
            if vectors is None:
                vectors = np.empty([len(texts), values.shape[-1]], np.float32)
            vectors[chosen] = values
        return vectors

    def _pieces(self, texts):
        ids, starts, limits = self.tokenizer.tokenize_with_offsets(list(texts))
        rows, before = self._rows(ids), len(self.tokenizer.template.before)
        found = [None] * len(texts)
        for chosen, features in self._batches(rows):
            values = self._of_pieces(features).numpy()
            for text, ids, mask, each in zip(
                chosen.tolist(), features["input_ids"].numpy(), features["input_mask"].numpy(), values, strict=True
            ):
                count = int(mask.sum())
                places = np.zeros([2, count], np.int32)
                own = count - self.tokenizer.template.special(1)
                places[:, before : before + own] = starts[text].numpy()[:own], limits[text].numpy()[:own]
                pieces = [self.tokenizer.vocab[n] for n in ids[:count].tolist()]
                found[text] = PieceFeatures(pieces, each[:count], *places)
        return found

    def _rows(self, ids):
        return self.tokenizer.pack(ids, max_seq_length=self.max_seq_length)

    def _batches(self, rows):
        """Yields (indices of rows, their features), rows of like lengths together, the longest first."""
        lengths = rows["input_ids"].row_lengths().numpy()
        order, start = np.argsort(-lengths, kind="stable"), 0
        while start < len(order):
            width = min(-(-int(lengths[order[start]]) // _WIDTHS) * _WIDTHS, self.max_seq_length)
            chosen = order[start : start + max(1, _TOKENS // width)]
            yield chosen, self.tokenizer.pad({name: tf.gather(row, chosen) for name, row in rows.items()}, width)
            start += len(chosen)


def _traced(function):
    """Returns a function of a batch's features as one graph for rows of all widths."""
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    return tf.function(function, autograph=False).get_concrete_function(specs)
