"""Batches of tokenized examples in memory: which examples go together, in which order, padded to which width."""

import dataclasses
import hashlib
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.data.features import FEATURES

# === Iteration ===
# Iteration over datasets.


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset whose threads and buffers stay as many as they are at first.

    The thread by which TensorFlow 2.21 adapts them sleeps for up to a minute at a time, and whoever lets go of an
    iterator may have to wait for it: a run stood still for that long behind its last step.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


# === Truncation ===
# Counts of truncated tokens.


@dataclasses.dataclass(frozen=True)
class Truncation:
    """Counts of the tokens that were truncated in n examples.

    Attributes:
        parameter: what limits them, such as "max_seq_length".
        limit: its value.
        needed: int64 [n], the least value with which nothing of the example would be cut.
        lost: tokens of all examples that were cut off.
        total: tokens of all examples.
    """

    parameter: str
    limit: int
    needed: np.ndarray
    lost: int
    total: int

    @property
    def examples(self) -> np.ndarray:
        """int64, the examples that lost something, ascending."""
        return np.flatnonzero(self.needed > self.limit)


def count_truncated(
    lengths: np.ndarray, max_seq_length: int, of: np.ndarray | None = None, n: int | None = None
) -> Truncation:
    """Returns how much was truncated to `max_seq_length`.

    Args:
        lengths: int64 [w], of the untruncated sequences, special tokens counted in.
        max_seq_length: of the truncated sequences.
        of: int64 [w], the example of each sequence, from 0; None: every sequence is one.
        n: how many examples there are, with `of`.
    """
    needed = lengths
    if of is not None:
        needed = np.zeros(n, np.int64)
        np.maximum.at(needed, of, lengths)
    lost = np.maximum(lengths - max_seq_length, 0)
    return Truncation("max_seq_length", max_seq_length, needed, int(lost.sum()), int(lengths.sum()))


# === Dataset ===


# A pool of so many batches at most is sorted by length: enough for batches of nearly equal lengths. An epoch has that
# many pools at least, or pools of the fewest batches: in larger ones small sets were learned late and less well.
MOST_POOL_BATCHES, LEAST_POOL_BATCHES, POOLS_OF_EPOCH = 50, 4, 40
WIDTH_STEP = 8  # widths are multiples of this: oneDNN's kernels like it, and there are fewer shapes


@dataclasses.dataclass
class Tokenized:
    """Tokenized examples, end to end.

        input_ids    101 7592 102 101 2748 102       splits   0 3 6       two examples of three tokens

    Attributes:
        features: {name: int32 [all tokens]}, what each token has: `input_ids`, `segment_ids`, and targets of tokens,
            such as `tag_ids`.
        splits: int64 [n + 1], where each example's tokens begin and end.
        targets: {name: [n, ...]} of what is aimed at with each example, such as `label_ids`; of choices one value, or
            one for each. Empty when there is nothing to aim at, or only with tokens.
        pad_id: id of [PAD], with which sequences are filled up.
        origin: what the task needs in addition to decode outputs: where the tokens come from.
        truncation: what was truncated; None: nothing ever is.
    """

    features: dict
    splits: np.ndarray
    targets: dict
    pad_id: int = 0
    origin: Any = None
    truncation: Truncation | None = None

    def __len__(self):
        return len(self.splits) - 1

    def fingerprint(self) -> str:
        """Returns a short hash of all that training sees: tokens, segments, targets and their order."""
        digest = hashlib.sha256()
        for name, values in sorted({**self.features, **self.targets, "splits": self.splits}.items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:16]

    @property
    def lengths(self):
        """int64 [n]: tokens of each example."""
        return np.diff(self.splits)

    @property
    def row_counts(self):
        """int64 [n]: sequences of each example."""
        return np.ones(len(self), np.int64)

    @property
    def longest_rows(self):
        """int64 [n]: tokens of each example's longest sequence."""
        return self.lengths

    def input_specs(self, batch_size: int) -> dict[str, tf.TensorSpec]:
        """Returns {name: TensorSpec} of what `inputs` returns, of any width."""
        return {name: tf.TensorSpec([batch_size, None], tf.int32) for name in (*self.features, "input_mask")}

    def inputs(self, chosen: np.ndarray, width) -> dict[str, np.ndarray]:
        """Returns a batch's inputs, int32 [B, S].

        Args:
            chosen: int [B], indices of examples; -1 stands for a sequence of padding, which keeps one token, that of
                [CLS], so that no sequence attends to nothing.
            width: lengths, int [B] -> S.
        """
        real = chosen >= 0
        lengths = np.where(real, self.lengths[chosen], 1)
        columns = np.arange(width(lengths))
        mask = columns < lengths[:, None]
        there = mask & real[:, None]
        indices = np.where(there, self.splits[:-1][chosen][:, None] + columns, 0)
        inputs = {
            name: np.where(there, flat[indices], FEATURES[name].padding_of(self.pad_id)).astype(np.int32)
            for name, flat in self.features.items()
        }
        return {**inputs, "input_mask": mask.astype(np.int32)}


def usual_pool(num_examples: int, batch_size: int) -> int:
    """Returns how many batches are sorted together where nothing else is said: 4 of a small set, 50 of a large one."""
    share = num_examples // (batch_size * POOLS_OF_EPOCH)
    return min(MOST_POOL_BATCHES, max(LEAST_POOL_BATCHES, share))


def training_order(lengths, batch_size, num_steps, seed, by_length=True, pool_batches=None):
    """Decides which examples make up each step: a pure function of its arguments, so that runs can be resumed.

    The examples come in a new random order each epoch, one epoch after the other without a gap. With `by_length` every
    pool of batches (one epoch where that is less) is sorted by length, cut into batches, and these are shuffled.

    Args:
        lengths: int [n].
        batch_size: examples a step.
        num_steps: steps of the whole run.
        seed: of the shuffling.
        by_length: False: batches are the plain random order.
        pool_batches: of a pool, at least 1; with 1 the batches hold what they hold without `by_length`; None: as
            many as `usual_pool` says.

    Returns:
        int64 [num_steps, batch_size], indices of examples.
    """
    needed, n = num_steps * batch_size, len(lengths)
    epochs = [np.random.default_rng([seed, epoch]).permutation(n) for epoch in range(-(-needed // n))]
    order = np.concatenate(epochs)[:needed].reshape(num_steps, batch_size)
    if not by_length:
        return order
    pool_batches = pool_batches or usual_pool(n, batch_size)
    size = min(pool_batches, max(1, n // batch_size))  # an epoch at most, so that no example is in a batch twice
    pools = []
    for pool, start in enumerate(range(0, num_steps, size)):
        examples = order[start : start + size].reshape(-1)
        examples = examples[np.argsort(lengths[examples], kind="stable")].reshape(-1, batch_size)
        pools.append(np.random.default_rng([seed, pool, 1]).permutation(examples))
    return np.concatenate(pools)


def scoring_order(lengths, batch_size, by_length=True):
    """Decides the batches of an evaluation: every example once, the last batch filled up with -1.

    Returns:
        int64 [steps, batch_size], indices of examples or -1. With `by_length` the longest come first, so that a run
        that does not fit into memory says so at once.
    """
    order = np.argsort(-lengths, kind="stable") if by_length else np.arange(len(lengths))
    missing = -len(order) % batch_size
    return np.concatenate([order, np.full(missing, -1)]).reshape(-1, batch_size)


def width_of(lengths, max_seq_length, width_step=WIDTH_STEP):
    """Returns the width to which a batch of these lengths is padded: the next step, or max_seq_length."""
    return min(-(-int(max(lengths)) // width_step) * width_step, max_seq_length)


def build_batches(examples, order, max_seq_length, by_length=True, width_step=WIDTH_STEP):
    """Builds the batches that `order` names, padded on the right.

    Args:
        examples: a `Tokenized`, or what has its interface, such as `windowed.Windowed`.
        order: int [steps, B]; -1 stands for a sequence of padding that counts for nothing.
        max_seq_length: the width without `by_length`, and the greatest one with it.
        by_length: pad to the batch's longest example only.
        width_step: widths are multiples of this.

    Returns:
        A tf.data.Dataset of dicts: the examples' `inputs`, such as `input_ids`, `input_mask`, `segment_ids` int32
        [B, width]; the targets and `is_real_example` [B].
    """
    batch_size, targets = order.shape[1], examples.targets
    signature = {
        **examples.input_specs(batch_size),
        **{name: tf.TensorSpec([batch_size, *values.shape[1:]], values.dtype) for name, values in targets.items()},
        "is_real_example": tf.TensorSpec([batch_size], tf.float32),
    }

    def width(lengths):
        return width_of(lengths, max_seq_length, width_step) if by_length else max_seq_length

    def generate():
        for rows in order:
            real = rows >= 0
            # 0 for padding: `start_positions` of another example may lie beyond this batch.
            chosen = {name: _zero_padding(values[rows], real) for name, values in targets.items()}
            yield {**examples.inputs(rows, width), **chosen, "is_real_example": real.astype(np.float32)}

    return without_autotune(tf.data.Dataset.from_generator(generate, output_signature=signature).prefetch(2))


def _zero_padding(values, real):
    """Returns values [B, ...] with 0 in the sequences that are not real."""
    return np.where(real.reshape(-1, *[1] * (values.ndim - 1)), values, 0).astype(values.dtype)
