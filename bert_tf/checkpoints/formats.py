"""The file formats that weights come in, each as `shapes` (name in the file -> shape) and `read(name)`.

Opening reads names and shapes only; an array is read when it is asked for, in the dtype and orientation of the file.
"""

import json
import os

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy, which safetensors needs)
import numpy as np
from safetensors import SafetensorError, safe_open

from bert_tf.checkpoints import keras_hub, tf1
from bert_tf.checkpoints.torch_bin import TorchBin

_REMEDY = "Download or copy it again"


class SafetensorsFile:
    """One .safetensors file.

    Raises:
        ValueError: the file is cut short or no safetensors file.
    """

    def __init__(self, path: str):
        self._path = path
        try:
            self._file = safe_open(path, framework="np")
            names = self._file.keys()
            self.shapes = {name: tuple(self._file.get_slice(name).get_shape()) for name in names}
        except (SafetensorError, OSError) as error:
            raise self._refusal(error) from error

    def read(self, name: str) -> np.ndarray:
        try:
            return self._file.get_tensor(name)
        except (SafetensorError, TypeError) as error:  # TypeError: a type that NumPy lacks, as float4
            raise self._refusal(f"{name}: {error}") from error

    def _refusal(self, why):
        return ValueError(f"{self._path} must be a whole safetensors file. Received: {why}. {_REMEDY}.")


class TorchBinFile:
    """One pytorch_model.bin, read without torch (see torch_bin.py).

    Raises:
        ValueError: the file is cut short, is no torch file, or wants to run code.
    """

    def __init__(self, path: str):
        self._file = TorchBin(path)
        self.shapes = {name: tensor.shape for name, tensor in self._file.tensors.items()}
        self.read = self._file.read


class Shards:
    """Several files that an index file lists: {"weight_map": {name: file beside the index}}.

    Raises:
        ValueError: the index is not such a file, or a file or weight that it lists is not there.
    """

    def __init__(self, path: str, open_one):
        self._path = path
        try:
            with open(path, encoding="utf-8") as file:
                self._files = dict(json.load(file)["weight_map"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f'{path} must be JSON with a "weight_map". Received: {error!r}. {_REMEDY}.') from error
        self._shards = {name: open_one(self._beside(name)) for name in sorted(set(self._files.values()))}
        missing = [name for name, file in self._files.items() if name not in self._shards[file].shapes]
        if missing:
            raise ValueError(f"The files listed in {path} must hold all its weights. Received: none of {missing[:10]}.")
        self.shapes = {name: self._shards[file].shapes[name] for name, file in self._files.items()}

    def _beside(self, name):
        folder = os.path.dirname(self._path)
        if os.path.basename(name) != name or not os.path.isfile(os.path.join(folder, name)):
            raise ValueError(f"Every file that {self._path} lists must be beside it. Received: no {name!r}. {_REMEDY}.")
        return os.path.join(folder, name)

    def read(self, name: str) -> np.ndarray:
        return self._shards[self._files[name]].read(name)


OPENERS = {
    "safetensors": SafetensorsFile,
    "torch_bin": TorchBinFile,
    "sharded safetensors": lambda path: Shards(path, SafetensorsFile),
    "sharded torch_bin": lambda path: Shards(path, TorchBinFile),
    "tf1": tf1.Tf1File,
    "keras_hub": keras_hub.Preset,
}
