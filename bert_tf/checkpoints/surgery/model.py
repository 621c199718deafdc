"""A trained model as surgery takes it: everything that lies in its directory, read, compared and written whole."""

import dataclasses
import json
import os
import re

import numpy as np
from absl import logging

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.locate import RELEASE
from bert_tf.checkpoints.model_files import LABELS_FILE, directory_of, load_description, save_description
from bert_tf.checkpoints.readers import read_arrays
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import CONFIG_FILES, TASK_FILE, task_in
from bert_tf.utils.files import whole_directory, write_text

_TOKENIZERS = (
    "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
_CARRIED = (*CONFIG_FILES, LABELS_FILE, TASK_FILE, *_TOKENIZERS, "checkpoint")


@dataclasses.dataclass(frozen=True)
class Model:
    """What lies in the directory of a model.

    Attributes:
        path: whence it came.
        arrays: our variable path -> array: encoder and heads.
        config: `EncoderConfig`.
        tokenizer: `Tokenizer`.
        labels: of its head, or None.
        task: what its task.json says, or None.
    """

    path: str
    arrays: dict[str, np.ndarray]
    config: EncoderConfig
    tokenizer: object
    labels: list[str] | None = None
    task: dict | None = None


def read(path: str, do_lower_case: bool | None = None) -> Model:
    """Reads a model in any format that `bert_tf.load` takes; files that surgery does not carry along are named.

    Raises:
        ValueError: something is missing, unknown, damaged, or does not fit together.
    """
    arrays = read_arrays(path)
    description, directory = load_description([path], do_lower_case=do_lower_case), directory_of(path)
    others = [name for name in sorted(os.listdir(directory)) if name not in _CARRIED and not _is_weights(name)]
    if others:
        logging.info("Not taken over from %s: %s.", directory, ", ".join(others))
    return Model(path, arrays, description.config, description.tokenizer, description.labels, task_in(directory))


def write(model: Model, output_dir: str):
    """Writes the model as bert_tf's own directory, whole or not at all.

    Raises:
        ValueError: output_dir is in use, or the model's task reads rows for which it has no positions.
        OSError: it cannot be written.
    """
    _check_length(model)
    with whole_directory(output_dir) as aside:
        save_description(aside, model.config, model.tokenizer, model.labels)
        tf1.write_arrays(os.path.join(aside, RELEASE), model.arrays)
        if model.task is not None:
            write_text(os.path.join(aside, TASK_FILE), json.dumps(model.task, indent=2, ensure_ascii=False) + "\n")


def check_alike(one: Model, other: Model):
    """Raises ValueError where two models that are to be averaged differ in more than their weights."""
    for field in dataclasses.fields(EncoderConfig):
        ours, theirs = getattr(one.config, field.name), getattr(other.config, field.name)
        if field.name != "extra" and ours != theirs:
            raise _unlike(one, other, f"{field.name} {ours!r} and {theirs!r}")
    if one.tokenizer.vocab != other.tokenizer.vocab:
        raise _unlike(one, other, "two vocabularies")
    if list(one.tokenizer.added_tokens) != list(other.tokenizer.added_tokens):
        raise _unlike(one, other, "added tokens with other flags")
    if one.tokenizer.do_lower_case != other.tokenizer.do_lower_case:
        raise _unlike(one, other, "one tokenizer that lowercases and one that does not")
    if one.labels != other.labels:
        raise _unlike(one, other, f"labels {one.labels} and {other.labels}")


def changes(before: Model, after: Model) -> str:
    """Returns what surgery changed, for the screen: the configuration, the number of parameters, each other shape."""
    fields = [field.name for field in dataclasses.fields(EncoderConfig) if field.name != "extra"]
    pairs = {name: (getattr(before.config, name), getattr(after.config, name)) for name in fields}
    lines = [f"  {name}: {old} -> {new}" for name, (old, new) in pairs.items() if old != new]
    count = [sum(array.size for array in model.arrays.values()) for model in (before, after)]
    same = sum(np.array_equal(array, before.arrays.get(path)) for path, array in after.arrays.items())
    lines.append(f"  parameters: {count[0]:,} -> {count[1]:,}; {same} of {len(after.arrays)} weights are as they were")
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
            f"`max_position_embeddings` must leave a position for each piece of the rows that the model was trained "
            f"for, {length} by {TASK_FILE} in {model.path}. Received: {model.config.max_position_embeddings}."
        )


def _unlike(one, other, what):
    return ValueError(
        f"Models that are averaged must be of one shape and one vocabulary. Received {one.path} and {other.path} with "
        f"{what}; leave one of them out."
    )


def _in_order(path):
    """Puts layer 10 behind layer 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]
