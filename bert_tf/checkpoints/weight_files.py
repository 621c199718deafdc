"""The file formats of weights, each with `shapes` (name in the file -> shape) and `read(name)`.

Opening reads names and shapes only; an array is read on demand, in the dtype and orientation of the file.
"""

import os

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy, which safetensors needs)
import numpy as np
from safetensors import SafetensorError, safe_open

from bert_tf.checkpoints import keras_hub, keras_hub_objects, tf1
from bert_tf.checkpoints.torch_bin import TorchBin
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object

_REMEDY = "download or copy it again"
_LONGEST_HEADER = 16 * 2**20  # bytes; that of BERT-large has 40,000
# The types of safetensors that NumPy has. Numbers of 8 bits and less stand for weights only together with scales.
_DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")


def check_finite(array: np.ndarray, name: str, path: str):
    """Checks that a weight is finite, because NaN or infinity would make all outputs of the model NaN.

    Args:
        array: array of any type; non-floating-point arrays pass.
        name: name of the weight in the file.
        path: path of the file.

    Raises:
        ValueError: a number of it is not finite.
    """
    if array.dtype.kind not in "fV" or (finite := np.isfinite(array)).all():
        return
    index = np.unravel_index(int(np.argmin(finite)), finite.shape)
    raise ValueError(
        f"The weights in {path} are not finite: {array[index]} in {name} at {[int(i) for i in index]} (affected "
        f"values: {np.count_nonzero(~finite):,} of {array.size:,}). Training diverged before the file was written, or "
        "the file is damaged; use an earlier checkpoint, or download it again."
    )


class SafetensorsFile:
    """A .safetensors file.

    Raises:
        ValueError: the file is truncated or not a safetensors file.
    """

    def __init__(self, path: str):
        self._path = path
        try:
            _check_header(path)
            self._file = safe_open(path, framework="np")
            names = self._file.keys()
            self.shapes = {name: tuple(self._file.get_slice(name).get_shape()) for name in names}
        except (SafetensorError, OSError, ValueError) as error:
            raise self._refusal(error) from error

    def read(self, name: str) -> np.ndarray:
        try:
            dtype = self._file.get_slice(name).get_dtype()
            if dtype not in _DTYPES:
                raise ValueError(f"numbers of type {dtype}, which are not supported")
            return self._file.get_tensor(name)
        except (SafetensorError, OSError, ValueError) as error:
            raise self._refusal(f"{name:.200}: {error}") from error

    def _refusal(self, why):
        return ValueError(f"{self._path} is not a complete safetensors file: {str(why):.1000}; {_REMEDY}.")


def _check_header(path):
    """Rejects headers that are longer than weights need; safetensors' own reader accepts 100 MB."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > _LONGEST_HEADER:
        raise ValueError(f"a header of {size} bytes")


class TorchBinFile:
    """A pytorch_model.bin file, read without torch (see torch_bin.py).

    Raises:
        ValueError: the file is truncated, is not a torch file, or tries to run code.
    """

    def __init__(self, path: str):
        self._file = TorchBin(path)
        self.shapes = {name: tensor.shape for name, tensor in self._file.tensors.items()}
        self.read = self._file.read


class Shards:
    """Several files listed in an index file: {"weight_map": {name: file next to the index}}.

    Raises:
        ValueError: the index is not such a file, or a file or weight that it lists is missing.
    """

    def __init__(self, path: str, open_one):
        self._files = read_weight_map(path)
        self._shards = {file: open_one(file_beside(path, file)) for file in sorted(set(self._files.values()))}
        missing = [name for name, file in self._files.items() if name not in self._shards[file].shapes]
        if missing:
            raise ValueError(
                f"The files listed in {path} do not contain all of its weights: {brief(missing)} are missing; "
                f"{_REMEDY}."
            )
        self.shapes = {name: self._shards[file].shapes[name] for name, file in self._files.items()}

    def read(self, name: str) -> np.ndarray:
        return self._shards[self._files[name]].read(name)


def read_weight_map(path: str) -> dict[str, str]:
    """Returns {name of a weight: file} of an index file; raises ValueError if it is none."""
    files = read_object(path, 'JSON with a "weight_map"', _REMEDY).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise ValueError(
            f'{path} must be JSON with a "weight_map" of names and files; got {brief(files)}; {_REMEDY}.'
        )
    return files


def file_beside(path: str, name: str) -> str:
    """Returns the path of a file that an index lists; raises ValueError if it is not next to the index."""
    folder = os.path.dirname(path)
    if os.path.basename(name) != name or not os.path.isfile(os.path.join(folder, name)):
        raise ValueError(f"A file listed in {path} is missing next to it: {brief(name)}; {_REMEDY}.")
    return os.path.join(folder, name)


OPENERS = {
    "safetensors": SafetensorsFile,
    "torch_bin": TorchBinFile,
    "sharded safetensors": lambda path: Shards(path, SafetensorsFile),
    "sharded torch_bin": lambda path: Shards(path, TorchBinFile),
    "tf1": tf1.Tf1File,
    "keras_hub": keras_hub.Preset,
    "keras_hub_object": keras_hub_objects.LiveWeights,
}
