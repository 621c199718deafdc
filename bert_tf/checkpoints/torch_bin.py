"""Reads `pytorch_model.bin` without torch, by an unpickler that can build tensors and nothing else.

A .bin file is a pickle, and a pickle may call any function it names. This one finds only the few names in `_NAMES`, all
of them ours: a file that asks for anything else is refused before it runs. Written from torch's description of
its two formats: the zip archive (since 1.6: data.pkl, byteorder, data/<key>) and the older stream of pickles, followed
by the storages. Tensors are read from the file when they are asked for.
"""

import math
import os
import pickle
import zipfile
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

_DTYPES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}
_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_REMEDY = "Download it again, or take model.safetensors if its author offers that."


# What the pickle can hold on to must be unchangeable: its BUILD instruction sets attributes on any object that allows
# it, after the checks. A NamedTuple has neither a __dict__ nor a __setstate__.
class _Storage(NamedTuple):
    """A run of `size` elements of `dtype`, called `key` in the file."""

    key: str
    dtype: np.dtype
    size: int


class Tensor(NamedTuple):
    """A tensor still in its file; `offset` and `stride` count elements of the storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def _is_size(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**48


def _rebuild_tensor(storage, offset, shape, stride, *_requires_grad_hooks_and_metadata):
    shape, stride = tuple(shape), tuple(stride)
    if not isinstance(storage, _Storage) or not all(map(_is_size, (offset, *shape, *stride))):
        raise pickle.UnpicklingError("a tensor's storage, offset, shape or strides are not what torch writes")
    if len(shape) != len(stride):
        raise pickle.UnpicklingError(f"a tensor of shape {shape} has {len(stride)} strides")
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    if math.prod(shape) and last >= storage.size:
        raise pickle.UnpicklingError(f"a tensor of shape {shape} reaches beyond its storage of {storage.size} elements")
    return Tensor(storage, offset, shape, stride)


def _rebuild_parameter(tensor, *_requires_grad_and_hooks):
    return tensor


class _Dict(dict):
    """Stands for collections.OrderedDict; drops the `_metadata` that state_dict() hangs on it."""

    __slots__ = ()

    def __setstate__(self, state):
        """Takes no state, so that a file can put no attribute on it."""


class _Maker:
    """A function handed to the pickle. Without a __dict__, unlike a function: the file's BUILD cannot change it."""

    __slots__ = ("_make",)

    def __init__(self, make):
        object.__setattr__(self, "_make", make)

    def __setattr__(self, name, value):
        raise pickle.UnpicklingError("the file tries to change the function that builds tensors")

    def __call__(self, *args):
        return self._make(*args)


_NAMES = {
    ("collections", "OrderedDict"): lambda: _Dict,
    ("torch._utils", "_rebuild_tensor"): lambda: _Maker(_rebuild_tensor),
    ("torch._utils", "_rebuild_tensor_v2"): lambda: _Maker(_rebuild_tensor),
    ("torch._utils", "_rebuild_parameter"): lambda: _Maker(_rebuild_parameter),
    # A storage's class is only ever a label: it is given as its name.
    **{(module, name): lambda name=name: name for name in _DTYPES for module in ("torch", "torch.storage")},
}


class _Unpickler(pickle.Unpickler):
    """Builds dicts, lists, numbers, strings and Tensors."""

    def __init__(self, file):
        super().__init__(file, encoding="utf-8")
        self.storages = {}

    def find_class(self, module, name):
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"the file wants to run {module}.{name}, which this reader does not allow")
        return _NAMES[module, name]()

    def persistent_load(self, pid):
        kind, label, key, _location, size, *view = pid
        if kind != "storage" or label not in _DTYPES or not isinstance(key, str) or not _is_size(size) or any(view):
            raise pickle.UnpicklingError(f"the file describes its data as {str(pid):.200}")
        storage = self.storages.setdefault(key, _Storage(key, np.dtype(_DTYPES[label]), size))
        if storage.dtype != np.dtype(_DTYPES[label]):
            raise pickle.UnpicklingError(f"storage {key} is described with two types")
        return storage


class TorchBin:
    """The tensors of one file.

    Attributes:
        path: the file.
        tensors: name -> Tensor, from a state dict, or from a dict which holds one under "state_dict".

    Raises:
        ValueError: the file is cut short, is no torch file, or wants to run anything but the building of tensors.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self._folder = None  # inside the zip archive; None in the older format
        self._starts = {}  # byte positions of the storages in the older format
        try:
            with open(self.path, "rb") as file:
                content = self._open_zip(file) if file.peek(2)[:2] == b"PK" else self._open_stream(file)
        except Exception as error:  # a damaged pickle can fail in any way: IndexError, KeyError, UnicodeDecodeError
            raise self._refusal(f"{type(error).__name__}: {error}") from error
        self.tensors = self._named_tensors(content)

    def read(self, name: str) -> np.ndarray:
        """Returns the tensor called `name` in its own shape and dtype (bfloat16 is ml_dtypes.bfloat16), in C order.

        Raises:
            ValueError: the data is damaged, or the file changed since it was opened.
        """
        storage, offset, shape, stride = self.tensors[name]
        try:
            elements = self._elements(storage)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise self._refusal(error) from error
        if len(elements) != storage.size:  # as_strided would read beyond the array
            raise self._refusal(f"{len(elements)} of the {storage.size} elements of {name}")
        steps = [step * storage.dtype.itemsize for step in stride]
        return np.array(np.lib.stride_tricks.as_strided(elements[offset:], shape, steps, writeable=False), order="C")

    def _elements(self, storage):
        if self._folder is None:
            return np.fromfile(self.path, storage.dtype, storage.size, offset=self._starts[storage.key])
        with zipfile.ZipFile(self.path) as archive:  # checks the CRC
            return np.frombuffer(archive.read(f"{self._folder}data/{storage.key}"), storage.dtype, storage.size)

    def _refusal(self, why):
        return ValueError(
            f"{self.path} must be a whole torch file that holds tensors and nothing else. Received: {why}. {_REMEDY}"
        )

    def _named_tensors(self, content) -> dict[str, Tensor]:
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        if not isinstance(content, dict):
            raise self._refusal(f"a {type(content).__name__} in place of a dict of tensors")
        strange = [str(name) for name, value in content.items() if not isinstance(value, Tensor)]
        if strange:
            raise self._refusal(f"things that are no tensors, under the names {strange[:10]}")
        return {str(name): value for name, value in content.items()}

    def _open_zip(self, file) -> Any:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            pickles = [n for n in names if n == "data.pkl" or n.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise pickle.UnpicklingError(f"a zip archive with {len(pickles)} files data.pkl")
            self._folder = pickles[0].removesuffix("data.pkl")
            order = f"{self._folder}byteorder"  # written since torch 2.1
            _check_order(order not in names or archive.read(order) == b"little")
            with archive.open(pickles[0]) as data:
                unpickler = _Unpickler(data)
                content = unpickler.load()
            for storage in unpickler.storages.values():
                _check_size(storage, archive.getinfo(f"{self._folder}data/{storage.key}").file_size)
        return content

    def _open_stream(self, file) -> Any:
        """Reads magic number, version, system, content, keys; then come the storages: int64 size, elements."""
        if _Unpickler(file).load() != _MAGIC or _Unpickler(file).load() != _VERSION:
            raise pickle.UnpicklingError("a pickle that torch has not written")
        _check_order(_Unpickler(file).load()["little_endian"])
        unpickler = _Unpickler(file)
        content = unpickler.load()
        end = os.fstat(file.fileno()).st_size
        for key in _Unpickler(file).load():
            storage = unpickler.storages[key]
            size = max(0, int.from_bytes(file.read(8), "little", signed=True)) * storage.dtype.itemsize
            self._starts[key] = file.tell()
            _check_size(storage, min(size, end - file.tell()))
            file.seek(size, os.SEEK_CUR)
        if missing := set(unpickler.storages) - set(self._starts):
            raise pickle.UnpicklingError(f"no data for the storages {sorted(missing)[:10]}")
        return content


def _check_order(little):
    if not little:
        raise pickle.UnpicklingError("numbers in big-endian order, which this reader does not turn round")


def _check_size(storage, size_in_bytes):
    if size_in_bytes < storage.size * storage.dtype.itemsize:
        raise pickle.UnpicklingError(f"storage {storage.key} has {size_in_bytes} bytes for {storage.size} elements")
