"""KerasHub presets, to be read: the weights in their HDF5 files, and the tokenizer's files."""

import json
import os
import re
from typing import NamedTuple

import numpy as np

from bert_tf.checkpoints.hdf5 import Hdf5File
from bert_tf.checkpoints.keras_hub_names import TASK
from bert_tf.models.config_files import warn_of_unknown_keys
from bert_tf.models.keras_hub_config import OF_KERAS
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object

MODEL_WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"
TOKENIZER_FILE = "tokenizer.json"
ASSETS = os.path.join("assets", "tokenizer")
# Vocabularies of WordPiece, byte-level BPE (with merges.txt next to it) and SentencePiece.
VOCABULARIES = ("vocabulary.txt", "vocabulary.json", "vocabulary.spm")
_BACKBONE_AGAIN = re.compile(r"layers/\w+_backbone/")  # older versions of KerasHub write it into both files
_DESCRIPTION, _REMEDY = "JSON written by KerasHub or bert_tf", "copy it again, or save the preset again"


class Preset:
    """The weights of one preset: `shapes` name -> shape, `read(name)`.

    Args:
        path: path of model.weights.h5; task.weights.h5 is read too if it is in the same directory.

    Raises:
        ValueError: a file is truncated or not an HDF5 file.
    """

    def __init__(self, path: str):
        self._places, self.shapes = {}, {}
        self._add(path, "")
        task = os.path.join(os.path.dirname(path), TASK_WEIGHTS)
        if os.path.exists(task):
            self._add(task, TASK)

    def read(self, name: str) -> np.ndarray:
        file, inside = self._places[name]
        return file.read(inside)

    def _add(self, path, prefix):
        file = Hdf5File(path)
        for name, shape in file.shapes.items():
            if not (prefix and _BACKBONE_AGAIN.match(name)):
                self._places[prefix + name], self.shapes[prefix + name] = (file, name), shape


# Key of a WordPiece preset -> the only supported value, and KerasHub's default.
_WORDPIECE = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]", "special_tokens_in_strings": False}


# The keys that a tokenizer of KerasHub states in addition: read here, or of files, batches and lists beside them.
_KNOWN = ("lowercase", "strip_accents", "add_prefix_space", "vocabulary", "merges", "proto", "config_file",
          "sequence_length", "special_tokens", "unsplittable_tokens", "add_bos", "add_eos")  # fmt: skip


class PresetTokenizer(NamedTuple):
    """The tokenizer of a preset; only WordPiece presets contain the last two; None means the family's default."""

    vocab_file: str
    do_lower_case: bool | None = None
    strip_accents: bool | None = None


def tokenizer_of(directory: str) -> PresetTokenizer | None:
    """Returns the tokenizer of a preset; None if the directory is not a preset.

    Raises:
        ValueError: tokenizer.json is not KerasHub's, or has unsupported settings.
    """
    paths = [os.path.join(directory, ASSETS, name) for name in VOCABULARIES]
    path = next(filter(os.path.exists, paths), None)
    if path is None:
        return None
    file = os.path.join(directory, TOKENIZER_FILE)
    config = read_object(file, _DESCRIPTION, _REMEDY).get("config")
    if isinstance(config, dict) and (unknown := sorted(config.keys() - {*_KNOWN, *_WORDPIECE, *OF_KERAS})):
        warn_of_unknown_keys(file, tuple(unknown))
    if path != paths[0] and isinstance(config, dict):
        if config.get("add_prefix_space"):
            raise ValueError(
                f"{file} must not set add_prefix_space for this tokenizer; got "
                f"{brief(config['add_prefix_space'])}; save the preset without it."
            )
        return PresetTokenizer(path)
    lower = config.get("lowercase") if isinstance(config, dict) else None
    if not isinstance(lower, bool):
        raise ValueError(
            f"{file} must describe a WordPiece tokenizer of KerasHub with lowercase true or false; got "
            f"{brief(lower)}; save the preset again."
        )
    for key, value in _WORDPIECE.items():
        if config.get(key, value) != value:
            raise ValueError(
                f"{file} must have {key} {json.dumps(value)} or lack it; got {brief(config[key])}, which is not "
                "supported."
            )
    strip = config.get("strip_accents", False)
    if not isinstance(strip, bool) or (strip and not lower):
        raise ValueError(
            f"{file} must have strip_accents true or false, and true only with lowercase; got {brief(strip)} and "
            f"lowercase {json.dumps(lower)}, which is not supported."
        )
    return PresetTokenizer(path, lower, strip)
