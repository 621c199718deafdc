"""Writes features as TFRecord files of tf.train.Example messages, and reads them back in batches.

    {"input_ids": [n, S], ...} --serialize--> bytes --write_records--> train.tfrecord.gz
    train.tfrecord.gz --read_serialized--> string [B] --build_parser--> {"input_ids": [B, S], ...}

A file whose name ends in .gz is gzip-compressed, any other is not. Concatenated files are valid files, both gzipped and
plain ones, so a large file can be assembled from parts.
"""

import errno
import gzip
import os
import zlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_tf.data.features import FEATURES, NOTHING, Ragged, concatenate_features
from bert_tf.utils.files import atomic_open

# === Example bytes ===
# Serializes features as tf.train.Example messages, thousands of examples at once.
#
# Creating messages one by one with the protobuf library takes more than ten times as long, because it converts each
# number to a Python object. tf.io.encode_proto creates the same bytes, in five nested steps, but takes at least twice
# as long.


_ROWS = 2048  # serialized at a time: about 4 MB, which stay in the processor's cache

# Tags of the protocol buffer fields, (number of the field << 3) + 2 for "a length and so many bytes follow". From
# tensorflow/core/example/example.proto and feature.proto; in a map<string, Feature> every entry is a small message.
_FIRST = b"\x0a"  # Example.features, Features.feature, the key of an entry, and Int64List.value or FloatList.value
_SECOND = b"\x12"  # the value of an entry, and Feature.float_list
_THIRD = b"\x1a"  # Feature.int64_list


class _Part(NamedTuple):
    """A part of every example's message, as columns, some of which each example uses.

        number   bytes      used
             5   05 00      1 0
           300   ac 02      1 1

    Attributes:
        columns: list of (bytes uint8 [n, w], used bool [n, w]); n is 1 if all examples are the same.
        lengths: int64 [n], number of bytes of each example.
    """

    columns: list
    lengths: np.ndarray


def serialize(features: dict) -> Ragged:
    """Serializes each example's features as a tf.train.Example.

        input_ids   [[101, 7592, 102],       0a 1a 0a 18 0a 09 "input_ids" 12 0b 1a 09 0a 07 65 a8 3b 66 ...
                     [101, 102, 0]]

    Features are sorted by name, so equal examples have equal bytes, the same as those of protobuf's deterministic
    serialization.

    Args:
        features: {name: [n, k]}, at least one feature; integers become an Int64List, floats a FloatList.

    Returns:
        Ragged uint8 of n examples.
    """
    names = sorted(features)
    values = {name: np.asarray(features[name]) for name in names}
    n = len(values[names[0]])
    assert all(v.ndim == 2 and len(v) == n for v in values.values()), {name: v.shape for name, v in values.items()}
    chunks = [_serialize({k: v[i : i + _ROWS] for k, v in values.items()}) for i in range(0, n, _ROWS)]
    return concatenate_features(chunks) if chunks else NOTHING


def _serialize(values):
    """Like `serialize`, for at least one example, and no more than fit into the cache together."""
    entries = [_entry(name, rows) for name, rows in values.items()]
    columns = [column for entry in entries for column in entry.columns]
    example = _field(_FIRST, _Part(columns, sum(entry.lengths for entry in entries)))
    shape = len(example.lengths), sum(used.shape[1] for _, used in example.columns)
    layout, used = np.empty(shape, np.uint8), np.empty(shape, bool)
    at = 0
    for its_bytes, its_used in example.columns:
        to = at + its_used.shape[1]
        layout[:, at:to], used[:, at:to] = its_bytes, its_used
        at = to
    return Ragged.of_lengths(np.compress(used.ravel(), layout.ravel()), example.lengths)


def _entry(name, rows):
    assert rows.dtype.kind in "iuf", f"{name}: {rows.dtype}"
    kind, numbers = (_SECOND, _floats(rows)) if rows.dtype.kind == "f" else (_THIRD, _varints(rows))
    feature = _field(kind, _field(_FIRST, numbers))
    key = name.encode()
    assert len(key) < 128, name  # otherwise its length would take two bytes
    return _field(_FIRST, _field(_FIRST + bytes([len(key)]) + key + _SECOND, feature))


def _field(head, body):
    size = _varints(body.lengths[:, None])
    head = np.frombuffer(head, np.uint8)[None]
    columns = [(head, np.ones(head.shape, bool)), *size.columns, *body.columns]
    return _Part(columns, head.size + size.lengths + body.lengths)


def _floats(rows):
    """Returns [n, k] floats as little-endian float32, four bytes each."""
    its_bytes = np.ascontiguousarray(rows, "<f4").view(np.uint8)
    return _Part([(its_bytes, np.ones((1, its_bytes.shape[1]), bool))], np.full(len(rows), its_bytes.shape[1]))


def _varints(rows):
    """Returns [n, k] integers as varints: seven bits per byte, lowest first; the top bit is set if more follow.

    A negative number is written as its 64-bit two's complement, as in protobuf: ten bytes.
    """
    n, k = rows.shape
    largest = int(rows.max(initial=0)) if rows.min(initial=0) >= 0 else 2**64 - 1
    bits = rows.astype(np.uint32) if largest < 2**32 else rows.astype(np.uint64)
    width = max(1, -(-largest.bit_length() // 7))
    its_bytes, used = np.empty((n, k, width), np.uint8), np.empty((n, k, width), bool)
    used[..., 0] = True
    for index in range(width):
        its_bytes[..., index] = bits & 0x7F
        bits >>= 7
        if index + 1 < width:
            more = bits > 0
            its_bytes[..., index] |= more.view(np.uint8) << 7
            used[..., index + 1] = more
    used = used.reshape(n, k * width)
    return _Part([(its_bytes.reshape(n, k * width), used)], np.count_nonzero(used, axis=1))


# === Record features ===
# Names, types and lengths of a record file's features, from its first record.


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
    raise _no_records(path, "another format; create records with python -m bert_tf create_pretraining_data")


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


# === Records ===


_FILE_DTYPES = {"int32": "int64", "float32": "float32"}  # in the batch -> in a tf.train.Example
# The parameter for a feature's length, when records are created and read.
_LENGTHS = {"token": "max_seq_length", "prediction": "max_predictions_per_seq", "sentence": "max_sentences_per_seq"}
_ERRNO = {os.strerror(number): number for number in errno.errorcode}


def write_records(
    path: str | os.PathLike,
    records: Ragged,
    compression: str | None = None,
    durable: bool = True,
    order=None,
    stamp: bytes = b"",
):
    """Writes a TFRecord file atomically.

    Args:
        path: path of the file.
        records: uint8, the bytes of each record, as returned by `serialize`.
        compression: "GZIP" or "", regardless of the path's extension. If None, as the extension specifies.
        durable: whether to wait until the file is on disk.
        order: int [n], the order to write them in. If None, their own order.
        stamp: further features for the first record, as a serialized tf.train.Example: two concatenated ones are one
            with the features of both.

    Raises:
        OSError: the file cannot be written, for example because the disk is full.
    """
    compression = compression_of(path) if compression is None else compression
    assert compression in ("GZIP", ""), compression
    order = slice(None) if order is None else order
    data, ends = records.flat.tobytes(), records.splits[1:][order].tolist()
    with atomic_open(path, "wb", durable) as file:
        try:
            with tf.io.TFRecordWriter(file.name, compression) as writer:  # opens the same file again
                for start, end in zip(records.splits[:-1][order].tolist(), ends, strict=True):
                    writer.write(data[start:end] + stamp)
                    stamp = b""
        except tf.errors.OpError as error:  # OutOfRangeError for a file too large, ResourceExhaustedError for no space
            reason = error.message.rpartition("; ")[2]
            raise OSError(_ERRNO.get(reason, errno.EIO), reason, os.fspath(path)) from error


def read_serialized(paths: list) -> tf.data.Dataset:
    """Returns a dataset of the serialized records of all files in order, string []."""
    return list_record_files(paths).flat_map(read_record_file)


def list_record_files(paths: list) -> tf.data.Dataset:
    """Returns a dataset of the path and compression of each file, for `read_record_file`."""
    return tf.data.Dataset.from_tensor_slices([[os.fspath(path), compression_of(path)] for path in paths])


def read_record_file(file) -> tf.data.Dataset:
    """Returns a dataset of the serialized records of one file of `list_record_files`, string []."""
    return tf.data.TFRecordDataset(file[0], file[1])


def build_parser(paths: list, names: tuple[str, ...] | None = None, expect: dict | None = None, stamps: bool = False):
    """Returns a function that parses serialized records of these files, string [B], to {name: tensor}.

    The tensors have the dtypes and shapes (see `Feature.per`) of `bert_tf.data.features`.

    Args:
        paths: at least one file; compressed if it ends in .gz.
        names: the features to return. If None, all in the files that are defined in `bert_tf.data.features`.
        expect: {name: its length, or None for any}: features that the files must have, whether returned or not.
        stamps: whether to return the stamps of records under MADE_WITH too, string [B], mostly empty.

    Raises:
        ValueError: a file is not valid for `describe_records`, does not match `names` and `expect`, or differs from the
            others.
    """
    assert paths
    paths = [os.fspath(path) for path in paths]
    first, *others = ((path, first_features(path)) for path in paths)
    for other in others:
        _check_same(*first, *other)
    in_file = map_names(first[1])
    held = {name: first[1][its_name] for name, its_name in in_file.items()}
    names = [name for name in held if name in FEATURES] if names is None else list(names)
    _check(paths[0], held, {**dict.fromkeys(names or ["input_ids"]), **(expect or {})})
    shapes = {name: [] if FEATURES[name].per == "example" else [held[name][1]] for name in names}
    spec = {in_file[name]: tf.io.FixedLenFeature(shapes[name], held[name][0]) for name in names}
    if stamps:
        spec[MADE_WITH] = tf.io.FixedLenFeature([], tf.string, "")

    def parse(serialized):
        parsed = tf.io.parse_example(serialized, spec)
        rows = {name: tf.cast(parsed[in_file[name]], FEATURES[name].dtype) for name in names}
        return rows | ({MADE_WITH: parsed[MADE_WITH]} if stamps else {})

    return parse


def _check_same(first_path, first, path, features):
    for name in sorted(first.keys() | features.keys()):
        if first.get(name) != features.get(name):
            here, there = (_describe(held.get(name)) for held in (features, first))
            raise ValueError(
                f"{path} does not match {first_path}: {name} is {here} in the former and {there} in the latter, so "
                "they were made with another length or other options. Read them separately, or create them again."
            )


def _check(path, held, expect):
    """Raises ValueError if a file does not have the features of `expect`, {name: length or None}."""
    for name, length in expect.items():
        feature = FEATURES[name]
        length = 1 if feature.per == "example" else length
        needed = _FILE_DTYPES[feature.dtype], length
        if name not in held:
            raise ValueError(f"{path} lacks {name}. Its records hold {', '.join(held)}; create them again.")
        if held[name][0] != needed[0] or length not in (None, held[name][1]):
            remedy = ", or request the features they hold"
            if feature.per in _LENGTHS and length not in (None, held[name][1]):
                called = _LENGTHS[feature.per]
                remedy = f" with `{called}={length}`, or set `{called}={held[name][1]}` here"
            raise ValueError(
                f"{path} must hold {name} as {_describe(needed)}. Received {_describe(held[name])}; "
                f"create the records again{remedy}."
            )


def _describe(description):
    """("int64", 128) -> "128 int64"."""
    if description is None:
        return "nothing"
    dtype, length = description
    return dtype if length is None else f"{length} {dtype}"
