"""Reads record files as pretraining batches, reshuffled each epoch, starting at any step."""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from bert_tf.data import tfrecords
from bert_tf.data.dataset import without_autotune
from bert_tf.data.record_features import MADE_WITH, describe_records, read_stamp
from bert_tf.pretraining import record_files
from bert_tf.pretraining.record_faults import check_ranges, check_stamps, find_wrong_record
from bert_tf.pretraining.record_metadata import RecordMetadata
from bert_tf.pretraining.unpacking import to_packed_rows, unpack_dataset

_FILES_AT_ONCE = 16
# Errors of the machine or its file system: searching all files for a fault, which may take hours, would find none.
_PASSING = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.ResourceExhaustedError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
)
_SHUFFLED = 10_000  # size of the shuffle buffer, in rows; the files were shuffled when they were created


class Batches:
    """Iterates over a tf.data.Dataset that reads record files, and reports faults of the files.

    Args:
        dataset: yields {name: tensor [B, ...]}.
        find_fault: returns a ValueError that describes a fault of the files, or None.
        paths: paths of the files.

    Attributes:
        dataset: the dataset itself; if iterated directly, it raises TensorFlow's errors.

    Raises, during iteration:
        ValueError: the files have a fault, or there is no batch.
        tf.errors.OpError: another error occurred.
    """

    def __init__(self, dataset: tf.data.Dataset, find_fault, paths: list[str]):
        self.dataset, self.paths = without_autotune(dataset), paths
        self._find_fault = find_fault

    def map(self, function) -> "Batches":
        """Returns the batches mapped by `function`."""
        return self.replace_dataset(self.dataset.map(function))

    def replace_dataset(self, dataset: tf.data.Dataset) -> "Batches":
        """Returns batches from another dataset that reads the same files."""
        return Batches(dataset, self._find_fault, self.paths)

    def __iter__(self):
        batch = None
        try:
            for batch in self.dataset:
                yield batch
        except _PASSING:
            raise
        except tf.errors.OpError as error:
            logging.info("Reading records failed with %s; scanning the files for the cause.", type(error).__name__)
            fault = self._find_fault()
            if fault is None:
                raise
            raise fault from error
        if batch is None:
            raise ValueError(
                f"The record files, such as {self.paths[0]}, do not contain a full batch. Use a smaller batch, more "
                "steps or more records."
            )


def shuffle_records(paths: list[str], seed: int) -> tf.data.Dataset:
    """Returns the serialized records of all files, reshuffled at each iteration."""
    files = tfrecords.list_record_files(paths).shuffle(len(paths), seed, reshuffle_each_iteration=True)
    # One thread: with more, a row costs ten times as much, which would slow down a resumed run that skips many rows.
    rows = files.interleave(tfrecords.read_record_file, cycle_length=min(len(paths), _FILES_AT_ONCE), block_length=1)
    return rows.shuffle(_SHUFFLED, seed, reshuffle_each_iteration=True)


_ROWS = ("input_ids", "input_mask", "segment_ids")
_MASKS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_SENTENCES = ("next_sentence_labels", "next_sentence_positions", "next_sentence_weights")
_WANTED = (*_ROWS, "sentence_ids", *_MASKS, *_SENTENCES)


@dataclasses.dataclass(frozen=True)
class Records:
    """Pretraining record files, created by `pretrain data`.

    Attributes:
        paths: paths of the record files.
        lengths: {feature: its length} shared by all files.
        vocab_size, type_vocab_size: exclusive limits of ids and segments, or None for no limits; see `for_model`.
        metadata: {path: how the file was created, or None if it does not contain this}.
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
        """Returns the records of the files that match patterns, and checks each file.

        Args:
            patterns: paths, directories, or glob patterns; see `record_files.find_record_files`.
            max_seq_length, max_predictions_per_seq: required values, or None to accept any, as long as all files have
                the same. Records without masks have no max_predictions_per_seq.

        Raises:
            ValueError: a pattern matches nothing, or the files are not pretraining records, are inconsistent or
                incomplete.
        """
        return cls._holding(record_files.find_record_files(patterns), max_seq_length, max_predictions_per_seq)

    @classmethod
    def select(cls, patterns: list[str], max_seq_length: int) -> "Records":
        """Returns the records of the files that match patterns and have rows of the given length.

        Raises:
            ValueError: no file has this length; also as in `of`.
        """
        lengths = {path: _length(path) for path in record_files.find_record_files(patterns)}
        paths = [path for path, length in lengths.items() if length == max_seq_length]
        if not paths:
            held = " and ".join(map(str, sorted(set(lengths.values()))))
            more = " and others" if len(patterns) > 3 else ""
            raise ValueError(
                f"No records with sequences of {max_seq_length} tokens: in {', '.join(patterns[:3])}{more}, all have "
                f"{held}. Create some with `pretrain data` and `max_seq_length={max_seq_length}`."
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
        record_files.check_whole(paths)
        return cls(paths, lengths, metadata={path: RecordMetadata.of(path) for path in paths})

    @property
    def max_seq_length(self) -> int:
        """Tokens per row."""
        return self.lengths["input_ids"]

    @property
    def max_predictions(self) -> int | None:
        """Maximum number of predictions per row, or None if the records have no masks."""
        return self.lengths.get("masked_lm_ids")

    @property
    def masked(self) -> bool:
        """True if the records have masks, that is, were created without dynamic masking."""
        return "masked_lm_ids" in self.lengths

    @property
    def packed(self) -> bool:
        """True if a row contains several examples."""
        return "sentence_ids" in self.lengths

    @property
    def has_sentences(self) -> bool:
        """True if the records have labels for next sentence prediction or sentence order."""
        return "next_sentence_labels" in self.lengths

    @property
    def sentence_objective(self) -> str | None:
        """The sentence objective: "nsp", "sop", "none" if there are no labels, or None if unknown."""
        said = (metadata.sentence_objective for metadata in self.metadata.values() if metadata)
        return next(said, None) if self.has_sentences else "none"

    def for_model(self, vocab_size: int, type_vocab_size: int) -> "Records":
        """Returns the same records, with every batch checked against the model's ids and segments."""
        return dataclasses.replace(self, vocab_size=vocab_size, type_vocab_size=type_vocab_size)

    def batches(
        self, batch_size: int, seed: int, start: int = 0, masks: Callable | None = None, passed: int = 0
    ) -> Batches:
        """Returns an endless stream of batches, reshuffled each epoch.

        The rows and masks of a step are a function of the arguments alone, so a run resumed at step `start` gets the
        same batches as an uninterrupted run. Skipping takes about three seconds per million rows.

        Args:
            batch_size: rows per batch.
            seed: random seed of the shuffling.
            start: number of batches to skip.
            masks: for records without masks, a function created by `dynamic_masking.masker` from (the batch's number in
                the run, from 0, and the batch) to the batch with masks. If None, no masks are added.
            passed: number of rows to skip before the first batch, since they were already read.

        Returns:
            Endless {name: [batch_size, ...]}, with the dtypes and shapes in `bert_tf.data.features`.

        Raises:
            ValueError: the records already have masks. During iteration: a file is truncated, damaged or missing, or
                its values do not fit the model; the message names the file and the record.
        """
        rows = shuffle_records(self.paths, seed).repeat().skip(passed + start * batch_size)
        return self._prepared(rows.batch(batch_size, drop_remainder=True), start, masks)

    def in_order(
        self, batch_size: int, steps: int | None = None, masks: Callable | None = None, packed: bool | None = None
    ) -> Batches:
        """Returns the batches of all files once, in order.

        Args:
            batch_size: rows per batch.
            steps: maximum number of batches, or None for all complete ones.
            masks: as in `batches`.
            packed: the layout that the model requires: True turns unpacked rows into packed rows of one example, and
                False turns packed rows into one row per example. If None, rows are not changed.

        Returns, Raises:
            as in `batches`, but the stream ends.
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
        """Returns up to `rows` first rows of one of the files; raises the same errors as `batches`."""
        one = dataclasses.replace(self, paths=[path])
        return next(iter(one._prepared(tfrecords.read_serialized([path]).batch(rows).take(1), 0, None)))

    def _prepared(self, rows, start, masks):
        """Creates batches from serialized records; the first has number `start`."""
        if masks and self.masked:
            raise ValueError(
                "Dynamic masking requires records without masks, but some are "
                f"masked already, such as {self.paths[0]}. Create them with `pretrain data` and "
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
        find_fault = functools.partial(find_wrong_record, self.paths, parse, limits)
        return Batches(dataset.prefetch(2), find_fault, self.paths)

    def _limits(self):
        length, vocab_size = self.max_seq_length, self.vocab_size
        segments = self.type_vocab_size or None  # 0 if the model has no segment embeddings
        limits = {"input_ids": vocab_size, "masked_lm_ids": vocab_size, "segment_ids": segments}
        limits |= {"masked_lm_positions": length, "next_sentence_positions": length, "next_sentence_labels": 2}
        return {name: limit for name, limit in limits.items() if limit is not None and name in self.lengths}


def _length(path):
    """Tokens per row."""
    held = describe_records(path)
    _check_kind(path, held)
    return held["input_ids"][1]


def _check_kind(path, held):
    """Raises ValueError if records are not for pretraining; without masks, only features of other tasks reveal it."""
    others = [] if "masked_lm_ids" in held else sorted(held.keys() - set(_WANTED))
    if "input_ids" not in held or others:
        raise ValueError(
            f"{path} does not contain pretraining records, but records with {', '.join(held)}. Create some with python "
            "-m bert_tf pretrain data."
        )
