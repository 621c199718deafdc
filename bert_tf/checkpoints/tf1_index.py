"""The index of a TF1 checkpoint, checked before TensorFlow sees it: TensorFlow crashes on invalid ones.

A shape with a negative number fails an internal check of its reader, and a text of 2^60 bytes is reserved before it
is read; neither raises an error. The index is a sorted table as LevelDB's, of `BundleEntryProto` by name
(tensorflow/core/util/tensor_bundle, tensorflow/core/lib/io/format.h). Checksums are left to TensorFlow.
"""

import math
import os
import struct
from collections.abc import Iterator

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48  # bytes: two offsets, padded, and the magic number
_TRAILER = 5  # bytes after a block: its compression, its checksum
_LARGEST = 16 * 2**20  # bytes of an index; that of BERT-large with Adam's moments has 60,000
_MOST_ENTRIES, _LONGEST_NAME = 50_000, 1000
_STRING = 7
# TensorFlow's number of a type -> bytes: the types that NumPy has, and bfloat16.
_SIZES = {1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 9: 8, 10: 1, 14: 2, 17: 2, 19: 2, 22: 4, 23: 8, _STRING: 1}


def check_index(index: str, shards: list[str]):
    """Raises ValueError if an index file is damaged, or does not match its data files.

    Args:
        index: the file.
        shards: the data files, in order.
    """
    from tensorflow.core.protobuf import tensor_bundle_pb2 as protos

    sizes = [os.path.getsize(shard) for shard in shards]
    header, entries, total = protos.BundleHeaderProto(), set(), 0
    for name, value in _rows(_read(index)):
        if name in entries:
            raise ValueError(f"two entries called {name!r:.80}")
        entries.add(name)
        if not name:
            header.ParseFromString(value)
            continue
        entry = protos.BundleEntryProto()
        entry.ParseFromString(value)
        _check_entry(name, entry, sizes)
        total += entry.size
        if total > sum(sizes):  # before texts are read: each entry could claim all of the data
            raise ValueError(f"tensors of {total} bytes in {sum(sizes)} bytes of data")
        if entry.dtype == _STRING:
            _check_texts(name, entry, shards[entry.shard_id])
    if header.num_shards != len(shards) or header.endianness != header.LITTLE:
        raise ValueError(f"an index of {header.num_shards} data files, but there are {len(shards)}")


def num_shards(index: str) -> int:
    """Returns the number of data files according to an index.

    Raises:
        ValueError, OSError, google.protobuf.message.DecodeError: it is damaged.
    """
    from tensorflow.core.protobuf import tensor_bundle_pb2 as protos

    name, value = next(_rows(_read(index)), (b"nothing", b""))
    if name:
        raise ValueError("an index without its first entry")
    return protos.BundleHeaderProto.FromString(value).num_shards


def _read(path):
    if os.path.getsize(path) > _LARGEST:
        raise ValueError(f"an index of {os.path.getsize(path)} bytes")
    with open(path, "rb") as file:
        return file.read()


def _check_entry(name, entry, sizes):
    """Checks that a tensor's bytes are present, and that their number matches its type and shape."""
    axes = [axis.size for axis in entry.shape.dim]
    real = not entry.shape.unknown_rank and len(axes) <= 32 and min(axes, default=0) >= 0
    if not real or entry.dtype not in _SIZES or entry.slices:
        raise ValueError(f"{name.decode('utf-8', 'replace'):.80} of type {entry.dtype} and shape {axes[:32]}")
    size = math.prod(axes) * _SIZES[entry.dtype]
    if size > entry.size or size < entry.size and entry.dtype != _STRING:
        raise ValueError(f"{name.decode('utf-8', 'replace'):.80} of shape {axes} in {entry.size} bytes")
    if not 0 <= entry.shard_id < len(sizes) or entry.offset < 0 or entry.offset + entry.size > sizes[entry.shard_id]:
        raise ValueError(f"{name.decode('utf-8', 'replace'):.80}, whose bytes lie outside the data")


def _check_texts(name, entry, shard):
    """Checks that strings, which follow their lengths and a checksum, fill the bytes of their entry."""
    with open(shard, "rb") as file:
        file.seek(entry.offset)
        data = file.read(entry.size)
    at, length = 0, 0
    for _ in range(math.prod(axis.size for axis in entry.shape.dim)):
        size, at = _number(data, at)
        length += size
    if at + 4 + length != entry.size:
        raise ValueError(f"{name.decode('utf-8', 'replace'):.80} with inconsistent string lengths")


def _rows(data) -> Iterator[tuple[bytes, bytes]]:
    """Yields name and value of every entry of a table."""
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("a truncated index")
    at = len(data) - _FOOTER
    for _ in range(2):  # the offset of the table's notes, which are not needed, and that of the list of its blocks
        start, at = _number(data, at)
        size, at = _number(data, at)
    count = read = 0
    for _, entry in _entries(_block(data, start, size)):
        begin, at = _number(entry, 0)
        length, _ = _number(entry, at)
        read += length
        if read > len(data):
            raise ValueError("an index whose blocks overlap")
        for row in _entries(_block(data, begin, length)):
            count += 1
            if count > _MOST_ENTRIES:
                raise ValueError(f"an index of more than {_MOST_ENTRIES:,} entries")
            yield row


def _block(data, start, size):
    if start + size + _TRAILER > len(data) - _FOOTER or size < 8:
        raise ValueError("an index with a missing block")
    if data[start + size]:
        raise ValueError("an index that is compressed, as TensorFlow since 1.2 writes none")
    return data[start : start + size]


def _entries(block) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries of a block, each of which stores how much of its name it shares with the one before."""
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise ValueError("an index with a damaged block")
    at, name, whole = 0, b"", set()
    while at < end:
        first = at
        shared, at = _number(block, at)
        added, at = _number(block, at)
        length, at = _number(block, at)
        if shared > len(name) or shared + added > _LONGEST_NAME or at + added + length > end:
            raise ValueError("an index with a damaged entry")
        if not shared:
            whole.add(first)
        name = name[:shared] + block[at : at + added]
        at += added + length
        yield name, block[at - length : at]
    # TensorFlow looks names up from these offsets on: they must be of the entries that were checked.
    if at != end or not whole.issuperset(struct.unpack(f"<{restarts}I", block[end:-4])):
        raise ValueError("an index with a damaged block")


def _number(data, at):
    """Returns the integer of seven bits a byte at an offset, and the offset after it."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError("an index with a damaged number")
