"""Model editing: operations on trained weights, each (arrays, config) -> (arrays, config), without file access.

`arrays` are keyed by our variable paths, as from `readers.read_arrays`; the caller's are not modified.
"""

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.description_files import LABELS_FILE
from bert_tf.checkpoints.loading import directory_of, load_description, save_description
from bert_tf.checkpoints.locate import RELEASE
from bert_tf.checkpoints.readers import read_arrays
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import CONFIG_FILES, DECODER_POSITIONS, INPUT_POSITIONS, TASK_FILE, task_in
from bert_tf.utils.files import whole_directory, write_text

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
            f"`max_position_embeddings` must be above first_position, {first}. Received: {rows}; the table needs one "
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
            f"`layers` must be ascending numbers from 0 to {L - 1}. Received: {list(layers)}; the lowest layer is 0."
        )
    if config.num_blocks < L:
        raise ValueError(
            f"`layers` requires a model whose layers have their own weights. Its {L} layers share "
            f"{config.num_blocks}: set a smaller num_hidden_layers in its configuration instead."
        )
    if moved := [old for new, old in enumerate(layers) if config.is_local(old) != config.is_local(new)]:
        raise ValueError(
            "`layers` must keep layers with local attention in places with local attention, and others in others: "
            f"every {config.global_attn_every_n_layers}-th layer from 0 on attends to all tokens. Received: "
            f"{list(layers)}, which moves layer {moved[0]}."
        )
    if layers[0] and not config.first_attention_norm:
        raise ValueError(
            f"`layers` must begin with 0, because the first layer has no attention norm. Received: {list(layers)}."
        )
    if layers[0] and config.conv_kernel_size:
        raise ValueError(
            f"`layers` must begin with 0, because a convolution belongs to the first layer. Received: {list(layers)}."
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


# === Model ===
# A model directory as used by model editing: read, compared and written as a whole.


_TOKENIZERS = (
    "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
_CARRIED = (*CONFIG_FILES, LABELS_FILE, TASK_FILE, *_TOKENIZERS, "checkpoint")


@dataclasses.dataclass(frozen=True)
class ModelDirectory:
    """The contents of a model directory.

    Attributes:
        path: path it was read from.
        arrays: our variable path -> array: encoder and heads.
        config: `EncoderConfig`.
        tokenizer: `Tokenizer`.
        labels: labels of its head, or None.
        task: contents of its task.json, or None.
    """

    path: str
    arrays: dict[str, np.ndarray]
    config: EncoderConfig
    tokenizer: object
    labels: list[str] | None = None
    task: dict | None = None


def read_model_directory(path: str, do_lower_case: bool | None = None) -> ModelDirectory:
    """Reads a model in any format supported by `bert_tf.load`; files that are not copied are logged.

    Raises:
        ValueError: something is missing, unknown, damaged, or does not match.
    """
    arrays = read_arrays(path)
    description, directory = load_description([path], do_lower_case=do_lower_case), directory_of(path)
    others = [name for name in sorted(os.listdir(directory)) if name not in _CARRIED and not _is_weights(name)]
    if others:
        logging.info("Not copied from %s: %s.", directory, ", ".join(others))
    return ModelDirectory(
        path, arrays, description.config, description.tokenizer, description.labels, task_in(directory)
    )


def write_edited_model(model: ModelDirectory, output_dir: str):
    """Writes the model as a bert_tf directory, atomically.

    Raises:
        ValueError: output_dir is in use, or the model's task needs more positions than it has.
        OSError: it cannot be written.
    """
    _check_length(model)
    with whole_directory(output_dir) as aside:
        save_description(aside, model.config, model.tokenizer, model.labels)
        tf1.write_arrays(os.path.join(aside, RELEASE), model.arrays)
        if model.task is not None:
            write_text(os.path.join(aside, TASK_FILE), json.dumps(model.task, indent=2, ensure_ascii=False) + "\n")


def check_alike(one: ModelDirectory, other: ModelDirectory):
    """Raises ValueError if two models to average differ in more than their weights."""
    for field in dataclasses.fields(EncoderConfig):
        ours, theirs = getattr(one.config, field.name), getattr(other.config, field.name)
        if field.name != "extra" and ours != theirs:
            raise _unlike(one, other, f"{field.name} {ours!r} and {theirs!r}")
    if one.tokenizer.vocab != other.tokenizer.vocab:
        raise _unlike(one, other, "different vocabularies")
    if list(one.tokenizer.added_tokens) != list(other.tokenizer.added_tokens):
        raise _unlike(one, other, "added tokens with different flags")
    if one.tokenizer.do_lower_case != other.tokenizer.do_lower_case:
        raise _unlike(one, other, "one tokenizer that lowercases and one that does not")
    if one.labels != other.labels:
        raise _unlike(one, other, f"labels {one.labels} and {other.labels}")


def describe_changes(before: ModelDirectory, after: ModelDirectory) -> str:
    """Describes the changes to a model: configuration, number of parameters, and changed shapes."""
    fields = [field.name for field in dataclasses.fields(EncoderConfig) if field.name != "extra"]
    pairs = {name: (getattr(before.config, name), getattr(after.config, name)) for name in fields}
    lines = [f"  {name}: {old} -> {new}" for name, (old, new) in pairs.items() if old != new]
    count = [sum(array.size for array in model.arrays.values()) for model in (before, after)]
    same = sum(np.array_equal(array, before.arrays.get(path)) for path, array in after.arrays.items())
    lines.append(f"  parameters: {count[0]:,} -> {count[1]:,}; {same} of {len(after.arrays)} weights are unchanged")
    groups: dict[str, list] = {}
    for path in sorted(before.arrays.keys() | after.arrays.keys(), key=_in_order):
        old, new = (list(m.arrays[path].shape) if path in m.arrays else "none" for m in (before, after))
        layer = re.search(r"layer_(\d+)", path)
        if old != new and not (layer and int(layer[1]) >= after.config.num_hidden_layers):
            line = f"  {re.sub(r'layer_[0-9]+', 'layer_N', path)}: {old} -> {new}"
            groups.setdefault(line, []).extend(layer.groups() if layer else ())
    lines += [f"{line}, N = {', '.join(numbers)}" if numbers else line for line, numbers in groups.items()]
    return "\n".join(["Changed:", *lines])


def _is_weights(name):
    return bool(re.fullmatch(r".*\.(safetensors|bin|index|data-\d{5}-of-\d{5}|index\.json)", name))


def _check_length(model):
    length = model.task and model.task.get("max_seq_length")
    if isinstance(length, int) and length > model.config.max_length:
        raise ValueError(
            f"`max_position_embeddings` must cover the sequence length that the model was trained with, {length} "
            f"according to {TASK_FILE} in {model.path}. Received: {model.config.max_position_embeddings}."
        )


def _unlike(one, other, what):
    return ValueError(
        f"Models to average must have the same shape and vocabulary. {one.path} and {other.path} have "
        f"{what}; remove one of them."
    )


def _in_order(path):
    """Sort key that puts layer 10 after layer 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]
