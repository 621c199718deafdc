"""Losses of sentence embeddings, by name; all are based on cosine similarities."""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

_NEVER = -1e30  # a logit whose exponential is 0


@dataclasses.dataclass(frozen=True)
class LossParameters:
    """The temperature of in-batch negatives and margin MSE, and the margin of contrastive and triplet loss."""

    temperature: float
    margin: float


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss function for sentence embeddings.

    Attributes:
        compute: embeddings float32 [B, N, D] of length 1, the batch, `LossParameters` -> the loss of each example,
            float32 [B]. Examples may have fewer than N texts; the `input_mask` of a missing one is 0.
        texts: allowed numbers of texts per example; in a file with lists of negatives there may be more.
        scores: whether it uses the pair's score, `label_values`.
        binary: whether the score must be 0 or 1.
        margins: whether the score is a teacher's margin between the second and the third text, any number.
        of_batch: whether an example's loss depends on the others in its batch.
        numbers: names of those of `LossParameters` that it reads.
    """

    compute: Callable[[tf.Tensor, Mapping[str, tf.Tensor], LossParameters], tf.Tensor]
    texts: tuple[int, ...] = (2,)
    scores: bool = False
    binary: bool = False
    margins: bool = False
    of_batch: bool = False
    numbers: tuple[str, ...] = ()

    @property
    def by_score(self) -> bool:
        """Whether evaluations correlate cosines with scores by default; otherwise they measure retrieval."""
        return self.scores and not self.margins


def _in_batch_negatives(vectors, batch, numbers):
    """Computes the cross-entropy of finding the matching text, the second, among all texts of the batch but the first.

    Filler examples and missing texts are not candidates, nor are other texts that match the same query, nor texts
    identical to the matching one. A negative that several examples of one query have counts once.
    """
    count, others = tf.shape(vectors)[0], tf.shape(vectors)[1] - 1
    candidates = tf.reshape(tf.transpose(vectors[:, 1:], [1, 0, 2]), [others * count, vectors.shape[-1]])
    logits = tf.matmul(vectors[:, 0], candidates, transpose_b=True) / numbers.temperature
    own = tf.eye(count, others * count, dtype=tf.bool)
    negatives = tf.reshape(_negatives(batch), [count, others * count])
    logits = tf.where(own | negatives, logits, _NEVER)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(count), logits)


def _negatives(batch):
    """Returns which texts of the batch, without its first ones, are negatives of each example, bool [B, N - 1, B]."""
    ids, real = batch["input_ids"], batch["is_real_example"] > 0
    # Hashes are compared in place of ids: for large batches, [B, C, S] would be the largest tensor of all.
    factors = tf.random.stateless_uniform(tf.shape(ids)[-1:], (0, 0), None, None, tf.int64)
    hashes = tf.reduce_sum(tf.cast(ids, tf.int64) * factors, -1)
    queries, matches, texts = hashes[:, 0], hashes[:, 1], tf.transpose(hashes[:, 1:])
    there = tf.transpose(tf.reduce_any(batch["input_mask"][:, 1:] > 0, -1)) & real
    places, examples = tf.range(tf.shape(texts)[0])[:, tf.newaxis], tf.range(tf.shape(texts)[1])
    same_query = queries[:, tf.newaxis] == queries
    is_match = (places == 0) & same_query[:, tf.newaxis] | (matches[:, tf.newaxis, tf.newaxis] == texts)
    earlier = same_query & real & (examples < examples[:, tf.newaxis])
    again = tf.reduce_any((texts[:, :, tf.newaxis] == texts[:, tf.newaxis]) & earlier, -1) & (places > 0)
    return (there & ~again) & ~is_match


def _cosine(vectors, batch, numbers):
    """Computes the squared difference between cosine and score."""
    return tf.square(_cosines(vectors, 1) - batch["label_values"])


def _contrastive(vectors, batch, numbers):
    """Computes the contrastive loss (Hadsell et al. 2006, equation 4) on 1 - cosine; a score of 1 is a similar pair."""
    distance, similar = 1 - _cosines(vectors, 1), batch["label_values"]
    apart = tf.square(tf.nn.relu(numbers.margin - distance))
    return 0.5 * (similar * tf.square(distance) + (1 - similar) * apart)


def _triplet(vectors, batch, numbers):
    """Computes the triplet loss: by how much the third text is less than `margin` farther away than the second."""
    return tf.nn.relu(_cosines(vectors, 2) - _cosines(vectors, 1) + numbers.margin)


def _margin_mse(vectors, batch, numbers):
    """Computes the squared difference between the margin of the cosines, divided by the temperature, and the teacher's.

    Hofstätter et al. (2020), with cosines in place of dot products.
    """
    margin = (_cosines(vectors, 1) - _cosines(vectors, 2)) / numbers.temperature
    return tf.square(margin - batch["label_values"])


def _cosines(vectors, n):
    return tf.reduce_sum(vectors[:, 0] * vectors[:, n], -1)


LOSS_FUNCTIONS = {
    "in_batch_negatives": Loss(_in_batch_negatives, texts=(2, 3), of_batch=True, numbers=("temperature",)),
    "cosine": Loss(_cosine, scores=True),
    "contrastive": Loss(_contrastive, scores=True, binary=True, numbers=("margin",)),
    "triplet": Loss(_triplet, texts=(3,), numbers=("margin",)),
    "margin_mse": Loss(_margin_mse, texts=(3,), scores=True, margins=True, numbers=("temperature",)),
}


def evaluation_by(loss: str, eval_metric: str = "auto") -> str:
    """Returns the kind of evaluation: `eval_metric`, or the one that fits a loss if it is "auto"."""
    return ("spearman" if LOSS_FUNCTIONS[loss].by_score else "retrieval") if eval_metric == "auto" else eval_metric
