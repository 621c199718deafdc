"""Reads `pytorch_model.bin` without torch: the contents from its pickle, tensors on demand.

Written from torch's description of its two formats: the zip archive (since 1.6: data.pkl, byteorder, data/<key>) and
the older stream of pickles, followed by the storages. `tensor_pickle.py` reads the pickles without running code.
"""

import io
import math
import os
import zipfile
import zlib
from typing import NamedTuple

import numpy as np

from bert_tf.checkpoints.tensor_pickle import LONGEST, Tensor, load_pickle

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_DIRECTORY = 4 * 2**20  # bytes of a zip archive's directory; that of BERT-large has 40,000
_LOCAL_HEADER = 30  # bytes before the name and the extra field of a member
_MOST_SHARED = 16  # how often the tensors may use each byte of the file: some share a storage
_REMEDY = "Download it again, or use model.safetensors if available."


class _Place(NamedTuple):
    """Where in the file bytes lie, and their CRC, which the older format does not have."""

    start: int
    size: int
    crc: int | None = None


class TorchBin:
    """The tensors of a torch file.

    Attributes:
        path: the file.
        tensors: name -> Tensor, from a state dict, or from a dict which contains one under "state_dict".

    Raises:
        ValueError: the file is truncated, is not a torch file, tries to run anything other than building tensors, or
            needs more memory than its size explains.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self._places = {}  # of the storages
        self._checked = set()  # storages that have been read whole, and compared with their CRC
        try:
            with _Small(self.path) as file:
                is_zip = file.read(2) == b"PK"
                content = self._open_zip(file) if is_zip else self._open_stream(file)
            self.tensors = _named_tensors(content)
            self._check_sizes()
        except Exception as error:  # zipfile fails in many ways: NotImplementedError, struct.error
            raise self._refusal(error) from error

    def read(self, name: str) -> np.ndarray:
        """Returns the tensor called `name` in its own shape and dtype (bfloat16 is ml_dtypes.bfloat16), in C order.

        Raises:
            ValueError: the data is damaged, or the file changed since it was opened.
        """
        storage, offset, shape, stride = self.tensors[name]
        try:
            if not math.prod(shape):
                return np.zeros(shape, storage.dtype)
            size = storage.dtype.itemsize
            last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
            elements = self._part(storage.key, offset * size, (last + 1) * size).view(storage.dtype)
            view = np.lib.stride_tricks.as_strided(elements, shape, [step * size for step in stride], writeable=False)
            return np.array(view, order="C")
        except (OSError, ValueError) as error:
            raise self._refusal(f"{name:.200}: {error}") from error

    def _part(self, key, start, end):
        """Returns bytes of a storage, which is checked as a whole on first use, because many tensors may share it."""
        place = self._places[key]
        if key not in self._checked and place.crc is not None:
            data = self._bytes(place)[start:end]
            self._checked.add(key)
            return data
        return self._bytes(_Place(place.start + start, end - start))

    def _bytes(self, place):
        data = np.fromfile(self.path, np.uint8, place.size, offset=place.start)
        if len(data) != place.size:  # as_strided would read beyond the array
            raise ValueError(f"{len(data)} of {place.size} bytes")
        if place.crc is not None and zlib.crc32(data) != place.crc:
            raise ValueError("a checksum mismatch")
        return data

    def _refusal(self, why):
        kind = f"{type(why).__name__}: " if isinstance(why, Exception) and type(why) is not ValueError else ""
        return ValueError(
            f"{self.path} is not a complete torch file that contains only tensors: {kind}{str(why):.1000}. {_REMEDY}"
        )

    def _check_sizes(self):
        for key, storage in {t.storage.key: t.storage for t in self.tensors.values()}.items():
            there = self._places[key].size if key in self._places else 0
            if there < storage.size * storage.dtype.itemsize:
                raise ValueError(f"storage {key:.80} with {there} bytes for {storage.size} elements")
        size = sum(math.prod(t.shape) * t.storage.dtype.itemsize for t in self.tensors.values())
        if size > _MOST_SHARED * os.path.getsize(self.path):
            raise ValueError(f"tensors of {size} bytes in a file of {os.path.getsize(self.path)}")

    def _open_zip(self, file):
        with zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
        pickles = [name for name in members if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError(f"a zip archive with {len(pickles)} files data.pkl")
        folder = pickles[0].removesuffix("data.pkl")
        order = members.get(f"{folder}byteorder")  # written since torch 2.1
        _check_order(order is None or order.file_size == 6 and self._bytes(_place(file, order)).tobytes() == b"little")
        if members[pickles[0]].file_size > LONGEST:
            raise ValueError(f"a pickle of {members[pickles[0]].file_size} bytes")
        content, storages, _ = load_pickle(self._bytes(_place(file, members[pickles[0]])).tobytes())
        for key in storages:
            name = f"{folder}data/{key}"
            if name not in members:
                raise ValueError(f"no data for the storage {key:.80}")
            self._places[key] = _place(file, members[name])
        return content

    def _open_stream(self, file):
        """Reads magic number, version, system, content, keys; then come the storages: int64 size, elements."""
        end = os.fstat(file.fileno()).st_size
        data, at, parts = self._bytes(_Place(0, min(end, LONGEST))).tobytes(), 0, []
        for expected in (_MAGIC, _VERSION, None, None, None):
            parts.append(load_pickle(data, at))
            at = parts[-1].end
            if expected not in (None, parts[-1].content):
                raise ValueError("a pickle that torch has not written")
        _, _, system, (content, storages, _), keys = parts
        _check_order(isinstance(system.content, dict) and system.content.get("little_endian"))
        for key in keys.content if isinstance(keys.content, list) else []:
            if not isinstance(key, str) or key not in storages:
                raise ValueError("data for a storage that is not described")
            file.seek(at)
            size = int.from_bytes(file.read(8), "little", signed=True) * storages[key].dtype.itemsize
            if not 0 <= size <= end - at - 8:
                raise ValueError(f"storage {key:.80} with {size} bytes, of which {max(0, end - at - 8)} are present")
            self._places[key], at = _Place(at + 8, size), at + 8 + size
        return content


class _Small(io.FileIO):
    """A file of which only small parts can be read: zipfile would take in a directory of any length."""

    def read(self, size=-1):
        if size > _DIRECTORY:
            raise ValueError(f"a zip archive whose directory has {size} bytes")
        return super().read(size)


def _place(file, info):
    """Returns where the bytes of a zip archive's member lie. torch never compresses them."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.file_size != info.compress_size:
        raise ValueError(f"the member {info.filename:.80}, compressed or encrypted, which torch never writes")
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\3\4"):
        raise ValueError(f"no member {info.filename:.80} at the offset in the zip directory")
    start = info.header_offset + _LOCAL_HEADER + sum(int.from_bytes(header[i : i + 2], "little") for i in (26, 28))
    if start + info.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"the member {info.filename:.80}, cut short")
    return _Place(start, info.file_size, info.CRC)


def _named_tensors(content) -> dict[str, Tensor]:
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict):
        raise ValueError(f"a {type(content).__name__} in place of a dict of tensors")
    strange = [str(name)[:80] for name, value in content.items() if not isinstance(value, Tensor)]
    if strange:
        raise ValueError(f"entries that are not tensors, under the names {strange[:10]}")
    return {str(name): value for name, value in content.items()}


def _check_order(little):
    if not little:
        raise ValueError("numbers in big-endian order, which is not supported")
