"""Reads record files as batches for pretraining, shuffled again each epoch, from any step on; checks the files."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data import tfrecords
from bert_tf.data.dataset import without_autotune
from bert_tf.data.tfrecords import MADE_WITH, compression_of, describe_records, read_stamp
from bert_tf.pretraining import record_metadata
from bert_tf.pretraining.packing import to_packed_rows, unpack_dataset
from bert_tf.pretraining.record_metadata import RecordMetadata
from bert_tf.utils.files import brief

# === Faults ===
# What is wrong with a record file: it could not be read to its end, or its values do not fit the model or each
# other.


_AT_ONCE = (1024, 32, 1)  # records looked at together in search of a bad one: ever fewer, from the last good one on
_AGAIN = "create the records again"
_VOCABULARY = (
    "the size of the model's vocabulary",
    "the records were made with another vocabulary: create them again with the model's, or use theirs for the model",
)
_REASONS = {  # feature -> what its values must be below, and what to do where they are not
    "input_ids": _VOCABULARY,
    "masked_lm_ids": _VOCABULARY,
    "segment_ids": ("the model's type_vocab_size", f"{_AGAIN}, or configure the model with as many segments"),
    "masked_lm_positions": ("the sequence length", _AGAIN),
    "next_sentence_positions": ("the sequence length", _AGAIN),
    "next_sentence_labels": ("the number of labels", _AGAIN),
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
    """Returns the error of the first record that cannot be used, or None.

    It reads all up to there: some ten seconds for a million records.

    Args:
        paths: of the files.
        parse: from serialized records (string [B]) to {name: tensor [B, ...]}, as `tfrecords.build_parser` makes it
            with `stamps`.
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
            _check_stamps_of(path, good + 1, batch[MADE_WITH].numpy())
            _look(path, good + 1, batch, limits)
            good += at_once
    except (tf.errors.OpError, ValueError) as fault:
        return good, fault
    return good, None


def _check_stamps_of(path, number, said):
    """Raises ValueError where records say that they were made otherwise than the first of the file."""
    first = read_stamp(path) or b""
    for place, stamp in enumerate(said):
        if stamp not in (b"", first):
            raise ValueError(
                f"Record {number + place} of {path} must be made like the first one, because a file stores this only "
                f"once. It is {_difference(path, stamp, first)}: the file was concatenated from several; keep them "
                "apart, or make all of them alike."
            )


def _difference(path, stamp, first):
    """Returns in words what was made otherwise."""
    if not first:
        return "one that states how it was made, but the first does not"
    here, there = (dataclasses.asdict(RecordMetadata.of_stamp(path, data)) for data in (stamp, first))
    names = [name for name in here if here[name] != there[name]]
    if not names:  # a later version says more
        return f"one with {brief(stamp)}, but the first has {brief(first)}"
    one, other = (", ".join(f"{name} {str(said[name])[:16]}" for name in names) for said in (here, there))
    return f"one made with {one}, but the first was made with {other}"


def _look(path, number, batch, limits):
    """Raises ValueError where values of records lie beyond their limits; `number` is that of the first."""
    for name, limit in limits.items():
        values = batch[name].numpy()
        bad = np.argwhere((values < 0) | (values >= limit))
        if len(bad):
            meaning, remedy = _REASONS[name]
            raise ValueError(
                f"Record {number + bad[0][0]} of {path} must have {name} from 0 to {limit - 1}, because {limit} is "
                f"{meaning}. Received {values[tuple(bad[0])]}; {remedy}."
            )


def _in_words(path, number, error):
    if isinstance(error, tf.errors.InvalidArgumentError):
        return (
            f"Record {number} of {path} must have the same features as the first one, but it has other features or "
            "lengths. Create the file again, from files that were made with the same flags."
        )
    return (
        f"{path} is not a complete record file: it cannot be read from record {number} on, because it is truncated or "
        "damaged there. Copy or create it again, or omit it."
    )


# === Batches ===
# Serialized records out of files, in a new order each epoch.


_FILES_AT_ONCE = 16
_SHUFFLED = 10_000  # rows among which the next one is drawn; the files were shuffled when they were made


class Batches:
    """Iterates over a tf.data.Dataset that reads record files.

    Args:
        dataset: of {name: tensor [B, ...]}.
        find_fault: returns a ValueError that says what is wrong with the files, or None.

    Attributes:
        dataset: the same. Iterated by itself it raises TensorFlow's errors.

    Raises, while it is iterated:
        ValueError: the files have a fault, or there is no batch at all.
        tf.errors.OpError: something else went wrong.
    """

    def __init__(self, dataset: tf.data.Dataset, find_fault):
        self.dataset = without_autotune(dataset)
        self._find_fault = find_fault

    def map(self, function) -> "Batches":
        """Returns the batches that `function` makes of these."""
        return self.replace_dataset(self.dataset.map(function))

    def replace_dataset(self, dataset: tf.data.Dataset) -> "Batches":
        """Returns the batches of another dataset that reads the same files."""
        return Batches(dataset, self._find_fault)

    def __iter__(self):
        batch = None
        try:
            for batch in self.dataset:
                yield batch
        except tf.errors.OpError as error:
            logging.info("Reading records failed with %s; scanning the files for the cause.", type(error).__name__)
            fault = self._find_fault()
            if fault is None:
                raise
            raise fault from error
        if batch is None:
            raise ValueError(
                "The record files do not contain a full batch. Use a smaller batch, more steps or more "
                "records."
            )


def shuffle_records(paths: list[str], seed: int) -> tf.data.Dataset:
    """Returns the serialized records of all files; each time they are gone through in another order."""
    files = tfrecords.list_record_files(paths).shuffle(len(paths), seed, reshuffle_each_iteration=True)
    # One thread: with more of them a row costs ten times as much, which a resumed run that passes over many would feel.
    rows = files.interleave(tfrecords.read_record_file, cycle_length=min(len(paths), _FILES_AT_ONCE), block_length=1)
    return rows.shuffle(_SHUFFLED, seed, reshuffle_each_iteration=True)


# === Records ===


_ROWS = ("input_ids", "input_mask", "segment_ids")
_MASKS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_SENTENCES = ("next_sentence_labels", "next_sentence_positions", "next_sentence_weights")
_WANTED = (*_ROWS, "sentence_ids", *_MASKS, *_SENTENCES)


@dataclasses.dataclass(frozen=True)
class Records:
    """Record files of create_pretraining_data.

    Attributes:
        paths: of the files.
        lengths: {feature: its length} of all of them.
        vocab_size, type_vocab_size: what ids and segments must lie below; None: anything goes. See `for_model`.
        metadata: {path: what the file says of how it was made, or None}.
    """

    paths: list[str]
    lengths: dict[str, int]
    vocab_size: int | None = None
    type_vocab_size: int | None = None
    metadata: dict[str, RecordMetadata | None] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls, patterns: list[str], max_seq_length: int | None = None, max_predictions_per_seq: int | None = None
    ) -> "Records":
        """Returns the records that file patterns match; each file is looked into.

        Args:
            patterns: paths, folders, or patterns with * and so on; see `record_metadata.find_record_files`.
            max_seq_length, max_predictions_per_seq: what the records must have been made with; None: whatever it was,
                the same for all. Records without masks were made with no max_predictions_per_seq.

        Raises:
            ValueError: a pattern matches nothing, or the files are not such records, or not all alike, or not whole.
        """
        return cls._holding(record_metadata.find_record_files(patterns), max_seq_length, max_predictions_per_seq)

    @classmethod
    def select(cls, patterns: list[str], max_seq_length: int) -> "Records":
        """Returns those records that file patterns match whose rows have one length.

        Raises:
            ValueError: there are none; otherwise as `of`.
        """
        lengths = {path: _length(path) for path in record_metadata.find_record_files(patterns)}
        paths = [path for path, length in lengths.items() if length == max_seq_length]
        if not paths:
            held = " and ".join(map(str, sorted(set(lengths.values()))))
            more = " and others" if len(patterns) > 3 else ""
            raise ValueError(
                f"No records with sequences of {max_seq_length} tokens: in {', '.join(patterns[:3])}{more}, all have "
                f"{held}. Create some with create_pretraining_data and "
                f"`max_seq_length={max_seq_length}`."
            )
        return cls._holding(paths, max_seq_length)

    @classmethod
    def _holding(cls, paths, max_seq_length=None, max_predictions=None):
        held = describe_records(paths[0])
        lengths = {name: held[name][1] for name in _WANTED if name in held}
        _check_kind(paths[0], held)
        expect = dict.fromkeys(_ROWS, max_seq_length or lengths.get("input_ids"))
        if "masked_lm_ids" in held:
            expect |= dict.fromkeys(_MASKS, max_predictions or lengths["masked_lm_ids"])
        if "next_sentence_labels" in held:
            packed = "sentence_ids" in held
            expect |= dict.fromkeys(_SENTENCES if packed else _SENTENCES[:1], packed and lengths[_SENTENCES[0]] or 1)
        tfrecords.build_parser(paths, tuple(lengths), expect)
        record_metadata.check_whole(paths)
        return cls(paths, lengths, metadata={path: RecordMetadata.of(path) for path in paths})

    @property
    def max_seq_length(self) -> int:
        """Tokens of a row."""
        return self.lengths["input_ids"]

    @property
    def max_predictions(self) -> int | None:
        """Predictions of a row at most; None where the records have no masks."""
        return self.lengths.get("masked_lm_ids")

    @property
    def masked(self) -> bool:
        """True where the records have masks: not those that were made with --dynamic_masking."""
        return "masked_lm_ids" in self.lengths

    @property
    def packed(self) -> bool:
        """True where a row holds several examples."""
        return "sentence_ids" in self.lengths

    @property
    def has_sentences(self) -> bool:
        """True where there are labels for next sentence or sentence order."""
        return "next_sentence_labels" in self.lengths

    @property
    def sentence_objective(self) -> str | None:
        """The meaning of sentence labels, "nsp" or "sop"; "none": there are none; None: the records do not say."""
        said = (metadata.sentence_objective for metadata in self.metadata.values() if metadata)
        return next(said, None) if self.has_sentences else "none"

    def for_model(self, vocab_size: int, type_vocab_size: int) -> "Records":
        """Returns the same records, of which every batch is looked at: whether ids and segments fit the model."""
        return dataclasses.replace(self, vocab_size=vocab_size, type_vocab_size=type_vocab_size)

    def batches(
        self, batch_size: int, seed: int, start: int = 0, masks: Callable | None = None, passed: int = 0
    ) -> Batches:
        """Returns endless shuffled batches, each epoch in another order.

        Which rows and masks a step gets is a function of the arguments alone, so that a run which is resumed at step
        `start` gets the very batches that would have come. Getting there takes some three seconds for a million rows.

        Args:
            batch_size: rows a batch.
            seed: of the order.
            start: how many batches to pass over.
            masks: for records without masks, as `masking.masker` makes it: from (the batch's number in the run
                from 0, batch) to the batch with masks; None: leave them without.
            passed: how many rows to pass over before the first batch, since they have been read.

        Returns:
            Endless {name: [batch_size, ...]}, of the dtypes and shapes in `bert_tf.data.features`.

        Raises:
            ValueError: the records are masked already. While the batches are iterated: a file is cut off, damaged or
                gone, or its values do not fit the model; the message names the file and the record.
        """
        rows = shuffle_records(self.paths, seed).repeat().skip(passed + start * batch_size)
        return self._prepared(rows.batch(batch_size, drop_remainder=True), start, masks)

    def in_order(
        self, batch_size: int, steps: int | None = None, masks: Callable | None = None, packed: bool | None = None
    ) -> Batches:
        """Returns the batches of all files, once and in order.

        Args:
            batch_size: rows a batch.
            steps: batches at most; None: all whole ones.
            masks: as in `batches`.
            packed: whether the rows are to be packed, for a model that takes one or the other: rows that are not become
                packed rows of one example, and packed ones a row for each example. None: they stay as they are.

        Returns, Raises:
            as `batches`, but that they end.
        """
        packed = self.packed if packed is None else packed
        rows = tfrecords.read_serialized(self.paths).batch(batch_size, drop_remainder=packed or not self.packed)
        batches = self._prepared(rows, 0, masks)
        if packed and not self.packed:
            batches = batches.map(to_packed_rows)
        if self.packed and not packed:
            batches = batches.replace_dataset(unpack_dataset(batches.dataset).batch(batch_size, drop_remainder=True))
        return batches if steps is None else batches.replace_dataset(batches.dataset.take(steps))

    def sample(self, path: str, rows: int) -> dict[str, tf.Tensor]:
        """Returns the first rows of one of the files, so many or all that it has; it raises what `batches` does."""
        one = dataclasses.replace(self, paths=[path])
        return next(iter(one._prepared(tfrecords.read_serialized([path]).batch(rows).take(1), 0, None)))

    def _prepared(self, rows, start, masks):
        """Makes batches of serialized records, of which the first is number `start`."""
        if masks and self.masked:
            raise ValueError(
                "Dynamic masking requires records without masks, but some are "
                f"masked already, such as {self.paths[0]}. Create them by create_pretraining_data with "
                "`dynamic_masking`."
            )
        parse, limits = tfrecords.build_parser(self.paths, tuple(self.lengths), stamps=True), self._limits()
        stamps = sorted({read_stamp(path) or b"" for path in self.paths} | {b""})

        def prepare(number, serialized):
            batch = parse(serialized)
            check_stamps(batch.pop(MADE_WITH), stamps)
            check_ranges(batch, limits)
            return masks(number, batch) if masks else batch

        dataset = rows.enumerate(start).map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return Batches(dataset.prefetch(2), functools.partial(find_wrong_record, self.paths, parse, limits))

    def _limits(self):
        length, vocab_size = self.max_seq_length, self.vocab_size
        segments = self.type_vocab_size or None  # 0: the model looks up no segments
        limits = {"input_ids": vocab_size, "masked_lm_ids": vocab_size, "segment_ids": segments}
        limits |= {"masked_lm_positions": length, "next_sentence_positions": length, "next_sentence_labels": 2}
        return {name: limit for name, limit in limits.items() if limit is not None and name in self.lengths}


def _length(path):
    """Tokens of a row."""
    held = describe_records(path)
    _check_kind(path, held)
    return held["input_ids"][1]


def _check_kind(path, held):
    """Raises ValueError where records are not for pretraining; without masks only a feature of others tells."""
    others = [] if "masked_lm_ids" in held else sorted(held.keys() - set(_WANTED))
    if "input_ids" not in held or others:
        raise ValueError(
            f"{path} does not hold pretraining records, but records with {', '.join(held)}. Create some with "
            "python -m bert_tf create_pretraining_data."
        )
