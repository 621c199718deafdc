"""Locates the weights for a path: a file, a directory, or the prefix of a TF1 checkpoint."""

import os
import re
from collections.abc import Iterable, Iterator

from bert_tf.checkpoints import releases
from bert_tf.models.config_files import check_not_adapters
from bert_tf.utils.files import path_text

# In order of preference if a directory holds several; safetensors first, because it cannot contain code.
WEIGHT_FILES = {
    "model.safetensors": "safetensors",
    "model.safetensors.index.json": "sharded safetensors",
    "pytorch_model.bin": "torch_bin",
    "pytorch_model.bin.index.json": "sharded torch_bin",
    "model.weights.h5": "keras_hub",
}
_ENDINGS = {
    ".safetensors": "safetensors",
    ".safetensors.index.json": "sharded safetensors",
    ".bin": "torch_bin",
    ".ckpt": "torch_bin",  # of PyTorch Lightning, with the weights under "state_dict"
    ".pt": "torch_bin",
    ".pth": "torch_bin",
    ".bin.index.json": "sharded torch_bin",
    ".weights.h5": "keras_hub",
}
_TF1_FILE = re.compile(r"(.+)\.(?:index|data-\d{5}-of-\d{5})")
RELEASE = "bert_model.ckpt"  # name of Google's releases, so that all programs find it in a directory
_LONGEST_STATE = 2**20  # bytes
_STEP = re.compile(r"model\.ckpt-(\d+)")


def locate(path: str | os.PathLike) -> tuple[str, str]:
    """Returns (format, file or TF1 prefix) for a path; the format is a key of formats.OPENERS.

    Raises:
        ValueError: there are no weights at `path`, or they are incomplete.
    """
    path = path_text(path)
    if os.path.isdir(path):
        return _in_directory(path)
    if match := _TF1_FILE.fullmatch(path):
        path = match[1]
    if os.path.isfile(path):
        return _by_ending(path)
    folder, base = os.path.split(path)
    folder = folder or "."
    if any(prefix == base for prefix, _ in tf1_files(folder)):
        return "tf1", path
    if advice := releases.advice(path):
        raise ValueError(f"Checkpoint not found: {path}.{advice}")
    there = (
        f"{folder} contains {list_directory(folder)}" if os.path.isdir(folder) else f"{folder} is not a directory"
    )
    raise ValueError(
        f"Checkpoint not found: {path}; {there}. Pass a directory, a .safetensors, .bin or .ckpt file, or the prefix "
        "of a TF1 checkpoint (without .index)."
    )


def _by_ending(path):
    for ending in sorted(_ENDINGS, key=len, reverse=True):
        if path.endswith(ending):
            return _ENDINGS[ending], path
    raise ValueError(f"A weights file must end in one of {sorted(_ENDINGS)}, or be a TF1 prefix; got {path}.")


def _in_directory(path):
    for name, form in WEIGHT_FILES.items():
        if os.path.isfile(os.path.join(path, name)):
            return form, os.path.join(path, name)
    prefix = _latest_named(path) or _by_convention(path)
    if prefix:
        return "tf1", os.path.join(path, prefix)
    if lightning := _lightning_file(path):
        return "torch_bin", lightning
    check_not_adapters(path)
    looked_for = [*WEIGHT_FILES, "*.ckpt", f"{RELEASE}.index", "model.ckpt-<step>.index with .data"]
    unread = "; .onnx is not supported" if any(name.endswith(".onnx") for name in os.listdir(path)) else ""
    raise ValueError(
        f"No weights in {path}: expected one of {looked_for}. It contains {list_directory(path)}{unread}."
    )


def _lightning_file(path):
    """Returns the path of the only .ckpt file in a directory; None if there is none."""
    names = [name for name in sorted(os.listdir(path)) if name.endswith(".ckpt") and not name.startswith(".")]
    files = [file for name in names if os.path.isfile(file := os.path.join(path, name))]
    if len(files) > 1:
        raise ValueError(
            f"{path} contains several PyTorch Lightning checkpoints: {', '.join(map(os.path.basename, files))[:500]}. "
            "Pass the path of one of them."
        )
    return files[0] if files else None


def _latest_named(path):
    """Returns the checkpoint named in the file `checkpoint`, if there is one."""
    if not os.path.isfile(os.path.join(path, "checkpoint")):
        return None
    named = _state(os.path.join(path, "checkpoint"))
    if not named:
        raise ValueError(
            f"{path}/checkpoint does not name the latest checkpoint (model_checkpoint_path). Pass the prefix of a "
            "checkpoint instead of the directory."
        )
    # Only the last part counts: a directory may be moved, and the file may hold the absolute path of old.
    prefix = os.path.basename(named)
    if not os.path.isfile(os.path.join(path, f"{prefix}.index")):
        raise ValueError(
            f"{path}/checkpoint names {prefix}, but {prefix}.index does not exist. The directory contains "
            f"{list_directory(path)}; pass the prefix of another checkpoint instead of the directory."
        )
    return prefix


def _state(path):
    """Returns the checkpoint named in TensorFlow's file `checkpoint`, or None."""
    import tensorflow as tf

    if os.path.getsize(path) > _LONGEST_STATE:
        return None
    try:
        state = tf.train.get_checkpoint_state(os.path.dirname(path))  # None if it cannot be parsed
    except ValueError:  # it is not UTF-8
        return None
    return state and state.model_checkpoint_path


def _by_convention(path):
    whole = [prefix for prefix, kinds in tf1_files(path) if kinds >= {"index", "data"}]
    steps = [prefix for prefix in whole if _STEP.fullmatch(prefix)]
    if RELEASE in whole or not steps:
        return RELEASE if any(p == RELEASE for p, _ in tf1_files(path)) else None
    return max(steps, key=lambda prefix: int(_STEP.fullmatch(prefix)[1]))


def tf1_files(path: str) -> Iterator[tuple[str, set[str]]]:
    """Yields (prefix, existing files of "index", "data") for all TF1 checkpoints in a directory, complete or not."""
    kinds = {}
    for name in sorted(os.listdir(path)) if os.path.isdir(path) else []:
        if match := _TF1_FILE.fullmatch(name):
            kinds.setdefault(match[1], set()).add("index" if name.endswith(".index") else "data")
    yield from kinds.items()


def list_directory(path: str) -> str:
    """Returns the names in a directory, for an error message."""
    return list_files(os.listdir(path))


def list_files(names: Iterable[str]) -> str:
    """Returns the first of some names of files, for an error message."""
    names = sorted(names)
    return f"{names[:20]}{' and more' if len(names) > 20 else ''}"
