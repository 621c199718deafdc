"""Faults of a record file: it could not be read to its end, or its values do not fit the model or are inconsistent."""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf.data.record_features import describe_records, read_stamp
from bert_tf.data.tfrecords import MADE_WITH, compression_of
from bert_tf.pretraining.record_metadata import RecordMetadata
from bert_tf.utils.files import brief

_AT_ONCE = (1024, 32, 1)  # records checked together in search of a bad one: fewer each time, from the last good one
_AGAIN = "create the records again"
_VOCABULARY = (
    "the size of the model's vocabulary",
    "the records were made with another vocabulary: create them again with the model's, or use theirs for the model",
)
_REASONS = {  # feature -> the exclusive limit of its values, and the fix if they exceed it
    "input_ids": _VOCABULARY,
    "masked_lm_ids": _VOCABULARY,
    "segment_ids": ("the model's type_vocab_size", f"{_AGAIN}, or configure the model with as many segments"),
    "masked_lm_positions": ("the sequence length", _AGAIN),
    "next_sentence_positions": ("the sequence length", _AGAIN),
    "next_sentence_labels": ("the number of labels", _AGAIN),
}


def check_ranges(batch: dict, limits: dict[str, int]):
    """In tf.data: raises tf.errors.InvalidArgumentError unless 0 <= value < limit for all values of a feature.

    On a GPU, an id outside the embedding table would give a row of zeros instead of an error.

    Args:
        batch: {name: int32 tensor}, not changed.
        limits: {name: limit}, for features in the batch.
    """
    for name, limit in limits.items():
        tf.debugging.Assert(tf.reduce_all((batch[name] >= 0) & (batch[name] < limit)), [name])


def check_stamps(said: tf.Tensor, stamps: list[bytes]):
    """In tf.data: raises tf.errors.InvalidArgumentError if a record has a different stamp of how it was created.

    This happens if a file was concatenated from several: a file describes how it was created in its first record only.

    Args:
        said: string [B], the stamp of each record; empty if it has none.
        stamps: the stamps of the first records of all files, and the empty one.
    """
    known = tf.reduce_any(said[:, tf.newaxis] == tf.constant(stamps), 1)
    tf.debugging.Assert(tf.reduce_all(known), [MADE_WITH])


def find_wrong_record(paths: list[str], parse, limits: dict[str, int]) -> ValueError | None:
    """Returns the error of the first unusable record, or None.

    Reads everything up to that record: about ten seconds per million records.

    Args:
        paths: paths of the record files.
        parse: maps serialized records (string [B]) to {name: tensor [B, ...]}, as created by `tfrecords.build_parser`
            with `stamps`.
        limits: as in `check_ranges`.

    Returns:
        A ValueError that names the file, the record (counted from 1) and a fix, or None if all records are valid.
    """
    for path in paths:
        try:
            describe_records(path)
        except ValueError as error:
            return error
        passed = 0
        for at_once in _AT_ONCE:
            passed, fault = _first_fault(path, parse, limits, passed, at_once)
            if fault is None:
                break
        if isinstance(fault, tf.errors.OpError):
            return ValueError(_in_words(path, passed + 1, fault))
        if fault is not None:
            return fault
    return None


def _first_fault(path, parse, limits, start, at_once):
    """Checks the records after the first `start`; returns the number of good ones before a fault, and the fault."""
    good = start
    try:
        for rows in tf.data.TFRecordDataset(path, compression_of(path)).skip(start).batch(at_once):
            batch = parse(rows)
            _check_stamps_of(path, good + 1, batch[MADE_WITH].numpy())
            _look(path, good + 1, batch, limits)
            good += at_once
    except (tf.errors.OpError, ValueError) as fault:
        return good, fault
    return good, None


def _check_stamps_of(path, number, said):
    """Raises ValueError if records were created with other options than the first of the file."""
    first = read_stamp(path) or b""
    for place, stamp in enumerate(said):
        if stamp not in (b"", first):
            raise ValueError(
                f"Record {number + place} of {path} must be made like the first one, because a file stores this only "
                f"once. It is {_difference(path, stamp, first)}: the file was concatenated from several; keep them "
                "apart, or recreate them with the same settings."
            )


def _difference(path, stamp, first):
    """Describes the options that differ."""
    if not first:
        return "one that describes how it was made, but the first does not"
    here, there = (dataclasses.asdict(RecordMetadata.of_stamp(path, data)) for data in (stamp, first))
    names = [name for name in here if here[name] != there[name]]
    if not names:  # a later version has more fields
        return f"one with {brief(stamp)}, but the first has {brief(first)}"
    one, other = (", ".join(f"{name} {str(said[name])[:16]}" for name in names) for said in (here, there))
    return f"one made with {one}, but the first was made with {other}"


def _look(path, number, batch, limits):
    """Raises ValueError if values of records are out of range; `number` is that of the first record."""
    for name, limit in limits.items():
        values = batch[name].numpy()
        bad = np.argwhere((values < 0) | (values >= limit))
        if len(bad):
            meaning, remedy = _REASONS[name]
            raise ValueError(
                f"Record {number + bad[0][0]} of {path} must have {name} from 0 to {limit - 1}, because {limit} is "
                f"{meaning}; got {values[tuple(bad[0])]}; {remedy}."
            )


def _in_words(path, number, error):
    if isinstance(error, tf.errors.InvalidArgumentError):
        return (
            f"Record {number} of {path} must have the same features as the first one, but it has other features or "
            "lengths. Create the file again, from files that were made with the same flags."
        )
    return (
        f"{path} is not a complete record file: it cannot be read from record {number} on, where it is truncated or "
        "damaged. Copy or create it again, or omit it."
    )
