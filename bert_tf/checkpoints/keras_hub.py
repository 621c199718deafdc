"""KerasHub's presets: the weights in their HDF5 files, and where the tokenizer's files lie."""

import os

import numpy as np

from bert_tf.checkpoints.names.keras_hub import TASK
from bert_tf.files import read_json

MODEL_WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"
TOKENIZER_FILE, TASK_FILE = "tokenizer.json", "task.json"
VOCABULARY = os.path.join("assets", "tokenizer", "vocabulary.txt")


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
        path, inside = self._places[name]
        with _opened(path) as file:
            try:
                return np.asarray(file[inside])
            except (OSError, KeyError) as error:
                raise _refusal(path, f"{inside}: {error}") from error

    def _add(self, path, prefix):
        import h5py

        def add(name, item):
            if isinstance(item, h5py.Dataset):
                self._places[prefix + name] = path, name
                self.shapes[prefix + name] = tuple(item.shape)

        with _opened(path) as file:
            try:
                file.visititems(add)
            except (OSError, RuntimeError) as error:
                raise _refusal(path, error) from error


def tokenizer_of(directory: str) -> tuple[str, bool] | None:
    """Returns (the vocabulary's file, whether text is lowercased) of a preset; None: the directory is none.

    Raises:
        ValueError: tokenizer.json is not KerasHub's.
    """
    path = os.path.join(directory, VOCABULARY)
    if not os.path.exists(path):
        return None
    file = os.path.join(directory, TOKENIZER_FILE)
    try:
        return path, bool(read_json(file)["config"]["lowercase"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{file} must describe a word-piece tokenizer of KerasHub's. Received one without {error}; save the preset "
            "again."
        ) from error


def task_class(directory: str) -> str | None:
    """Returns the name of the task's class in a preset, such as "BertTextClassifier"; None: there is no task."""
    path = os.path.join(directory, TASK_FILE)
    values = read_json(path) if os.path.exists(path) else None
    return str(values.get("class_name")) if isinstance(values, dict) and "registered_name" in values else None


def _opened(path):
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise _refusal(path, error) from error


def _refusal(path, why):
    return ValueError(
        f"{path} must be a whole HDF5 file, as Keras writes weights. Received: {why}. Copy it again, or save the "
        "preset again."
    )
