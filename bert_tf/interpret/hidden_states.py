"""Hidden states of a text: the embeddings of each token, and its state after each layer."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.evaluation.cosine_similarity import unit
from bert_tf.interpret.encoded_text import EncodedText, Texts, encode_texts


@dataclasses.dataclass(frozen=True, eq=False)
class Layers(EncodedText):
    """A text and its hidden states, before the first of L layers and after each.

    Attributes:
        values: float32 [L + 1, S, H]; [0] is what the first layer reads. With `norm_first` a layer's output is a sum
            without normalization, except the last one's, after the final norm.
    """

    values: np.ndarray

    def with_itself(self) -> np.ndarray:
        """Returns float32 [L + 1, L + 1, S]: the cosine of each token's hidden states in two layers."""
        directions = unit(self.values)
        return np.einsum("ksh,lsh->kls", directions, directions)

    def among_all(self, layer: int) -> np.ndarray:
        """Returns float32 [S, S]: the cosines of all tokens' hidden states in a layer; 0 is before the first.

        Raises:
            ValueError: there is no such layer.
        """
        if not 0 <= layer < len(self.values):
            raise ValueError(f"`layer` must be from 0 to {len(self.values) - 1}; got {layer}.")
        directions = unit(self.values[layer])
        return directions @ directions.T


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs(EncodedText):
    """A text and the embeddings of its tokens, float32 [S, E] each.

    Attributes:
        token: embeddings of the tokens.
        segment: of the segments; None if the model has no such table.
        position: of the positions; None if the model has no such table, because its positions are rotary.
        task: ERNIE's of tasks, the same for every token; None if the model has no such table.
        total: the sum of these.
        output: the sum after LayerNorm: the embeddings' output, which the first layer reads if E is H.
    """

    token: np.ndarray
    segment: np.ndarray | None
    position: np.ndarray | None
    task: np.ndarray | None
    total: np.ndarray
    output: np.ndarray


def layers(model: Any, texts: Texts, pairs: Sequence[str] | None = None, masks: bool = False) -> list[Layers]:
    """Returns the hidden states of each text, layer by layer; arguments and errors as in `attention`."""
    encoder, rows = encode_texts(model, texts, pairs, masks)
    return [Layers(**vars(row), values=states(encoder, row)) for row in rows]


def states(encoder: Any, row: EncodedText) -> np.ndarray:
    """Returns float32 [L + 1, S, H]: the input of the first layer, and the output of each."""
    outputs = encoder(row.features, training=False)
    each = (outputs["embedding_output"], *outputs["encoder_outputs"])
    return np.stack([np.asarray(values, np.float32)[0] for values in each])


def inputs(model: Any, texts: Texts, pairs: Sequence[str] | None = None, masks: bool = False) -> list[Inputs]:
    """Returns the input embeddings of each text; arguments and errors as in `attention`."""
    encoder, rows = encode_texts(model, texts, pairs, masks)
    return [Inputs(**vars(row), **_look_up(encoder.embeddings, row)) for row in rows]


def _look_up(embeddings, row):
    def looked_up(table, ids):
        return np.asarray(table, np.float32)[ids]

    first = embeddings.first_position
    parts = {
        "token": looked_up(embeddings.word_embeddings, row.ids),
        "segment": looked_up(embeddings.token_type_embeddings, row.segments) if embeddings.type_vocab_size else None,
        "position": looked_up(embeddings.position_embeddings, slice(first, first + len(row)))
        if embeddings.has_positions
        else None,
        "task": looked_up(embeddings.task_type_embeddings, np.zeros(len(row), int))
        if embeddings.task_type_vocab_size
        else None,
    }
    total = sum(part for part in parts.values() if part is not None)
    output = embeddings(row.features["input_ids"], row.features["segment_ids"], training=False)
    return {**parts, "total": total, "output": np.asarray(output, np.float32)[0]}
