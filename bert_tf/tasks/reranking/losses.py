"""Losses of a reranker by name.

Each maps logits float32 [B, N], relevances float32 [B, N] from 0 up, and which documents exist, bool [B, N], to the
loss of each query, float32 [B].
"""

import tensorflow as tf


def _binary_cross_entropy(logits, relevances, there):
    """Computes the mean cross-entropy of the decisions whether each document is relevant."""
    losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.minimum(relevances, 1.0), logits)
    return _mean(losses, there, [-1])


def _pairwise(logits, relevances, there):
    """Computes RankNet's loss (Burges et al. 2005): the mean over pairs of log(1 + e^(b - a)), with a more relevant."""
    pairs = there[:, :, tf.newaxis] & there[:, tf.newaxis, :]
    pairs &= relevances[:, :, tf.newaxis] > relevances[:, tf.newaxis, :]
    return _mean(tf.nn.softplus(logits[:, tf.newaxis, :] - logits[:, :, tf.newaxis]), pairs, [-2, -1])


def _listwise_softmax(logits, relevances, there):
    """Computes ListNet's loss (Cao et al. 2007): the cross-entropy of the softmax over the documents; the target is
    their share of the relevance."""
    target = tf.math.divide_no_nan(relevances, tf.reduce_sum(relevances, -1, keepdims=True))
    return tf.nn.softmax_cross_entropy_with_logits(target, logits)


def _mean(losses, where, axes):
    counts = tf.reduce_sum(tf.cast(where, tf.float32), axes)
    return tf.math.divide_no_nan(tf.reduce_sum(tf.where(where, losses, 0.0), axes), counts)


LOSS_FUNCTIONS = {
    "binary_cross_entropy": _binary_cross_entropy,
    "pairwise": _pairwise,
    "listwise_softmax": _listwise_softmax,
}
