"""Names, types and lengths of a record file's features, from its first record."""

import gzip
import os
import zlib

import tensorflow as tf
from google.protobuf.message import DecodeError

# Names of these in TF Model Garden's create_pretraining_data with --use_v2_feature_names.
_V2_NAMES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
_GZIP_MAGIC = b"\x1f\x8b"
MADE_WITH = "made_with"  # a feature of a file's first record only: see `pretraining/record_metadata.py`


def compression_of(path: str | os.PathLike) -> str:
    """Returns "GZIP" for a path that ends in .gz, otherwise "": TensorFlow's names."""
    return "GZIP" if os.fspath(path).lower().endswith(".gz") else ""


def describe_records(path: str | os.PathLike) -> dict[str, tuple[str, int]]:
    """Returns the features of a TFRecord file's first record, with our names: {"input_ids": ("int64", 128), ...}.

    The types are those of the file: "int64", "float32" or "bytes".

    Raises:
        ValueError: the file cannot be read, is empty, truncated or not a TFRecord file, its compression does not match
            the extension .gz, or its record is not a tf.train.Example.
    """
    features = first_features(os.fspath(path))
    return {name: features[in_file] for name, in_file in map_names(features).items()}


def map_names(names) -> dict[str, str]:
    """Returns {our name: name in the file} for names in a file."""
    return {_V2_NAMES.get(name, name): name for name in names}


def first_features(path: str) -> dict[str, tuple[str, int]]:
    """Like `describe_records`, but with the names in the file, sorted."""
    features = _first_example(path)
    kinds = {"int64_list": "int64", "float_list": "float32", "bytes_list": "bytes"}
    names = sorted(features.keys() - {MADE_WITH})
    held = {name: (features[name], features[name].WhichOneof("kind")) for name in names}
    held = {name: (kinds[kind], len(getattr(value, kind).value)) for name, (value, kind) in held.items() if kind}
    if not held:
        raise _no_records(path, "a file of records of another type or without features; check which program wrote it")
    return held


def read_stamp(path: str | os.PathLike) -> bytes | None:
    """Returns a file's stamp of how it was created, or None if it has none; raises the errors of `describe_records`."""
    features = _first_example(os.fspath(path))
    values = features[MADE_WITH].bytes_list.value if MADE_WITH in features else ()
    return values[0] if values else None


def _first_example(path):
    """Returns {name: feature} of the first record, empty if it is not a tf.train.Example."""
    try:
        return dict(tf.train.Example.FromString(_first_record(path)).features.feature)
    except DecodeError:
        return {}


def _first_record(path):
    """Returns the bytes of the first record.

    TensorFlow is not used: it reads a gzip file that is truncated early as an empty one, and takes 30 ms per file.
    """
    by_name = bool(compression_of(path))
    try:
        with open(path, "rb") as file:
            start = file.read(2)
        packed = start == _GZIP_MAGIC
        if start and by_name and not packed:
            raise _no_records(path, "a file that is not compressed; remove .gz from its name")
        with gzip.open(path) if by_name else open(path, "rb") as file:
            header, record = _read_record(file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        received = "a file that is truncated or damaged in its first record; copy or create it again"
        raise _no_records(path, received) from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    if record is not None:
        return record
    if not header:
        raise _no_records(path, "a file without records; omit it, or create it again")
    if packed and not by_name:
        raise _no_records(path, "a gzip file; append .gz to its name")
    raise _no_records(path, "another format; create records with python -m bert_tf pretrain data")


def _read_record(file):
    """Returns the header of the first record, and the record, or None if there is none."""
    header = file.read(12)  # its length, 8 bytes, and their checksum
    if len(header) < 12 or _checksum(header[:8]) != int.from_bytes(header[8:], "little"):
        return header, None
    length = int.from_bytes(header[:8], "little")
    record = file.read(length + 4)  # and its checksum
    if len(record) < length + 4:
        raise EOFError(f"{len(record)} bytes instead of {length + 4}")
    return header, record[:length]


def _checksum(data):
    """Returns the masked CRC-32C of a few bytes, as in tensorflow/core/lib/hash/crc32c.h."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _no_records(path, received):
    return ValueError(f"{path} must be a TFRecord file of tf.train.Example. It is {received}.")
