"""Writes features as TFRecord files of tf.train.Example messages, and reads them back in batches.

    {"input_ids": [n, S], ...} --serialize--> bytes --write_records--> train.tfrecord.gz
    train.tfrecord.gz --read_serialized--> string [B] --build_parser--> {"input_ids": [B, S], ...}

A file whose name ends in .gz is gzip-compressed, any other is not. Concatenated files are valid files, both gzipped and
plain ones, so a large file can be assembled from parts.
"""

import errno
import os

import tensorflow as tf

from bert_tf.data.features import FEATURES
from bert_tf.data.ragged import Ragged
from bert_tf.data.record_features import MADE_WITH, compression_of, first_features, map_names
from bert_tf.utils.files import atomic_open

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
            raise ValueError(f"{path} lacks {name}. Its records contain {', '.join(held)}; create them again.")
        if held[name][0] != needed[0] or length not in (None, held[name][1]):
            remedy = ", or request the features they contain"
            if feature.per in _LENGTHS and length not in (None, held[name][1]):
                called = _LENGTHS[feature.per]
                remedy = f" with `{called}={length}`, or set `{called}={held[name][1]}` for this run"
            raise ValueError(
                f"{path} must contain {name} as {_describe(needed)}; got {_describe(held[name])}; create the records "
                f"again{remedy}."
            )


def _describe(description):
    """("int64", 128) -> "128 int64"."""
    if description is None:
        return "nothing"
    dtype, length = description
    return dtype if length is None else f"{length} {dtype}"
