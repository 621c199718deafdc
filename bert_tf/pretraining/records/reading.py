"""Streams of records out of files, and of the batches made of them."""

import tensorflow as tf
from absl import logging

from bert_tf.data import records
from bert_tf.data.iteration import without_autotune

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
    files = records.files(paths).shuffle(len(paths), seed, reshuffle_each_iteration=True)
    # One thread: with more of them a row costs ten times as much, which a resumed run that passes over many would feel.
    rows = files.interleave(records.in_file, cycle_length=min(len(paths), _FILES_AT_ONCE), block_length=1)
    return rows.shuffle(_SHUFFLED, seed, reshuffle_each_iteration=True)
