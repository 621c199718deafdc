"""Records to batches for pretraining: in a new order each epoch, and from any step on."""

import dataclasses
import glob

import tensorflow as tf

from bert_tf.data import records
from bert_tf.data.records import compression_of, describe

_FILES_AT_ONCE = 16
_SHUFFLED = 10_000  # rows among which the next one is drawn; the files were shuffled when they were made
_WANTED = (
    "input_ids", "input_mask", "segment_ids", "sentence_ids", "masked_lm_positions", "masked_lm_ids",
    "masked_lm_weights", "next_sentence_labels", "next_sentence_positions", "next_sentence_weights",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Records:
    """Record files of create_pretraining_data.

    Attributes:
        paths: of the files.
        lengths: {feature: its length} of all of them.
    """

    paths: list[str]
    lengths: dict[str, int]

    @classmethod
    def of(cls, patterns: list[str], max_seq_length: int, max_predictions_per_seq: int) -> "Records":
        """Finds the files and looks into each.

        Args:
            patterns: paths, or patterns with * and so on.
            max_seq_length, max_predictions_per_seq: what the records must have been made with.

        Raises:
            ValueError: a pattern matches nothing, or the files are not such records, or not all alike.
        """
        paths = [path for pattern in patterns for path in _matches(pattern)]
        held = describe(paths[0])
        expect = {"input_ids": max_seq_length, "input_mask": max_seq_length, "segment_ids": max_seq_length}
        expect |= dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"), max_predictions_per_seq)
        lengths = {name: held[name][1] for name in _WANTED if name in held}
        records.parser(paths, tuple(lengths), expect)
        return cls(paths, lengths)

    @property
    def packed(self) -> bool:
        """Whether a row holds several examples."""
        return "sentence_ids" in self.lengths

    @property
    def has_sentences(self) -> bool:
        """Whether there are labels for next sentence or sentence order."""
        return "next_sentence_labels" in self.lengths

    def batches(self, batch_size: int, seed: int, start: int = 0) -> tf.data.Dataset:
        """Reads the files again and again, each epoch in another order.

        Which rows a step gets is a function of the arguments alone, so that a run which is resumed at step `start` gets
        the very batches that would have come. Getting there takes about a second for a million rows.

        Args:
            batch_size: rows a batch.
            seed: of the order.
            start: how many batches to pass over.

        Returns:
            An endless tf.data.Dataset of {name: [batch_size, ...]}.
        """
        rows = _shuffled(self.paths, seed).repeat()
        batches = rows.skip(start * batch_size).batch(batch_size, drop_remainder=True)
        parse = records.parser(self.paths, tuple(self.lengths))
        return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(2)

    def in_order(self, batch_size: int, steps: int | None = None) -> tf.data.Dataset:
        """Reads the files once, in order: all whole batches, or the first `steps` of them."""
        batches = records.read(self.paths, tuple(self.lengths), None, batch_size, drop_remainder=True)
        return batches if steps is None else batches.take(steps)


def _matches(pattern):
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        raise ValueError(
            f"Record files must be there. Received {pattern!r}, which matches none; make some with "
            "python -m bert_tf.data.create_pretraining_data."
        )
    return found


def _shuffled(paths, seed):
    """Serialized records of all files; each time they are gone through in another order."""
    files = tf.data.Dataset.from_tensor_slices([[path, compression_of(path)] for path in paths])
    rows = files.shuffle(len(paths), seed, reshuffle_each_iteration=True).interleave(
        lambda file: tf.data.TFRecordDataset(file[0], file[1]),
        cycle_length=min(len(paths), _FILES_AT_ONCE),
        block_length=1,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return rows.shuffle(_SHUFFLED, seed, reshuffle_each_iteration=True)
