"""What a record file holds, seen from its first record."""

import gzip
import os
import zlib

from google.protobuf.message import DecodeError

# What TF Model Garden's create_pretraining_data calls these with --use_v2_feature_names.
_V2_NAMES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
_GZIP_MAGIC = b"\x1f\x8b"
MADE_WITH = "made_with"  # a feature of a file's first record that is no feature of a row: see `pretraining/origin.py`


def compression_of(path: str | os.PathLike) -> str:
    """Returns "GZIP" for a path that ends in .gz, otherwise "": TensorFlow's names."""
    return "GZIP" if os.fspath(path).lower().endswith(".gz") else ""


def describe(path: str | os.PathLike) -> dict[str, tuple[str, int]]:
    """Returns what the first record of a TFRecord file holds, under our names: {"input_ids": ("int64", 128), ...}.

    The types are those in the file: "int64", "float32" or "bytes".

    Raises:
        ValueError: the file cannot be read, is empty or cut off, is no TFRecord file, is compressed although its name
            does not end in .gz or the other way round, or its record is no tf.train.Example.
    """
    features = first_features(os.fspath(path))
    return {name: features[in_file] for name, in_file in our_names(features).items()}


def our_names(names) -> dict[str, str]:
    """Returns {our name: name in the file} for names in a file."""
    return {_V2_NAMES.get(name, name): name for name in names}


def first_features(path: str) -> dict[str, tuple[str, int]]:
    """`describe`, under the names in the file, sorted."""
    features = _first_example(path)
    kinds = {"int64_list": "int64", "float_list": "float32", "bytes_list": "bytes"}
    names = sorted(features.keys() - {MADE_WITH})
    held = {name: (features[name], features[name].WhichOneof("kind")) for name in names}
    held = {name: (kinds[kind], len(getattr(value, kind).value)) for name, (value, kind) in held.items() if kind}
    if not held:
        raise _no_records(path, "records of another kind, or without features; look at what wrote them")
    return held


def made_with(path: str | os.PathLike) -> bytes | None:
    """Returns what a file says of how it was made, None where it does not; it raises what `describe` does."""
    features = _first_example(os.fspath(path))
    values = features[MADE_WITH].bytes_list.value if MADE_WITH in features else ()
    return values[0] if values else None


def _first_example(path):
    """Returns {name: feature} of the first record; nothing where it is no tf.train.Example."""
    import tensorflow as tf  # here, so that a program which only writes records need not wait for it

    try:
        return dict(tf.train.Example.FromString(_first_record(path)).features.feature)
    except DecodeError:
        return {}


def _first_record(path):
    """Returns the bytes of the first record.

    Not read with TensorFlow, which takes a gzip file that is cut off early for an empty one, and needs 30 ms a file.
    """
    by_name = bool(compression_of(path))
    try:
        with open(path, "rb") as file:
            start = file.read(2)
        packed = start == _GZIP_MAGIC
        if start and by_name and not packed:
            raise _no_records(path, "a file that is not compressed; take .gz off its name")
        with gzip.open(path) if by_name else open(path, "rb") as file:
            header, record = _read_record(file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _no_records(path, "one that is cut off or damaged in its first record; copy or make it anew") from error
    except OSError as error:
        raise ValueError(f"{path} must be a file that can be read. Received: {error.strerror}.") from error
    if record is not None:
        return record
    if not header:
        raise _no_records(path, "a file without a record; leave it out, or make it anew")
    if packed and not by_name:
        raise _no_records(path, "a gzip file; add .gz to its name")
    raise _no_records(path, "something else; make records with python -m bert_tf create_pretraining_data")


def _read_record(file):
    """Returns what stands before the first record, and the record, or None where there is none."""
    header = file.read(12)  # its length, 8 bytes, and their checksum
    if len(header) < 12 or _checksum(header[:8]) != int.from_bytes(header[8:], "little"):
        return header, None
    length = int.from_bytes(header[:8], "little")
    record = file.read(length + 4)  # and its checksum
    if len(record) < length + 4:
        raise EOFError(f"{len(record)} bytes instead of {length + 4}")
    return header, record[:length]


def _checksum(data):
    """Returns the masked CRC-32C of a few bytes, of tensorflow/core/lib/hash/crc32c.h."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _no_records(path, received):
    return ValueError(f"{path} must be a TFRecord file of tf.train.Example. Received {received}.")
