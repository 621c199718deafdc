"""The file formats that weights come in, each as `shapes` (name in the file -> shape) and `read(name)`.

Opening reads names and shapes only; an array is read when it is asked for, in the dtype and orientation of the file.
"""

import os

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy, which safetensors needs)
import numpy as np
from safetensors import SafetensorError, safe_open

from bert_tf.checkpoints import keras_hub, tf1
from bert_tf.checkpoints.torch_bin import TorchBin
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object

_REMEDY = "download or copy it again"
_LONGEST_HEADER = 16 * 2**20  # bytes; that of BERT-large has 40,000
# The types of safetensors that NumPy has. Numbers of 8 bits and less stand for weights only with scales beside them.
_DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")


def check_finite(array: np.ndarray, name: str, path: str):
    """Checks a weight that has been read: one that is NaN or infinite makes every answer of its model NaN.

    Args:
        array: of any type; what is no floating-point number passes.
        name: of the weight, in the file.
        path: the file.

    Raises:
        ValueError: a number of it is not finite.
    """
    if array.dtype.kind not in "fV" or (finite := np.isfinite(array)).all():
        return
    place = np.unravel_index(int(np.argmin(finite)), finite.shape)
    raise ValueError(
        f"The weights in {path} must be finite numbers. Received {array[place]} in {name} at "
        f"{[int(i) for i in place]}, one of {np.count_nonzero(~finite):,} in its {array.size:,} numbers that are not: "
        "the training that wrote it diverged, or the file is damaged; take an earlier checkpoint, or download it again."
    )


class SafetensorsFile:
    """One .safetensors file.

    Raises:
        ValueError: the file is cut short or no safetensors file.
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
                raise ValueError(f"numbers of type {dtype}, which this reader does not know")
            return self._file.get_tensor(name)
        except (SafetensorError, OSError, ValueError) as error:
            raise self._refusal(f"{name:.200}: {error}") from error

    def _refusal(self, why):
        return ValueError(f"{self._path} must be a whole safetensors file. Received: {str(why):.1000}; {_REMEDY}.")


def _check_header(path):
    """Refuses a header that is longer than weights need, of which safetensors' own reader takes 100 MB in."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > _LONGEST_HEADER:
        raise ValueError(f"a header of {size} bytes")


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
        self._files = read_object(path, 'JSON with a "weight_map"', _REMEDY).get("weight_map")
        if not isinstance(self._files, dict) or not all(isinstance(file, str) for file in self._files.values()):
            raise ValueError(
                f'{path} must be JSON with a "weight_map" of names and files. Received: {brief(self._files)}; '
                f"{_REMEDY}."
            )
        self._shards = {name: open_one(self._beside(name)) for name in sorted(set(self._files.values()))}
        missing = [name for name, file in self._files.items() if name not in self._shards[file].shapes]
        if missing:
            raise ValueError(
                f"The files listed in {path} must hold all its weights. Received: none of {brief(missing)}; {_REMEDY}."
            )
        self.shapes = {name: self._shards[file].shapes[name] for name, file in self._files.items()}

    def _beside(self, name):
        folder = os.path.dirname(self._path)
        if os.path.basename(name) != name or not os.path.isfile(os.path.join(folder, name)):
            raise ValueError(
                f"Every file that {self._path} lists must be beside it. Received: no {brief(name)}; {_REMEDY}."
            )
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
