"""Pretraining records to batches: reading, unpacking, shuffling."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data import records
from bert_tf.data.dataset import without_autotune
from bert_tf.data.features import FEATURES
from bert_tf.data.records import MADE_WITH, describe_records, read_stamp
from bert_tf.pretraining.records import faults, origin
from bert_tf.pretraining.records.origin import RecordMetadata

# === Reading ===
# Streams of records out of files, and of the batches made of them.


# === Batches ===
# Records to batches for pretraining: in a new order each epoch, and from any step on.


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
        return self.again(self.dataset.map(function))

    def again(self, dataset: tf.data.Dataset) -> "Batches":
        """Returns the batches of another dataset that reads the same files."""
        return Batches(dataset, self._find_fault)

    def __iter__(self):
        batch = None
        try:
            for batch in self.dataset:
                yield batch
        except tf.errors.OpError as error:
            logging.info("Reading records stopped with %s: looking through the files.", type(error).__name__)
            fault = self._find_fault()
            if fault is None:
                raise
            raise fault from error
        if batch is None:
            raise ValueError(
                "Record files must hold one batch at least. Received none; take a smaller batch, more steps or more "
                "records."
            )


def shuffled(paths: list[str], seed: int) -> tf.data.Dataset:
    """Returns the serialized records of all files; each time they are gone through in another order."""
    files = records.list_record_files(paths).shuffle(len(paths), seed, reshuffle_each_iteration=True)
    # One thread: with more of them a row costs ten times as much, which a resumed run that passes over many would feel.
    rows = files.interleave(records.read_record_file, cycle_length=min(len(paths), _FILES_AT_ONCE), block_length=1)
    return rows.shuffle(_SHUFFLED, seed, reshuffle_each_iteration=True)


# === Unpacking ===
# Packed rows to rows of one example each, and the other way round: a model takes one or the other.
#
#     input_ids      [CLS]  a  [SEP] [CLS]  b   b  [SEP]  .        one packed row of two examples
#     sentence_ids     1    1    1     2    2   2    2    0
#
#     input_ids      [CLS]  a  [SEP]   .    .   .    .    .        two rows
#                    [CLS]  b    b   [SEP]  .   .    .    .
#
# `pretraining/corpus/unit.py` has all the features.


def as_packed(batch: dict) -> dict:
    """Returns a batch of rows of one example as packed rows with one in each, in the graph.

    Args:
        batch: {name: [B, ...]}, "input_mask" [B, S] among them; with "next_sentence_labels" int32 [B, 1] or without.

    Returns:
        The batch with "sentence_ids" int32 [B, S], and where there are labels "next_sentence_positions" int32 [B, 1]
        and "next_sentence_weights" float32 [B, 1].
    """
    packed = batch | {"sentence_ids": batch["input_mask"]}
    if "next_sentence_labels" in batch:
        labels = batch["next_sentence_labels"]
        packed |= {"next_sentence_positions": tf.zeros_like(labels)}
        packed |= {"next_sentence_weights": tf.ones_like(labels, tf.float32)}
    return packed


def unpacked(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Turns batches of packed rows into single rows of one example each, {name: [...]} as rows are that never were."""
    spec = dataset.element_spec
    names = sorted(spec.keys() - {"sentence_ids", "next_sentence_positions", "next_sentence_weights"})
    widths = {name: 1 if FEATURES[name].per == "sentence" else spec[name].shape[1] for name in names}

    def unpack_arrays(*values):
        rows = unpack_rows(dict(zip(sorted(spec), values, strict=True)))
        return [rows[name] for name in names]

    def unpack_batch(batch):
        types = [FEATURES[name].dtype for name in names]
        arrays = tf.numpy_function(unpack_arrays, [batch[name] for name in sorted(spec)], types, stateful=False)
        return {name: tf.ensure_shape(array, [None, widths[name]]) for name, array in zip(names, arrays, strict=True)}

    return dataset.map(unpack_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).unbatch()


def unpack_rows(rows: dict) -> dict:
    """Gives each example of packed rows a row of its own.

    Args:
        rows: {name: array [r, ...]} as `corpus.packing.pack` returns them.

    Returns:
        {name: array [n, ...]} of the n examples in their order, without the features that only packed rows have. Rows
        are as wide as they were.
    """
    ids, sentences = rows["input_ids"], rows["sentence_ids"]
    width = ids.shape[1]
    before = np.pad(sentences, [(0, 0), (1, 0)])[:, :-1]
    row, start = np.nonzero((sentences != before) & (sentences > 0))
    length = (sentences[row] == sentences[row, start][:, None]).sum(1)
    place = np.arange(width)
    real = place < length[:, None]
    source = np.minimum(start[:, None] + place, width - 1)
    padding = ids[rows["input_mask"] == 0][:1]  # none if all rows are full
    padding = padding[0] if len(padding) else 0
    examples = {
        "input_ids": np.where(real, ids[row[:, None], source], padding),
        "input_mask": real,
        "segment_ids": rows["segment_ids"][row[:, None], source] * real,
    }
    if "masked_lm_ids" in rows:
        examples |= _predictions(rows, row, start, length)
    if "next_sentence_labels" in rows:
        mine = (rows["next_sentence_positions"][row] == start[:, None]) & (rows["next_sentence_weights"][row] > 0)
        examples["next_sentence_labels"] = (rows["next_sentence_labels"][row] * mine).sum(1, keepdims=True)
    return {name: values.astype(FEATURES[name].dtype) for name, values in examples.items()}


def _predictions(rows, row, start, length):
    """Returns the predictions of each example, [n, M], those of its packed row that lie in it moved to the front."""
    positions = rows["masked_lm_positions"][row] - start[:, None]
    mine = (positions >= 0) & (positions < length[:, None]) & (rows["masked_lm_weights"][row] > 0)
    order = np.argsort(~mine, axis=1, kind="stable")

    def in_front(values):
        return np.take_along_axis(values * mine, order, axis=1)

    return {
        "masked_lm_positions": in_front(positions),
        "masked_lm_ids": in_front(rows["masked_lm_ids"][row]),
        "masked_lm_weights": in_front(rows["masked_lm_weights"][row]),
    }


# === Batches ===


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
        origins: {path: what the file says of how it was made, or None}.
    """

    paths: list[str]
    lengths: dict[str, int]
    vocab_size: int | None = None
    type_vocab_size: int | None = None
    origins: dict[str, RecordMetadata | None] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls, patterns: list[str], max_seq_length: int | None = None, max_predictions_per_seq: int | None = None
    ) -> "Records":
        """Finds the files and looks into each.

        Args:
            patterns: paths, folders, or patterns with * and so on; see `beside.find`.
            max_seq_length, max_predictions_per_seq: what the records must have been made with; None: whatever it was,
                the same for all. Records without masks were made with no max_predictions_per_seq.

        Raises:
            ValueError: a pattern matches nothing, or the files are not such records, or not all alike, or not whole.
        """
        return cls._holding(origin.find_record_files(patterns), max_seq_length, max_predictions_per_seq)

    @classmethod
    def select(cls, patterns: list[str], max_seq_length: int) -> "Records":
        """Finds, among all files that the patterns match, those with rows of one length.

        Raises:
            ValueError: there are none; otherwise as `of`.
        """
        lengths = {path: _length(path) for path in origin.find_record_files(patterns)}
        paths = [path for path, length in lengths.items() if length == max_seq_length]
        if not paths:
            held = " and ".join(map(str, sorted(set(lengths.values()))))
            more = " and others" if len(patterns) > 3 else ""
            raise ValueError(
                f"There must be records with rows of {max_seq_length} tokens. Received {', '.join(patterns[:3])}{more},"
                f" where all rows are of {held}; make some with create_pretraining_data and "
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
        records.build_parser(paths, tuple(lengths), expect)
        origin.check_whole(paths)
        return cls(paths, lengths, origins={path: RecordMetadata.of(path) for path in paths})

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
        """Whether the records have masks: not so where they were made with --dynamic_masking."""
        return "masked_lm_ids" in self.lengths

    @property
    def packed(self) -> bool:
        """Whether a row holds several examples."""
        return "sentence_ids" in self.lengths

    @property
    def has_sentences(self) -> bool:
        """Whether there are labels for next sentence or sentence order."""
        return "next_sentence_labels" in self.lengths

    @property
    def sentence_objective(self) -> str | None:
        """What the labels of sentences mean, "nsp" or "sop"; "none": there are none; None: the records do not say."""
        said = (origin.sentence_objective for origin in self.origins.values() if origin)
        return next(said, None) if self.has_sentences else "none"

    def for_model(self, vocab_size: int, type_vocab_size: int) -> "Records":
        """Returns the same records, of which every batch is looked at: whether ids and segments fit the model."""
        return dataclasses.replace(self, vocab_size=vocab_size, type_vocab_size=type_vocab_size)

    def batches(
        self, batch_size: int, seed: int, start: int = 0, masks: Callable | None = None, passed: int = 0
    ) -> Batches:
        """Reads the files again and again, each epoch in another order.

        Which rows and masks a step gets is a function of the arguments alone, so that a run which is resumed at step
        `start` gets the very batches that would have come. Getting there takes some three seconds for a million rows.

        Args:
            batch_size: rows a batch.
            seed: of the order.
            start: how many batches to pass over.
            masks: for records without masks, as `dynamic_masking.masker` makes it: from (the batch's number in the run
                from 0, batch) to the batch with masks; None: leave them without.
            passed: how many rows to pass over before the first batch, since they have been read.

        Returns:
            Endless {name: [batch_size, ...]}, of the dtypes and shapes in `bert_tf.data.features`.

        Raises:
            ValueError: the records are masked already. While the batches are iterated: a file is cut off, damaged or
                gone, or its values do not fit the model; the message names the file and the record.
        """
        rows = shuffled(self.paths, seed).repeat().skip(passed + start * batch_size)
        return self._prepared(rows.batch(batch_size, drop_remainder=True), start, masks)

    def in_order(
        self, batch_size: int, steps: int | None = None, masks: Callable | None = None, packed: bool | None = None
    ) -> Batches:
        """Reads the files once, in order.

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
        rows = records.read_serialized(self.paths).batch(batch_size, drop_remainder=packed or not self.packed)
        batches = self._prepared(rows, 0, masks)
        if packed and not self.packed:
            batches = batches.map(as_packed)
        if self.packed and not packed:
            batches = batches.again(unpacked(batches.dataset).batch(batch_size, drop_remainder=True))
        return batches if steps is None else batches.again(batches.dataset.take(steps))

    def sample(self, path: str, rows: int) -> dict[str, tf.Tensor]:
        """Returns the first rows of one of the files, so many or all that it has; it raises what `batches` does."""
        one = dataclasses.replace(self, paths=[path])
        return next(iter(one._prepared(records.read_serialized([path]).batch(rows).take(1), 0, None)))

    def _prepared(self, rows, start, masks):
        """Makes batches of serialized records, of which the first is number `start`."""
        if masks and self.masked:
            raise ValueError(
                "Records must have no masks where masks are to be drawn anew each epoch. Received records that are "
                f"masked already, such as {self.paths[0]}; make them by create_pretraining_data with `dynamic_masking`."
            )
        parse, limits = records.build_parser(self.paths, tuple(self.lengths), stamps=True), self._limits()
        stamps = sorted({read_stamp(path) or b"" for path in self.paths} | {b""})

        def prepare(number, serialized):
            batch = parse(serialized)
            faults.check_stamps(batch.pop(MADE_WITH), stamps)
            faults.check_ranges(batch, limits)
            return masks(number, batch) if masks else batch

        dataset = rows.enumerate(start).map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return Batches(dataset.prefetch(2), functools.partial(faults.find_wrong_record, self.paths, parse, limits))

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
            f"{path} must hold records for pretraining. Received records with {', '.join(held)}; make some with "
            "python -m bert_tf create_pretraining_data."
        )
