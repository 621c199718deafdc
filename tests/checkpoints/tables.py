"""The index of a TF1 checkpoint, written byte by byte, so that it can say what TensorFlow would never write."""

import functools
import struct

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)


def number(value: int) -> bytes:
    """Returns an integer of seven bits a byte."""
    rest, data = value, bytearray()
    while rest >= 0x80:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*data, rest])


@functools.cache
def _remainders():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


def checksum(data: bytes) -> bytes:
    """Returns CRC-32C as TensorFlow and LevelDB write it, turned and with a number added."""
    crc, table = 0xFFFFFFFF, _remainders()
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def block(rows: dict[bytes, bytes]) -> bytes:
    """Returns the bytes of a block, without compression and checksum."""
    data = b"".join(number(0) + number(len(k)) + number(len(v)) + k + v for k, v in sorted(rows.items()))
    return data + struct.pack("<II", 0, 1)


def table(rows: bytes, compression: bytes = b"\0") -> bytes:
    """Returns a table with one block of rows, whose checksums are right whatever the block holds."""
    parts, places = [], []
    blocks = [rows, block({}), block({b"\xff": number(0) + number(len(rows))})]
    for data in blocks:
        places.append(number(sum(map(len, parts))) + number(len(data)))
        parts.append(data + compression + checksum(data + compression))
        compression = b"\0"
    return b"".join(parts) + (places[1] + places[2]).ljust(40, b"\0") + _MAGIC


def write(prefix, entries: dict[str, dict], data: bytes, compression: bytes = b"\0", num_shards: int = 1):
    """Writes a checkpoint whose index says what `entries` do, name -> fields of BundleEntryProto; `shape` as a list."""
    from tensorflow.core.protobuf import tensor_bundle_pb2 as protos

    header = protos.BundleHeaderProto(num_shards=num_shards)
    header.version.producer = 1
    rows = {b"": header.SerializeToString()}
    for name, fields in entries.items():
        entry = protos.BundleEntryProto(**{k: v for k, v in fields.items() if k not in ("shape", "slices")})
        for size in fields["shape"]:
            entry.shape.dim.add(size=size)
        for _ in range(fields.get("slices", 0)):
            entry.slices.add()
        rows[name.encode()] = entry.SerializeToString()
    with open(f"{prefix}.index", "wb") as file:
        file.write(table(block(rows), compression))
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.write(data)
    return block(rows)
