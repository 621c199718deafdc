"""Reads HDF5 files as written by Keras (hard links, contiguous arrays) without libhdf5.

libhdf5 trusts its input: 312 of 10,000 damaged weight files crashed the process that read them (1.14.6; SIGABRT,
SIGSEGV). So this module reads a subset of the format (HDF5 File Format Specification 3.0): superblocks 0 to 3, object
headers 1 and 2, groups in symbol tables or with their links in the header. Nothing else is followed, above all no link
to another file.

Running h5py in a child process would not replace this reader. libhdf5 accepts 11 of the 15 crafted files in our tests
(links, arrays in other files, compressed or larger than the file), so the checks would still be needed, and spends 4.5
CPU seconds on one of them. The child costs each load 0.4 CPU seconds, compared with 0.03 s for this reader (BERT-base).
"""

import math
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

import ml_dtypes
import numpy as np

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_NOWHERE = 2**64 - 1
_SPACE, _LINK_INFO, _TYPE, _LINK, _EXTERNAL, _LAYOUT, _MORE, _SYMBOLS = 1, 2, 3, 6, 7, 8, 0x10, 0x11  # messages
_ATTRIBUTE = 0x0C
_SHARED = 2  # flag of a message that lies elsewhere
_SOFT = 2  # kind of a symbol
_MOST_BYTES = 16 * 2**20  # of everything but arrays; a preset of BERT-large with an optimizer has 2 MB
_LONGEST_NAME, _MOST_DIMENSIONS = 1000, 32
_MOST_OBJECTS = 100_000  # arrays and groups; Keras makes two or three groups for each array
_OPAQUE_BFLOAT16 = 5, 2, True  # class, bytes and whether there is an attribute `dtype`: HDF5 has no such type
# Bits of exponent and fraction -> the type.
_FLOATS = {(5, 10): np.float16, (8, 7): ml_dtypes.bfloat16, (8, 23): np.float32, (11, 52): np.float64}


class _Array(NamedTuple):
    """The location of an array; `type` is HDF5's description, and `named` whether an attribute gives Keras's type."""

    shape: tuple[int, ...]
    type: bytes
    address: int
    size: int
    named: bool


class Hdf5File:
    """The arrays of one file: `shapes` name -> shape, `read(name)`.

    Raises:
        ValueError: the file is truncated or damaged, or has features that Keras does not write.
    """

    def __init__(self, path: str):
        self._path = path
        try:
            with open(path, "rb") as file:
                self._arrays = dict(_arrays(_Bytes(file)))
            total, size = sum(array.size for array in self._arrays.values()), os.path.getsize(path)
            if total > size:
                raise ValueError(f"arrays of {total} bytes in {size}")
        except (ValueError, OSError, IndexError, struct.error) as error:
            raise self._refusal(error) from error
        self.shapes = {name: array.shape for name, array in self._arrays.items()}

    def read(self, name: str) -> np.ndarray:
        array = self._arrays[name]
        try:
            dtype = _dtype(array.type, array.named)
            with open(self._path, "rb") as file:
                file.seek(array.address if array.size else 0)
                return np.frombuffer(file.read(array.size), dtype).reshape(array.shape)
        except (ValueError, OSError, IndexError, struct.error) as error:
            raise self._refusal(f"{name}: {error}") from error

    def _refusal(self, why):
        return ValueError(
            f"{self._path} is not a complete HDF5 file as written by Keras: {str(why):.500}. Copy it again, or save "
            "the preset again."
        )


class _Bytes:
    """A file reader that limits how much is read for array descriptions."""

    def __init__(self, file):
        self._file, self._left, self.size = file, _MOST_BYTES, os.fstat(file.fileno()).st_size

    def get(self, address: int, size: int) -> bytes:
        if address + size > self.size:
            raise ValueError(f"a truncated file: bytes {address} to {address + size} of {self.size}")
        self._left -= size
        if self._left < 0:
            raise ValueError(f"descriptions of arrays of more than {_MOST_BYTES:,} bytes")
        self._file.seek(address)
        return self._file.read(size)


def _arrays(data) -> Iterator[tuple[str, _Array]]:
    """Yields (name, array) of all groups."""
    stack, known = [("", _root(data))], set()
    while stack:
        name, address = stack.pop()
        if address in known:
            raise ValueError(f"cyclic groups, or one object under two names: {name:.80}")
        known.add(address)
        messages = list(_messages(data, address))
        if any(kind == _LAYOUT for kind, _ in messages):
            yield name, _array(data, messages)
            continue
        for part, child in _links(data, messages):
            if not part or part in (".", "..") or "/" in part:
                raise ValueError(f"the name {part!r:.80}")
            stack.append((f"{name}/{part}" if name else part, child))
            if len(stack[-1][0]) > _LONGEST_NAME:
                raise ValueError(f"a name of more than {_LONGEST_NAME:,} characters, {stack[-1][0]:.80}")
            if len(known) + len(stack) > _MOST_OBJECTS:
                raise ValueError(f"more than {_MOST_OBJECTS:,} arrays and groups")


def _root(data):
    """Returns the address of the first group's header."""
    head = data.get(0, 48)
    if not head.startswith(_SIGNATURE):
        raise ValueError("a file that does not begin as HDF5 does")
    version = head[8]
    sizes, base = (head[13:15], 24 + 4 * version) if version < 2 else (head[9:11], 12)
    if version > 3 or sizes != b"\x08\x08" or data.get(base, 8) != bytes(8):
        raise ValueError(f"a superblock of version {version} with numbers of {list(sizes)} bytes")
    (address,) = struct.unpack("<Q", data.get(base + (40 if version < 2 else 24), 8))
    return address


def _messages(data, address) -> Iterator[tuple[int, bytes]]:
    """Yields (kind, content) of each message in an object's header."""
    head = data.get(address, 12)
    if new := head[:4] == b"OHDR":
        version, flags = head[4:6]
        start = address + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        blocks, form = [(start + width, int.from_bytes(data.get(start, width), "little"))], "<BHB"
        step = 6 if flags & 4 else 4
    else:
        version, blocks, form, step = head[0], [(address + 16, struct.unpack_from("<I", head, 8)[0])], "<HHB", 8
    if version != 1 + new:
        raise ValueError(f"an object's header of version {version} at {address}")
    for start, length in blocks:
        block, at = data.get(start, length), 0
        while at + step <= len(block):
            kind, size, flags = struct.unpack_from(form, block, at)
            content, at = block[at + step : at + step + size], at + step + size
            if flags & _SHARED and kind in (_SPACE, _TYPE, _LAYOUT):
                raise ValueError("a description that several arrays share")
            if kind == _MORE:
                begin, more = struct.unpack_from("<QQ", content)
                blocks.append((begin + 4, max(more - 8, 0)) if new else (begin, more))
            else:
                yield kind, content


def _links(data, messages) -> Iterator[tuple[str, int]]:
    """Yields (name, address of the header) of what is in a group."""
    for kind, content in messages:
        if kind == _SYMBOLS:
            yield from _symbols(data, *struct.unpack_from("<QQ", content))
        elif kind == _LINK:
            yield _link(content)
        elif kind == _LINK_INFO and struct.unpack_from("<Q", content, 2 + 8 * (content[1] & 1))[0] != _NOWHERE:
            raise ValueError("a group with an index of its links, which Keras does not write")


def _symbols(data, tree, heap):
    head = data.get(heap, 32)
    size, _, segment = struct.unpack_from("<QQQ", head, 8)
    names, nodes = data.get(segment, size), [tree]
    while nodes:
        node = nodes.pop()
        head = data.get(node, 8)
        if head.startswith(b"TREE"):
            children = data.get(node + 24, 16 * struct.unpack_from("<H", head, 6)[0])
            nodes += [child for _, child in struct.iter_unpack("<QQ", children)]
            continue
        if not head.startswith(b"SNOD"):
            raise ValueError(f"neither a tree nor symbols at {node}")
        symbols = data.get(node + 8, 40 * struct.unpack_from("<H", head, 6)[0])
        for at, address, kind in struct.iter_unpack("<QQI20x", symbols):
            if kind == _SOFT:
                raise ValueError("a link to another name, which Keras does not write")
            end = names.find(b"\0", at, at + _LONGEST_NAME + 1)
            if end < 0:  # many symbols may share one long name
                raise ValueError(f"a name of more than {_LONGEST_NAME:,} bytes")
            yield names[at:end].decode("utf-8"), address


def _link(content):
    flags, at = content[1], 2
    if flags & 8 and content[at]:
        raise ValueError("a link to another name or file, which Keras does not write")
    at += (1 if flags & 8 else 0) + (8 if flags & 4 else 0) + (1 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    length, at = int.from_bytes(content[at : at + width], "little"), at + width
    (address,) = struct.unpack_from("<Q", content, at + length)
    return content[at : at + length].decode("utf-8"), address


def _array(data, messages):
    """Returns the location of the array of a header, after checking that it is complete."""
    said = dict(reversed(messages))  # of two alike the first counts
    if not {_SPACE, _TYPE} <= said.keys() or _EXTERNAL in said:
        raise ValueError("an array without shape or type, or in another file")
    space, layout, kind = said[_SPACE], said[_LAYOUT], said[_TYPE]
    rank, begin = space[1], {1: 8, 2: 4}.get(space[0])
    if begin is None or rank > _MOST_DIMENSIONS or (space[0] == 2 and space[3] > 1):
        raise ValueError(f"a shape of version {space[0]} with {rank} dimensions")
    if layout[0] not in (3, 4) or layout[1] != 1:
        raise ValueError("an array that is compressed or in chunks, which Keras does not write")
    shape, (address, size) = struct.unpack_from(f"<{rank}Q", space, begin), struct.unpack_from("<QQ", layout, 2)
    (width,) = struct.unpack_from("<I", kind, 4)
    there = address + size <= data.size or not size
    if math.prod(shape) * width != size or not there or max(shape, default=0) > data.size:
        raise ValueError(f"an array {list(shape)} of {width} bytes each in {size} bytes, truncated at {data.size}")
    named = any(each == _ATTRIBUTE and b"dtype\0" in content[:32] for each, content in messages)
    return _Array(shape, kind, address, size, named)


def _dtype(kind, named):
    """Returns the NumPy type that a description means."""
    order, width, bits = "<>"[kind[1] & 1], struct.unpack_from("<I", kind, 4)[0], kind[1]
    if kind[0] & 15 == 1:
        offset, precision, *_, exponent, _, fraction = struct.unpack_from("<HHBBBB", kind, 8)
        dtype = np.dtype(_FLOATS.get((exponent, fraction), np.void))
        if dtype.itemsize == width and precision == 8 * width and not offset:
            return dtype if order == "<" else dtype.newbyteorder(order)
    elif kind[0] & 15 == 0 and width in (1, 2, 4, 8):
        return np.dtype(f"{order}{'i' if bits & 8 else 'u'}{width}")
    elif (kind[0] & 15, width, named) == _OPAQUE_BFLOAT16:
        return np.dtype(ml_dtypes.bfloat16)
    raise ValueError(f"numbers of HDF5's class {kind[0] & 15} with {width} bytes")
