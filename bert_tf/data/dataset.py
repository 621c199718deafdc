"""From tokenized examples in memory to batches: which examples go together, in which order, padded to which width."""

import dataclasses
import hashlib

import numpy as np
import tensorflow as tf

# A pool of so many batches is sorted by length: enough for batches of nearly equal lengths, and few enough that a batch
# is still a chance draw from a large part of the data.
_POOL_BATCHES = 50
WIDTH_STEP = 8  # widths are multiples of this: oneDNN's kernels like it, and there are fewer shapes


@dataclasses.dataclass
class Tokenized:
    """Examples as rows of pieces, end to end.

        input_ids    101 7592 102 101 2748 102       splits   0 3 6       two examples of three pieces

    Attributes:
        pieces: {name: int32 [all pieces]} for `input_ids` and `segment_ids`.
        splits: int64 [n + 1], where each example's pieces begin and end.
        targets: {name: [n]} such as `label_ids`; empty when there is nothing to aim at.
    """

    pieces: dict
    splits: np.ndarray
    targets: dict

    def __len__(self):
        return len(self.splits) - 1

    def fingerprint(self) -> str:
        """Returns a short hash of all that training sees: pieces, segments, targets and their order."""
        digest = hashlib.sha256()
        for name, values in sorted({**self.pieces, **self.targets, "splits": self.splits}.items()):
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:16]

    @property
    def lengths(self):
        """int64 [n]: pieces of each example."""
        return np.diff(self.splits)


def training_order(lengths, batch_size, num_steps, seed, by_length=True):
    """Decides which examples make up each step: a pure function of its arguments, so a resumed run finds its place.

    The examples come in a new random order each epoch, one epoch after the other without a gap. With `by_length` every
    pool of 50 batches (one epoch where that is less) is sorted by length, cut into batches, and these are shuffled.

    Args:
        lengths: int [n].
        batch_size: examples a step.
        num_steps: steps of the whole run.
        seed: of the shuffling.
        by_length: False: batches are the plain random order.

    Returns:
        int64 [num_steps, batch_size], indices of examples.
    """
    needed, n = num_steps * batch_size, len(lengths)
    epochs = [np.random.default_rng([seed, epoch]).permutation(n) for epoch in range(-(-needed // n))]
    order = np.concatenate(epochs)[:needed].reshape(num_steps, batch_size)
    if not by_length:
        return order
    size = min(_POOL_BATCHES, max(1, n // batch_size))  # an epoch at most, lest an example meet itself in a batch
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


def batches(tokenized, order, max_seq_length, by_length=True, width_step=WIDTH_STEP):
    """Builds the batches that `order` names, padded on the right.

    Args:
        tokenized: the examples.
        order: int [steps, B]; -1 stands for a row of padding that counts for nothing.
        max_seq_length: the width without `by_length`, and the greatest one with it.
        by_length: pad to the batch's longest example only.
        width_step: widths are multiples of this.

    Returns:
        A tf.data.Dataset of dicts: `input_ids`, `input_mask`, `segment_ids` int32 [B, width]; the targets and
        `is_real_example` [B].
    """
    targets = {name: values[:0] for name, values in tokenized.targets.items()}
    signature = {
        **{
            name: tf.TensorSpec([order.shape[1], None], tf.int32) for name in ("input_ids", "input_mask", "segment_ids")
        },
        **{name: tf.TensorSpec([order.shape[1], *values.shape[1:]], values.dtype) for name, values in targets.items()},
        "is_real_example": tf.TensorSpec([order.shape[1]], tf.float32),
    }

    def generate():
        for rows in order:
            real = rows >= 0
            lengths = np.where(real, tokenized.lengths[rows], 1)
            width = width_of(lengths, max_seq_length, width_step) if by_length else max_seq_length
            yield _batch(tokenized, rows, real, lengths, width)

    return tf.data.Dataset.from_generator(generate, output_signature=signature).prefetch(2)


def _batch(tokenized, rows, real, lengths, width):
    """One batch as numpy arrays. A row of padding keeps one token, [CLS]'s place, so that no row attends to nothing."""
    columns = np.arange(width)
    mask = columns < lengths[:, None]
    places = np.where(mask & real[:, None], tokenized.splits[:-1][rows][:, None] + columns, 0)
    batch = {name: (flat[places] * (mask & real[:, None])).astype(np.int32) for name, flat in tokenized.pieces.items()}
    batch["input_mask"] = mask.astype(np.int32)
    batch.update({name: values[rows] for name, values in tokenized.targets.items()})
    batch["is_real_example"] = real.astype(np.float32)
    return batch
