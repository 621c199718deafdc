"""Tokenized examples in memory, and datasets of their padded batches."""

import dataclasses
import hashlib
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.data.features import FEATURES
from bert_tf.data.truncation import Truncation


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset with a fixed number of threads and buffers.

    TensorFlow 2.21's autotuning thread sleeps for up to a minute at a time, and releasing an iterator may have to wait
    for it: runs were delayed that long after their last step.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


WIDTH_STEP = 8  # widths are multiples of this: faster in oneDNN's kernels, and fewer shapes


@dataclasses.dataclass
class EncodedDataset:
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


def width_of(lengths, max_seq_length, width_step=WIDTH_STEP):
    """Returns the padded width of a batch with these lengths: the next multiple of the step, or max_seq_length."""
    return min(-(-int(max(lengths)) // width_step) * width_step, max_seq_length)


def build_batches(examples, order, max_seq_length, by_length=True, width_step=WIDTH_STEP):
    """Creates the batches given by `order`, padded on the right.

    Args:
        examples: a `EncodedDataset`, or an object with its interface, such as `windowed.Windowed`.
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
