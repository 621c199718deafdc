"""Records to batches for pretraining: in a new order each epoch, and from any step on."""

import numpy as np
import tensorflow as tf

from bert_tf.data import records
from bert_tf.data.records import compression_of

_FILES_AT_ONCE = 16
_SHUFFLED = 10_000  # rows among which the next one is drawn; the files were shuffled when they were made


def training_batches(paths, batch_size: int, seed: int, start: int = 0, names=None, expect=None) -> tf.data.Dataset:
    """Reads record files again and again, each epoch in another order.

    Which rows a step gets is a function of the arguments alone, so that a run which is resumed at step `start` gets the
    very batches that would have come. Getting there takes about a second for a million rows.

    Args:
        paths: of the record files.
        batch_size: rows a batch.
        seed: of the order.
        start: how many batches to pass over.
        names, expect: as in `records.read`.

    Returns:
        An endless tf.data.Dataset of {name: [batch_size, ...]}.

    Raises:
        ValueError: the files are not what `records.read` takes.
    """
    parse = records.parser(paths, names, expect)
    rows = tf.data.Dataset.counter().flat_map(lambda epoch: _epoch(paths, seed, epoch))
    batches = rows.skip(start * batch_size).batch(batch_size, drop_remainder=True)
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(2)


def held_out_batches(paths, batch_size: int, steps: int | None, names=None, expect=None) -> tf.data.Dataset:
    """Reads record files once, in order: all of their rows, or the first `steps` batches.

    The last batch may be smaller. Arguments otherwise as in `training_batches`.
    """
    batches = records.read(paths, names, expect, batch_size)
    return batches if steps is None else batches.take(steps)


def _epoch(paths, seed, epoch):
    """Serialized records of all files, in the order of one epoch (an int64 scalar tensor)."""
    table = tf.constant([[path, compression_of(path)] for path in paths])
    seeds = tf.stack([tf.constant(seed, tf.int64), epoch])
    order = tf.random.experimental.stateless_shuffle(tf.range(len(paths)), seeds)
    files = tf.data.Dataset.from_tensor_slices(tf.gather(table, order))
    rows = files.interleave(
        lambda file: tf.data.TFRecordDataset(file[0], file[1]),
        cycle_length=min(len(paths), _FILES_AT_ONCE),
        block_length=1,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return rows.shuffle(_SHUFFLED, seed=np.int64(seed) + epoch, reshuffle_each_iteration=False)
