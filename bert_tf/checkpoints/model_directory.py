"""A model directory as used by model editing: read, compared and written as a whole."""

import dataclasses
import json
import os
import re

import numpy as np
from absl import logging

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.description_files import LABELS_FILE
from bert_tf.checkpoints.loading import directory_of, load_description, save_description
from bert_tf.checkpoints.locate import RELEASE
from bert_tf.checkpoints.readers import read_arrays
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import CONFIG_FILES, TASK_FILE, task_in
from bert_tf.utils.files import whole_directory, write_text

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
        tokenizer: `BaseTokenizer`.
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
            f"according to {TASK_FILE} in {model.path}; got {model.config.max_position_embeddings}."
        )


def _unlike(one, other, what):
    return ValueError(
        f"Models to average must have the same shape and vocabulary. {one.path} and {other.path} have "
        f"{what}; remove one of them."
    )


def _in_order(path):
    """Sort key that puts layer 10 after layer 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]
