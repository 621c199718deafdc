"""Operations on a trained model's weights, each (arrays, config) -> (arrays, config); nothing is read or written.

`arrays` are by our variables' paths, as `readers.read_arrays` returns them; those of the caller stay as they are.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bert_tf.models.config import EncoderConfig

Arrays = Mapping[str, np.ndarray]
Result = tuple[dict[str, np.ndarray], EncoderConfig]
_POSITIONS = "bert/embeddings/position_embeddings"
_LAYER = re.compile(r"bert/encoder/layer_(\d+)/(.+)")


def average(models: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """Returns the mean of each weight, float32, summed in float64 ("model soup", Wortsman et al. 2022, uniform).

    Args:
        models: two or more.

    Raises:
        ValueError: they differ in a name or a shape.
    """
    first = models[0]
    for other in models[1:]:
        if differing := sorted(p for p in first.keys() | other.keys() if _shape(first, p) != _shape(other, p)):
            path = differing[0]
            raise ValueError(
                "The models of a mean must have the same weights. Received ones that differ in "
                f"{len(differing)}, first in {path}: {_shape(first, path)} and {_shape(other, path)}; average models "
                "of one shape and one task."
            )
    return {path: _mean([arrays[path] for arrays in models]) for path in first}


def resize_positions(arrays: Arrays, config: EncoderConfig, rows: int) -> Result:
    """Gives the position table so many rows, `max_position_embeddings`: more are copies of the old ones, in order.

    Beltagy et al. 2020 (Longformer, section 5): 512 learned positions, copied over and over, are a far better start for
    longer texts than random ones, since attention learned to look at neighbours. What is before `first_position` means
    no token and stays as it is. A shorter table is the first rows.

    Raises:
        ValueError: the table would have no row for a token.
    """
    first, table = config.first_position, arrays[_POSITIONS]
    if rows <= first:
        raise ValueError(
            f"`max_position_embeddings` must be above first_position, {first}. Received: {rows}; the table needs a "
            "row for each token."
        )
    tokens = np.resize(table[first:], (rows - first, table.shape[1]))  # numpy repeats the rows as often as it takes
    arrays = {**arrays, _POSITIONS: np.concatenate([table[:first], tokens])}
    return arrays, dataclasses.replace(config, max_position_embeddings=rows)


def keep_layers(arrays: Arrays, config: EncoderConfig, layers: Sequence[int]) -> Result:
    """Keeps these layers, which are numbered anew from 0, and nothing of the others.

    Every second layer of a teacher is what DistilBERT started from (Sanh et al. 2019, section 3).

    Args:
        layers: ascending.

    Raises:
        ValueError: there is no such layer, or layers share their weights.
    """
    L = config.num_hidden_layers
    if not layers or list(layers) != sorted(set(layers)) or not 0 <= layers[0] <= layers[-1] < L:
        raise ValueError(
            f"`layers` must be numbers from 0 to {L - 1}, rising. Received: {list(layers)}; the lowest layer is 0."
        )
    if config.num_blocks < L:
        raise ValueError(
            f"`layers` must be of a model whose layers have weights of their own. Received one whose {L} layers share "
            f"{config.num_blocks}: there, a smaller num_hidden_layers in its configuration is all that is needed."
        )
    place, kept = {old: new for new, old in enumerate(layers)}, {}
    for path, array in arrays.items():
        match = _LAYER.fullmatch(path)
        if match is None:
            kept[path] = array
        elif int(match[1]) in place:
            kept[f"bert/encoder/layer_{place[int(match[1])]}/{match[2]}"] = array
    pruned = config.pruned_heads
    if pruned is not None:
        pruned = {place[layer]: heads for layer, heads in pruned.items() if layer in place}
    return kept, dataclasses.replace(config, num_hidden_layers=len(layers), pruned_heads=pruned)


def prune_heads(arrays: Arrays, config: EncoderConfig, heads: Mapping[int, Iterable[int]]) -> Result:
    """Takes attention heads out (Michel et al. 2019, arXiv 1905.10650): the output is as if they gave zeros.

    A head is a piece of the columns of query, key and value, and of the rows of the map behind them. The others stay as
    wide as they were; `config.pruned_heads`, also Hugging Face's name, says which are gone.

    Args:
        heads: layer -> its heads, counted in the model as it was before any were taken out.

    Raises:
        ValueError: there is no such layer or head, no head of a layer would be left, or layers share their weights.
    """
    before = config.pruned_heads or {}
    gone = {layer: (*before.get(layer, ()), *heads.get(layer, ())) for layer in before.keys() | heads.keys()}
    try:
        after = dataclasses.replace(config, pruned_heads=gone)
    except ValueError as error:
        raise ValueError(f"`prune_heads`: {error}") from error
    arrays = dict(arrays)
    for layer, all_gone in after.pruned_heads.items():
        there = [head for head in range(config.num_attention_heads) if head not in before.get(layer, ())]
        rest = [place for place, head in enumerate(there) if head not in all_gone]
        _keep_heads(arrays, f"bert/encoder/layer_{layer}/attention", rest, len(there))
    return arrays, after


def _keep_heads(arrays, attention, rest, count):
    """Keeps the heads at the places `rest` of one layer's `count`, in `arrays` itself."""

    def cut(array, axis):
        parts = np.split(array, count, axis)
        return np.concatenate([parts[place] for place in rest], axis)

    for part in ("query", "key", "value"):
        for name, axis in (("kernel", 1), ("bias", 0)):
            path = f"{attention}/self/{part}/{name}"
            arrays[path] = cut(arrays[path], axis)
    path = f"{attention}/output/dense/kernel"
    arrays[path] = cut(arrays[path], 0)


def _shape(arrays, path):
    return arrays[path].shape if path in arrays else "none"


def _mean(arrays):
    total = np.zeros(arrays[0].shape)
    for array in arrays:
        total += array
    return (total / len(arrays)).astype(np.float32)
