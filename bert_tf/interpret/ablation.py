"""Heads off: the same model, in which some attention heads give nothing."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.interpret.rows import parts_of
from bert_tf.interpret.weights import check_place, kept_heads


class HeadsOff:
    """An `Encoder` some of whose heads are off: it shares its weights, and has all else of it too.

    Args:
        encoder: the `Encoder`.
        heads: {layer: its heads}, from 0.

    Attributes:
        head_mask: list with float32 [heads of the layer] for each layer: 0 for a head that is off, else 1.
    """

    def __init__(self, encoder: Any, heads: Mapping[int, Sequence[int]]):
        if not isinstance(heads, Mapping):
            raise ValueError(
                f"`heads` must be a dict of layers with their heads. Received: {heads!r}; write such as {{0: [1, 2]}}."
            )
        kept = kept_heads(encoder.config)
        mask = np.ones(kept.shape, np.float32)
        for layer, several in heads.items():
            for head in several:
                check_place(layer, head, kept)
                mask[layer, head] = 0
        before = getattr(encoder, "head_mask", [1.0] * len(kept))  # of an encoder with other heads off
        self.head_mask = [row[there] * other for row, there, other in zip(mask, kept, before, strict=True)]
        self._encoder = encoder._encoder if isinstance(encoder, HeadsOff) else encoder

    def __call__(self, inputs, **options):
        """Returns what the encoder gives without these heads; arguments are its own."""
        return self._encoder(inputs, head_mask=self.head_mask, **options)

    def __getattr__(self, name):
        return getattr(self.__dict__["_encoder"], name)


def heads_off(model: Any, heads: Mapping[int, Sequence[int]]) -> Any:
    """Returns the model with some heads off: their part of the attention's output is zero. Nothing else changes.

        without = heads_off(bert, {0: [1, 2], 11: [7]})
        without.features(texts), attributions(without, texts)      # as of any model; `bert` itself is as it was

    Weights are shared and none is changed; what is saved of the new model is the whole one. To take heads out for good
    see `bert-tf surgery --prune_heads`.

    Args:
        model: what `bert_tf.load` gave, an `Encoder`, or a pair of an `Encoder` and its tokenizer.
        heads: {layer: its heads}, from 0, counted before any head was pruned.

    Returns:
        of the kind that `model` is; an encoder among it is a `HeadsOff`.

    Raises:
        ValueError: there is no such layer or head.
    """
    encoder, tokenizer = parts_of(model)
    without = HeadsOff(encoder, heads)
    if isinstance(model, tuple):
        return without, tokenizer
    return without if model is encoder else dataclasses.replace(model, encoder=without, _extractors={})
