"""KerasHub's presets: the weights in their HDF5 files, and where the tokenizer's files lie."""

import os

import numpy as np

from bert_tf.checkpoints.hdf5 import Hdf5File
from bert_tf.checkpoints.names.keras_hub import TASK
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object

MODEL_WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"
TOKENIZER_FILE, TASK_FILE = "tokenizer.json", "task.json"
VOCABULARY = os.path.join("assets", "tokenizer", "vocabulary.txt")
_DESCRIPTION, _REMEDY = "what KerasHub or bert_tf wrote in JSON", "copy it again, or save the preset again"


class Preset:
    """The weights of one preset: `shapes` name -> shape, `read(name)`.

    Args:
        path: of model.weights.h5; task.weights.h5 is read too if it lies beside.

    Raises:
        ValueError: a file is cut short or no HDF5 file.
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
            self._places[prefix + name], self.shapes[prefix + name] = (file, name), shape


def tokenizer_of(directory: str) -> tuple[str, bool] | None:
    """Returns (the vocabulary's file, whether text is lowercased) of a preset; None: the directory is none.

    Raises:
        ValueError: tokenizer.json is not KerasHub's.
    """
    path = os.path.join(directory, VOCABULARY)
    if not os.path.exists(path):
        return None
    file = os.path.join(directory, TOKENIZER_FILE)
    config = read_object(file, _DESCRIPTION, _REMEDY).get("config")
    lower = config.get("lowercase") if isinstance(config, dict) else None
    if not isinstance(lower, bool):
        raise ValueError(
            f"{file} must describe a word-piece tokenizer of KerasHub's, with lowercase true or false. Received: "
            f"{brief(lower)}; save the preset again."
        )
    return path, lower
