"""What training on pairs aims at, by name; all from the cosines of vectors."""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

_NEVER = -1e30  # a logit whose exponential is 0


@dataclasses.dataclass(frozen=True)
class Numbers:
    """What the losses are set by: `temperature` and `margin`."""

    temperature: float
    margin: float


@dataclasses.dataclass(frozen=True)
class Loss:
    """One loss.

    Attributes:
        compute: vectors float32 [B, N, D] of length 1, the batch, `Numbers` -> the loss of each example, float32 [B].
        texts: how many an example may have.
        scores: whether it reads the pair's score, `label_values`.
        binary: whether the score must be 0 or 1.
        of_batch: whether an example's loss depends on the others of its batch.
    """

    compute: Callable[[tf.Tensor, Mapping[str, tf.Tensor], Numbers], tf.Tensor]
    texts: tuple[int, ...] = (2,)
    scores: bool = False
    binary: bool = False
    of_batch: bool = False


def _in_batch_negatives(vectors, batch, numbers):
    """Cross-entropy of finding the own second text among all second and third texts of the batch.

    What only fills the batch up is no candidate, nor is a text that is the same as the one to be found.
    """
    count, others = tf.shape(vectors)[0], tf.shape(vectors)[1] - 1
    ids = batch["input_ids"]
    candidates = tf.reshape(tf.transpose(vectors[:, 1:], [1, 0, 2]), [others * count, vectors.shape[-1]])
    candidate_ids = tf.reshape(tf.transpose(ids[:, 1:], [1, 0, 2]), [others * count, -1])
    logits = tf.matmul(vectors[:, 0], candidates, transpose_b=True) / numbers.temperature
    same = tf.reduce_all(ids[:, 1, tf.newaxis] == candidate_ids[tf.newaxis], -1)
    own = tf.eye(count, others * count, dtype=tf.bool)
    real = tf.tile(batch["is_real_example"] > 0, [others])[tf.newaxis]
    logits = tf.where(own | (real & ~same), logits, _NEVER)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(count), logits)


def _cosine(vectors, batch, numbers):
    """The square of how far the cosine is from the score."""
    return tf.square(_cosines(vectors, 1) - batch["label_values"])


def _contrastive(vectors, batch, numbers):
    """Hadsell, Chopra and LeCun 2006, equation 4, with 1 - cosine for the distance; a score of 1 is a similar pair."""
    distance, similar = 1 - _cosines(vectors, 1), batch["label_values"]
    apart = tf.square(tf.nn.relu(numbers.margin - distance))
    return 0.5 * (similar * tf.square(distance) + (1 - similar) * apart)


def _triplet(vectors, batch, numbers):
    """By how much the third text is not `margin` farther than the second, in cosines."""
    return tf.nn.relu(_cosines(vectors, 2) - _cosines(vectors, 1) + numbers.margin)


def _cosines(vectors, n):
    return tf.reduce_sum(vectors[:, 0] * vectors[:, n], -1)


LOSSES = {
    "in_batch_negatives": Loss(_in_batch_negatives, texts=(2, 3), of_batch=True),
    "cosine": Loss(_cosine, scores=True),
    "contrastive": Loss(_contrastive, scores=True, binary=True),
    "triplet": Loss(_triplet, texts=(3,)),
}
