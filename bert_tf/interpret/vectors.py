"""What a piece becomes: the embeddings that it begins as, and its vector behind each layer."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.interpret.rows import Row, Texts, read

_SMALL = 1e-12  # a vector of zeros has no direction: its cosines are 0


@dataclasses.dataclass(frozen=True, eq=False)
class Layers(Row):
    """A row, and the vectors of its pieces in front of the first of L layers and behind each.

    Attributes:
        values: float32 [L + 1, S, H]; [0] is what the first layer reads. With `norm_first` a layer's output is a sum
            that nothing has normalized, but for the last one's, behind the final norm.
    """

    values: np.ndarray

    def with_itself(self) -> np.ndarray:
        """Returns float32 [L + 1, L + 1, S]: the cosine of each piece's vector with its own, one layer with another."""
        unit = _unit(self.values)
        return np.einsum("ksh,lsh->kls", unit, unit)

    def with_others(self, place: int) -> np.ndarray:
        """Returns float32 [L + 1, S]: the cosine of one piece's vector with every piece's, in each layer.

        Raises:
            ValueError: there is no such place.
        """
        if not 0 <= place < len(self):
            raise ValueError(f"`place` must be of a piece, from 0 to {len(self) - 1}. Received: {place}; correct it.")
        unit = _unit(self.values)
        return np.einsum("lh,lsh->ls", unit[:, place], unit)

    def among_all(self, layer: int) -> np.ndarray:
        """Returns float32 [S, S]: the cosines of all pieces' vectors in a layer, 0 in front of the first.

        Raises:
            ValueError: there is no such layer.
        """
        if not 0 <= layer < len(self.values):
            raise ValueError(f"`layer` must be from 0 to {len(self.values) - 1}. Received: {layer}; choose another.")
        unit = _unit(self.values[layer])
        return unit @ unit.T


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs(Row):
    """A row, and the embeddings of its pieces, float32 [S, E] each.

    Attributes:
        token: of the word pieces.
        segment: of the segments; None where the model has no table of them.
        position: of the positions.
        task: ERNIE's of tasks, the same for every piece; None where the model has no table of them.
        total: the sum of these.
        output: what the LayerNorm makes of the sum: the embeddings' output, which the first layer reads, where E is H.
    """

    token: np.ndarray
    segment: np.ndarray | None
    position: np.ndarray
    task: np.ndarray | None
    total: np.ndarray
    output: np.ndarray


def layers(model: Any, texts: Texts, pairs: Sequence[str] | None = None, masks: bool = False) -> list[Layers]:
    """Returns each text's vectors through the layers; arguments and errors are those of `attention`."""
    encoder, rows = read(model, texts, pairs, masks)
    return [Layers(**vars(row), values=states(encoder, row)) for row in rows]


def states(encoder: Any, row: Row) -> np.ndarray:
    """Returns float32 [L + 1, S, H]: what the first layer reads, and what each gives."""
    outputs = encoder(row.features, training=False)
    each = (outputs["embedding_output"], *outputs["encoder_outputs"])
    return np.stack([np.asarray(values, np.float32)[0] for values in each])


def inputs(model: Any, texts: Texts, pairs: Sequence[str] | None = None, masks: bool = False) -> list[Inputs]:
    """Returns the embeddings of each text's pieces; arguments and errors are those of `attention`."""
    encoder, rows = read(model, texts, pairs, masks)
    return [Inputs(**vars(row), **_embedded(encoder.embeddings, row)) for row in rows]


def _embedded(embeddings, row):
    def looked_up(table, places):
        return np.asarray(table, np.float32)[places]

    first = embeddings.first_position
    parts = {
        "token": looked_up(embeddings.word_embeddings, row.ids),
        "segment": looked_up(embeddings.token_type_embeddings, row.segments) if embeddings.type_vocab_size else None,
        "position": looked_up(embeddings.position_embeddings, slice(first, first + len(row))),
        "task": looked_up(embeddings.task_type_embeddings, np.zeros(len(row), int))
        if embeddings.task_type_vocab_size
        else None,
    }
    total = sum(part for part in parts.values() if part is not None)
    output = embeddings(row.features["input_ids"], row.features["segment_ids"], training=False)
    return {**parts, "total": total, "output": np.asarray(output, np.float32)[0]}


def _unit(values):
    return values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), _SMALL)
