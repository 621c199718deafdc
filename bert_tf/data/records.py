"""Record files: rows of features to TFRecord files of tf.train.Example messages, and back to batches.

    {"input_ids": [n, S], ...} --serialize--> bytes --write--> train.tfrecord.gz --read--> {"input_ids": [B, S], ...}

A file whose name ends in .gz is gzip-compressed, any other is not. Several gzip files end to end are one such file, and
several plain ones are one plain file, so a big file can be put together from parts.
"""

import errno
import os

import tensorflow as tf

from bert_tf.data.example_bytes import serialize
from bert_tf.data.features import FEATURES
from bert_tf.data.iteration import without_autotune
from bert_tf.data.ragged import Ragged
from bert_tf.data.record_features import MADE_WITH, compression_of, describe, first_features, our_names
from bert_tf.utils.files import atomic_open

__all__ = ["compression_of", "describe", "read", "serialize", "write"]

_FILE_DTYPES = {"int32": "int64", "float32": "float32"}  # in the batch -> in a tf.train.Example
# What a feature's length is called where records are made and read.
_LENGTHS = {"token": "max_seq_length", "prediction": "max_predictions_per_seq", "sentence": "max_sentences_per_seq"}
_PARSED = 256  # records parsed at a time: one by one takes thirty times as long
_ERRNO = {os.strerror(number): number for number in errno.errorcode}


def write(
    path: str | os.PathLike,
    records: Ragged,
    compression: str | None = None,
    durable: bool = True,
    order=None,
    stamp: bytes = b"",
):
    """Writes a TFRecord file: all of it, or nothing and OSError.

    Args:
        path: of the file.
        records: uint8, the bytes of each record, as `serialize` returns them.
        compression: "GZIP" or "", whatever the path's name; None: as the name says.
        durable: wait until it is on the disk.
        order: int [n], in which they are written; None: as they are.
        stamp: further features for the first record, a serialized tf.train.Example: two of them, one after the other,
            are one with the features of both.

    Raises:
        OSError: the file cannot be written, for example because the disk is full.
    """
    compression = compression_of(path) if compression is None else compression
    assert compression in ("GZIP", ""), compression
    order = slice(None) if order is None else order
    data, ends = records.flat.tobytes(), records.splits[1:][order].tolist()
    with atomic_open(path, "wb", durable) as file:
        try:
            with tf.io.TFRecordWriter(file.name, compression) as writer:  # the same file, once more
                for start, end in zip(records.splits[:-1][order].tolist(), ends, strict=True):
                    writer.write(data[start:end] + stamp)
                    stamp = b""
        except tf.errors.OpError as error:  # OutOfRangeError for a file too large, ResourceExhaustedError for no space
            reason = error.message.rpartition("; ")[2]
            raise OSError(_ERRNO.get(reason, errno.EIO), reason, os.fspath(path)) from error


def read(
    paths: list,
    names: tuple[str, ...] | None = None,
    expect: dict | None = None,
    batch_size: int | None = None,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Reads record files, one after the other, in the order in which they are written.

    Args:
        paths: of the files, one at least; .gz: compressed.
        names: which features to return; None: all in the files that `bert_tf.data.features` knows.
        expect: {name: its length, or None for any}: what the files must hold, returned or not.
        batch_size: records a batch; None: single records, at several times the cost.
        drop_remainder: leave out the last records, where they fill no batch.

    Returns:
        A tf.data.Dataset of {name: tensor}, of the dtypes and shapes (see `Feature.per`) in `bert_tf.data.features`,
        or without the first dimension.

    Raises:
        ValueError: a file is not as `describe` needs it, not as `names` and `expect` say, or not like the others.
    """
    parse = parser(paths, names, expect)
    batches = serialized(paths).batch(batch_size or _PARSED, drop_remainder and batch_size is not None)
    batches = batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return without_autotune(batches if batch_size else batches.unbatch())


def serialized(paths: list) -> tf.data.Dataset:
    """Returns the records of all files, string [], one file after the other."""
    return files(paths).flat_map(in_file)


def files(paths: list) -> tf.data.Dataset:
    """Returns what `in_file` takes, for each of the files."""
    return tf.data.Dataset.from_tensor_slices([[os.fspath(path), compression_of(path)] for path in paths])


def in_file(file) -> tf.data.Dataset:
    """Returns the records of one file of `files`, string []."""
    return tf.data.TFRecordDataset(file[0], file[1])


def parser(paths: list, names: tuple[str, ...] | None = None, expect: dict | None = None, stamps: bool = False):
    """Returns the function from serialized records (string [B]) of these files to {name: tensor}; see `read`.

    With `stamps` there is string [B] under MADE_WITH too: what a record says of how it was made, empty in most.
    """
    assert paths
    paths = [os.fspath(path) for path in paths]
    first, *others = ((path, first_features(path)) for path in paths)
    for other in others:
        _check_same(*first, *other)
    in_file = our_names(first[1])
    held = {name: first[1][its_name] for name, its_name in in_file.items()}
    names = [name for name in held if name in FEATURES] if names is None else list(names)
    _check(paths[0], held, {**dict.fromkeys(names or ["input_ids"]), **(expect or {})})
    spec = {in_file[name]: _parsing(name, *held[name]) for name in names}
    if stamps:
        spec[MADE_WITH] = tf.io.FixedLenFeature([], tf.string, "")

    def parse(serialized):
        parsed = tf.io.parse_example(serialized, spec)
        rows = {name: tf.cast(parsed[in_file[name]], FEATURES[name].dtype) for name in names}
        return rows | ({MADE_WITH: parsed[MADE_WITH]} if stamps else {})

    return parse


def _check_same(first_path, first, path, features):
    """Raises ValueError where two files hold different features."""
    for name in sorted(first.keys() | features.keys()):
        if first.get(name) != features.get(name):
            here, there = (_in_words(held.get(name)) for held in (features, first))
            raise ValueError(
                f"{path} must hold what {first_path} holds. Received {name} as {here} in the one and as {there} in the "
                "other, records made for another length or with other options; read them apart, or make them anew."
            )


def _check(path, held, expect):
    """Raises ValueError where a file does not hold the features of `expect`, {name: length or None}."""
    for name, length in expect.items():
        feature = FEATURES[name]
        length = 1 if feature.per == "example" else length
        needed = _FILE_DTYPES[feature.dtype], length
        if name not in held:
            raise ValueError(f"{path} must hold {name}. Received records with {', '.join(held)}; make them anew.")
        if held[name][0] != needed[0] or length not in (None, held[name][1]):
            remedy = ", or ask for what they hold"
            if feature.per in _LENGTHS and length not in (None, held[name][1]):
                called = _LENGTHS[feature.per]
                remedy = f" with `{called}={length}`, or give `{called}={held[name][1]}` here"
            raise ValueError(
                f"{path} must hold {name} as {_in_words(needed)}. Received {_in_words(held[name])}; "
                f"make the records anew{remedy}."
            )


def _in_words(description):
    """("int64", 128) -> "128 int64"."""
    if description is None:
        return "nothing"
    dtype, length = description
    return dtype if length is None else f"{length} {dtype}"


def _parsing(name, dtype, length):
    return tf.io.FixedLenFeature([] if FEATURES[name].per == "example" else [length], dtype)
