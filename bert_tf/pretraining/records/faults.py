"""What is wrong with a record file: it could not be read to its end, or its values do not fit the model or each
other."""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf.data.records import MADE_WITH, compression_of, describe_records, read_stamp
from bert_tf.pretraining.records.origin import RecordMetadata
from bert_tf.utils.files import brief

_AT_ONCE = (1024, 32, 1)  # records looked at together in search of a bad one: ever fewer, from the last good one on
_ANEW = "make the records anew"
_VOCABULARY = (
    "the size of the model's vocabulary",
    "the records were made with another vocabulary: make them anew with the model's, or give the model theirs",
)
_REASONS = {  # feature -> what its values must be below, and what to do where they are not
    "input_ids": _VOCABULARY,
    "masked_lm_ids": _VOCABULARY,
    "segment_ids": ("the model's type_vocab_size", f"{_ANEW}, or give the model as many segments"),
    "masked_lm_positions": ("the length of a row", _ANEW),
    "next_sentence_positions": ("the length of a row", _ANEW),
    "next_sentence_labels": ("the number of labels", _ANEW),
}


def check_ranges(batch: dict, limits: dict[str, int]):
    """Inside tf.data: raises tf.errors.InvalidArgumentError unless 0 <= value < limit, for all values of a feature.

    On a GPU an id beyond the embedding table would give a row of zeros, and no error.

    Args:
        batch: {name: int32 tensor}, not changed.
        limits: {name: limit}, of features that the batch has.
    """
    for name, limit in limits.items():
        tf.debugging.Assert(tf.reduce_all((batch[name] >= 0) & (batch[name] < limit)), [name])


def check_stamps(said: tf.Tensor, stamps: list[bytes]):
    """Inside tf.data: raises tf.errors.InvalidArgumentError where a record says that it was made otherwise.

    It does where a file was put together of several: of how it was made a file speaks in its first record alone.

    Args:
        said: string [B], what each record says; empty: nothing.
        stamps: what the first records of all files say, and the empty one.
    """
    known = tf.reduce_any(said[:, tf.newaxis] == tf.constant(stamps), 1)
    tf.debugging.Assert(tf.reduce_all(known), [MADE_WITH])


def find_wrong_record(paths: list[str], parse, limits: dict[str, int]) -> ValueError | None:
    """Looks through record files for the first thing that cannot be used.

    It reads all up to there: some ten seconds for a million records.

    Args:
        paths: of the files.
        parse: from serialized records (string [B]) to {name: tensor [B, ...]}, as of `records.parser` with `stamps`.
        limits: as in `check_ranges`.

    Returns:
        A ValueError that names the file, the record (counted from 1) and what to do; None where all is well.
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
    """Looks at the records after the first `start`. Returns how many are good in front of a fault, and the fault."""
    good = start
    try:
        for rows in tf.data.TFRecordDataset(path, compression_of(path)).skip(start).batch(at_once):
            batch = parse(rows)
            _look_at_stamps(path, good + 1, batch[MADE_WITH].numpy())
            _look(path, good + 1, batch, limits)
            good += at_once
    except (tf.errors.OpError, ValueError) as fault:
        return good, fault
    return good, None


def _look_at_stamps(path, number, said):
    """Raises ValueError where records say that they were made otherwise than the first of the file."""
    first = read_stamp(path) or b""
    for place, stamp in enumerate(said):
        if stamp not in (b"", first):
            raise ValueError(
                f"Record {number + place} of {path} must be made as the first one was, for of that a file speaks but "
                f"once. Received {_difference(path, stamp, first)}: the file was put together of several; keep them "
                "apart, or make all of them alike."
            )


def _difference(path, stamp, first):
    """Returns in words what was made otherwise."""
    if not first:
        return "one that says how it was made, and a first one that does not"
    here, there = (dataclasses.asdict(RecordMetadata.of_stamp(path, data)) for data in (stamp, first))
    names = [name for name in here if here[name] != there[name]]
    if not names:  # a later version says more
        return f"one that says {brief(stamp)}, and a first one that says {brief(first)}"
    one, other = (", ".join(f"{name} {str(said[name])[:16]}" for name in names) for said in (here, there))
    return f"one that was made with {one}, and a first one with {other}"


def _look(path, number, batch, limits):
    """Raises ValueError where values of records lie beyond their limits; `number` is that of the first."""
    for name, limit in limits.items():
        values = batch[name].numpy()
        bad = np.argwhere((values < 0) | (values >= limit))
        if len(bad):
            meaning, remedy = _REASONS[name]
            raise ValueError(
                f"Record {number + bad[0][0]} of {path} must hold {name} from 0 to {limit - 1}, for {limit} is "
                f"{meaning}. Received {values[tuple(bad[0])]}; {remedy}."
            )


def _in_words(path, number, error):
    if isinstance(error, tf.errors.InvalidArgumentError):
        return (
            f"Record {number} of {path} must hold what the first one holds. Received other features, or some of "
            "another length; make the file anew, from parts that were made with the same flags."
        )
    return (
        f"{path} must be a whole record file. Received one that cannot be read from record {number} on, for it is cut "
        "off or damaged there; copy it or make it anew, or leave it out."
    )
