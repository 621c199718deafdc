"""Batches of tokenized examples in memory: their composition, order and padding."""

import dataclasses
import hashlib
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.data.features import FEATURES

# === Iteration ===
# Iteration over datasets.


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset with a fixed number of threads and buffers.

    TensorFlow 2.21's autotuning thread sleeps for up to a minute at a time, and releasing an iterator may have to wait
    for it: runs were delayed that long after their last step.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


# === Truncation ===
# Counts of truncated tokens.


@dataclasses.dataclass(frozen=True)
class Truncation:
    """Counts of truncated tokens in n examples.

    Attributes:
        parameter: the parameter that limits them, such as "max_seq_length".
        limit: its value.
        needed: int64 [n], the smallest limit without truncation of each example.
        lost: number of truncated tokens of all examples.
        total: total number of tokens of all examples.
    """

    parameter: str
    limit: int
    needed: np.ndarray
    lost: int
    total: int

    @property
    def examples(self) -> np.ndarray:
        """Indices of the truncated examples, int64, ascending."""
        return np.flatnonzero(self.needed > self.limit)


def count_truncated(
    lengths: np.ndarray, max_seq_length: int, of: np.ndarray | None = None, n: int | None = None
) -> Truncation:
    """Counts the tokens truncated to `max_seq_length`.

    Args:
        lengths: int64 [w], lengths of the untruncated sequences, including special tokens.
        max_seq_length: maximum length of the truncated sequences.
        of: int64 [w], the example of each sequence, from 0. If None, each sequence is an example.
        n: number of examples, required with `of`.
    """
    needed = lengths
    if of is not None:
        needed = np.zeros(n, np.int64)
        np.maximum.at(needed, of, lengths)
    lost = np.maximum(lengths - max_seq_length, 0)
    return Truncation("max_seq_length", max_seq_length, needed, int(lost.sum()), int(lengths.sum()))


# === Dataset ===


# A pool of at most this many batches is sorted by length: enough for batches of nearly equal lengths. An epoch has at
# least that many pools, or pools of the minimum size: with larger ones, small data sets were learned later and worse.
MOST_POOL_BATCHES, LEAST_POOL_BATCHES, POOLS_OF_EPOCH = 50, 4, 40
WIDTH_STEP = 8  # widths are multiples of this: faster in oneDNN's kernels, and fewer shapes


@dataclasses.dataclass
class Tokenized:
    """Tokenized examples, concatenated.

        input_ids    101 7592 102 101 2748 102       splits   0 3 6       two examples of three tokens

    Attributes:
        features: {name: int32 [all tokens]}, features of tokens: `input_ids`, `segment_ids`, and targets of tokens,
            such as `tag_ids`.
        splits: int64 [n + 1], offsets of each example's tokens.
        targets: {name: [n, ...]}, targets of examples, such as `label_ids`; for multiple choice, one value or one per
            choice. Empty if there are no targets, or only targets of tokens.
        pad_id: id of [PAD], used for padding.
        origin: the origins of tokens, which the task requires to decode outputs.
        truncation: counts of truncated tokens. If None, nothing is ever truncated.
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
        """Returns a short hash of the training inputs: tokens, segments, targets and their order."""
        digest = hashlib.sha256()
        for name, values in sorted({**self.features, **self.targets, "splits": self.splits}.items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:16]

    @property
    def lengths(self):
        """Returns the number of tokens of each example, int64 [n]."""
        return np.diff(self.splits)

    @property
    def row_counts(self):
        """Returns the number of sequences of each example, int64 [n]."""
        return np.ones(len(self), np.int64)

    @property
    def longest_rows(self):
        """Returns the length of each example's longest sequence, int64 [n]."""
        return self.lengths

    def input_specs(self, batch_size: int) -> dict[str, tf.TensorSpec]:
        """Returns {name: TensorSpec} for the result of `inputs`, of any width."""
        return {name: tf.TensorSpec([batch_size, None], tf.int32) for name in (*self.features, "input_mask")}

    def inputs(self, chosen: np.ndarray, width) -> dict[str, np.ndarray]:
        """Returns a batch's inputs, int32 [B, S].

        Args:
            chosen: int [B], indices of examples; -1 is a padding sequence, in which [CLS] is not masked, so that no
                sequence attends to nothing.
            width: function from lengths, int [B], to S.
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
    """Returns the default number of batches sorted together: 4 for a small data set, 50 for a large one."""
    share = num_examples // (batch_size * POOLS_OF_EPOCH)
    return min(MOST_POOL_BATCHES, max(LEAST_POOL_BATCHES, share))


def training_order(lengths, batch_size, num_steps, seed, by_length=True, pool_batches=None):
    """Determines the examples of each step: a pure function of its arguments, so that runs can be resumed.

    Examples are reshuffled each epoch, and epochs follow each other without a gap. With `by_length`, each pool of
    batches (an epoch if that is less) is sorted by length and split into batches, and these are shuffled.

    Args:
        lengths: lengths of the examples, int [n].
        batch_size: examples per step.
        num_steps: number of steps of the whole run.
        seed: of the shuffling.
        by_length: whether to group examples of similar length; if False, batches are in plain random order.
        pool_batches: number of batches per pool, at least 1, which gives the same batches as without `by_length`. If
            None, `usual_pool` decides.

    Returns:
        int64 [num_steps, batch_size], indices of examples.
    """
    needed, n = num_steps * batch_size, len(lengths)
    epochs = [np.random.default_rng([seed, epoch]).permutation(n) for epoch in range(-(-needed // n))]
    order = np.concatenate(epochs)[:needed].reshape(num_steps, batch_size)
    if not by_length:
        return order
    pool_batches = pool_batches or usual_pool(n, batch_size)
    size = min(pool_batches, max(1, n // batch_size))  # at most an epoch, so that a batch has no duplicate examples
    pools = []
    for pool, start in enumerate(range(0, num_steps, size)):
        examples = order[start : start + size].reshape(-1)
        examples = examples[np.argsort(lengths[examples], kind="stable")].reshape(-1, batch_size)
        pools.append(np.random.default_rng([seed, pool, 1]).permutation(examples))
    return np.concatenate(pools)


def scoring_order(lengths, batch_size, by_length=True):
    """Determines the batches of an evaluation: each example once, with the last batch padded with -1.

    Returns:
        int64 [steps, batch_size], indices of examples or -1. With `by_length`, the longest come first, so that a run
        that does not fit into memory fails at once.
    """
    order = np.argsort(-lengths, kind="stable") if by_length else np.arange(len(lengths))
    missing = -len(order) % batch_size
    return np.concatenate([order, np.full(missing, -1)]).reshape(-1, batch_size)


def width_of(lengths, max_seq_length, width_step=WIDTH_STEP):
    """Returns the padded width of a batch with these lengths: the next multiple of the step, or max_seq_length."""
    return min(-(-int(max(lengths)) // width_step) * width_step, max_seq_length)


def build_batches(examples, order, max_seq_length, by_length=True, width_step=WIDTH_STEP):
    """Creates the batches given by `order`, padded on the right.

    Args:
        examples: a `Tokenized`, or an object with its interface, such as `windowed.Windowed`.
        order: int [steps, B]; -1 is a padding sequence, which is ignored.
        max_seq_length: the width without `by_length`, and the maximum width with it.
        by_length: whether to pad to the batch's longest example only.
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
            # 0 for padding: `start_positions` of another example may be out of range in this batch.
            chosen = {name: _zero_padding(values[rows], real) for name, values in targets.items()}
            yield {**examples.inputs(rows, width), **chosen, "is_real_example": real.astype(np.float32)}

    return without_autotune(tf.data.Dataset.from_generator(generate, output_signature=signature).prefetch(2))


def _zero_padding(values, real):
    """Returns values [B, ...] with 0 in padding sequences."""
    return np.where(real.reshape(-1, *[1] * (values.ndim - 1)), values, 0).astype(values.dtype)
