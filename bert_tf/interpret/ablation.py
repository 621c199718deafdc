"""Head ablation: the same model with some attention heads disabled."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.interpret.attention import check_place, kept_heads
from bert_tf.interpret.encoded_text import load_if_path, parts_of


class AblatedEncoder:
    """An `Encoder` with some attention heads disabled; it shares the original's weights and attributes.

    Args:
        encoder: the `Encoder`.
        heads: {layer: its heads}, from 0.

    Attributes:
        head_mask: list with float32 [heads of the layer] for each layer: 0 for a disabled head, 1 otherwise.
    """

    def __init__(self, encoder: Any, heads: Mapping[int, Sequence[int]]):
        if not isinstance(heads, Mapping):
            raise ValueError(
                f"`heads` must be a dict from layers to heads; got {heads!r}. Example: {{0: [1, 2]}}."
            )
        kept = kept_heads(encoder.config)
        mask = np.ones(kept.shape, np.float32)
        for layer, several in heads.items():
            for head in several:
                check_place(layer, head, kept)
                mask[layer, head] = 0
        before = getattr(encoder, "head_mask", [1.0] * len(kept))  # of an encoder with other heads disabled
        self.head_mask = [row[there] * other for row, there, other in zip(mask, kept, before, strict=True)]
        self._encoder: Any = encoder._encoder if isinstance(encoder, AblatedEncoder) else encoder

    def __call__(self, inputs, **options):
        """Returns the encoder's outputs without these heads; arguments as in `Encoder`."""
        return self._encoder(inputs, head_mask=self.head_mask, **options)

    def __getattr__(self, name):
        return getattr(self.__dict__["_encoder"], name)


def ablate_heads(model: Any, heads: Mapping[int, Sequence[int]]) -> Any:
    """Returns the model with some attention heads ablated: they add zero to the attention's output.

        without = ablate_heads(bert, {0: [1, 2], 11: [7]})
        without.features(texts), attributions(without, texts)      # as with any model; `bert` itself is unchanged

    Weights are shared and unchanged, and saving the new model saves all heads. To remove heads permanently,
    see `bert-tf model edit --prune_heads`.

    Args:
        model: a model from `bert_tf.load`, or its path; an `Encoder`, or a pair of an `Encoder` and its tokenizer.
        heads: {layer: its heads}, from 0, counted before any head was pruned.

    Returns:
        A model of the same kind, with an `AblatedEncoder` as its encoder.

    Raises:
        ValueError: there is no such layer or head.
    """
    model = load_if_path(model)
    encoder, tokenizer = parts_of(model)
    without = AblatedEncoder(encoder, heads)
    if isinstance(model, tuple):
        return without, tokenizer
    return without if model is encoder else dataclasses.replace(model, encoder=without, _built={})
