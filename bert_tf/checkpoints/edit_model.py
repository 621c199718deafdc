"""Model editing: operations on trained weights, each (arrays, config) -> (arrays, config), without file access.

`arrays` are keyed by our variable paths, as from `readers.read_arrays`; the caller's are not modified.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import DECODER_POSITIONS, INPUT_POSITIONS

Arrays = Mapping[str, np.ndarray]
Result = tuple[dict[str, np.ndarray], EncoderConfig]
_LAYER = re.compile(r"bert/encoder/layer_(\d+)/(.+)")


def average(models: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """Averages the weights of several models (uniform "model soup", Wortsman et al. 2022); float32, summed in float64.

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
                "The models to average must have the same weights. They differ in "
                f"{len(differing)}, first in {path}: {_shape(first, path)} and {_shape(other, path)}; average models "
                "with the same shape and task."
            )
    return {path: _mean([arrays[path] for arrays in models]) for path in first}


def resize_positions(arrays: Arrays, config: EncoderConfig, rows: int) -> Result:
    """Resizes the position table to `rows` rows (`max_position_embeddings`); new rows repeat the old ones in order.

    As in Beltagy et al. 2020 (Longformer, section 5), 512 learned positions, repeated, are a far better start for
    longer
    texts than random ones, because attention has learned local context. Rows before `first_position` are unused and
    unchanged. A smaller table keeps the first rows.

    Raises:
        ValueError: the table would have no row for tokens.
    """
    if config.pos_att_type:  # the table of relative positions stays as it is
        config = dataclasses.replace(config, max_relative_positions=config.most_relative_positions)
    path = INPUT_POSITIONS if config.has_position_table else DECODER_POSITIONS
    if path not in arrays:
        return dict(arrays), dataclasses.replace(config, max_position_embeddings=rows)
    first, table = config.first_position, arrays[path]
    if rows <= first:
        raise ValueError(
            f"`max_position_embeddings` must be above first_position, {first}; got {rows}; the table needs one "
            "row per token."
        )
    tokens = np.resize(table[first:], (rows - first, table.shape[1]))  # numpy repeats the rows as often as it takes
    arrays = {**arrays, path: np.concatenate([table[:first], tokens])}
    return arrays, dataclasses.replace(config, max_position_embeddings=rows)


def keep_layers(arrays: Arrays, config: EncoderConfig, layers: Sequence[int]) -> Result:
    """Keeps only the given layers, renumbered from 0.

    DistilBERT was initialized with every second layer of its teacher (Sanh et al. 2019, section 3).

    Args:
        layers: ascending.

    Raises:
        ValueError: a layer does not exist, or layers share weights.
    """
    L = config.num_hidden_layers
    if not layers or list(layers) != sorted(set(layers)) or not 0 <= layers[0] <= layers[-1] < L:
        raise ValueError(
            f"`layers` must be ascending numbers from 0 to {L - 1}; got {list(layers)}; the lowest layer is 0."
        )
    if config.num_blocks < L:
        raise ValueError(
            f"`layers` requires a model whose layers have their own weights. Its {L} layers share "
            f"{config.num_blocks}: set a smaller num_hidden_layers in its configuration instead."
        )
    if moved := [old for new, old in enumerate(layers) if config.is_local(old) != config.is_local(new)]:
        raise ValueError(
            "`layers` must keep layers with local attention in places with local attention, and others in others: "
            f"every {config.global_attn_every_n_layers}-th layer from 0 on attends to all tokens; got "
            f"{list(layers)}, which moves layer {moved[0]}."
        )
    if layers[0] and not config.first_attention_norm:
        raise ValueError(
            f"`layers` must begin with 0, because the first layer has no attention norm; got {list(layers)}."
        )
    if layers[0] and config.conv_kernel_size:
        raise ValueError(
            f"`layers` must begin with 0, because a convolution belongs to the first layer; got {list(layers)}."
        )
    new_number, kept = {old: new for new, old in enumerate(layers)}, {}
    for path, array in arrays.items():
        match = _LAYER.fullmatch(path)
        if match is None:
            kept[path] = array
        elif int(match[1]) in new_number:
            kept[f"bert/encoder/layer_{new_number[int(match[1])]}/{match[2]}"] = array
    pruned = config.pruned_heads
    if pruned is not None:
        pruned = {new_number[layer]: heads for layer, heads in pruned.items() if layer in new_number}
    return kept, dataclasses.replace(config, num_hidden_layers=len(layers), pruned_heads=pruned)


def prune_heads(arrays: Arrays, config: EncoderConfig, heads: Mapping[int, Iterable[int]]) -> Result:
    """Prunes attention heads (Michel et al. 2019, arXiv 1905.10650): the output is as if they returned zeros.

    A head is a slice of the columns of query, key and value, and of the rows of the output map. The remaining heads
    keep their width; `config.pruned_heads`, as in Hugging Face, lists the removed ones.

    Args:
        heads: layer -> heads to remove, in the original numbering.

    Raises:
        ValueError: a layer or head does not exist, a layer would have no head left, or layers share weights.
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
        rest = [index for index, head in enumerate(there) if head not in all_gone]
        _keep_heads(arrays, f"bert/encoder/layer_{layer}/attention", rest, len(there))
    return arrays, after


def _keep_heads(arrays, attention, rest, count):
    """Keeps the heads at the indices `rest` of one layer's `count`, in `arrays` itself."""

    def cut(array, axis):
        parts = np.split(array, count, axis)
        return np.concatenate([parts[index] for index in rest], axis)

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
