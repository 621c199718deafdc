"""Replacing tokens: ids at the masked positions, and ids sampled from a model's logits."""

import tensorflow as tf

_WIDTH = 128  # size of the vocabulary blocks whose probabilities are summed before searching within one


def with_ids_at(positions, weights, others, ids):
    """Returns `ids` with `others` inserted at the masked positions, int32 [B, S].

    Args:
        positions: int32 [B, M].
        weights: float32 [B, M]; 0 for unused positions.
        others, ids: int32 [B, M] and [B, S].
    """
    # Padding has position 0 and weight 0: it must not write there.
    real = tf.cast(weights > 0, tf.int32)[:, :, tf.newaxis]
    at = tf.one_hot(positions, tf.shape(ids)[1], dtype=tf.int32) * real  # [B, M, S]
    there = tf.reduce_sum(at * others[:, :, tf.newaxis], 1)
    return tf.where(tf.reduce_sum(at, 1) > 0, there, ids)


def sampled_ids(logits, draws):
    """Samples an id from each softmax: the first one whose cumulative probability exceeds the random number.

    Only `draws` is random, so that an example gets the same ids wherever it is in a batch, and no noise is needed per
    vocabulary token. The block of tokens is found first, then the token in it: a single sum over all of them would
    round small probabilities away.

    Args:
        logits: float32 [B, M, V]; there is no gradient.
        draws: float32 [B, M], uniform from 0 to below 1.

    Returns:
        int32 [B, M], from 0 to V - 1.
    """
    logits = tf.stop_gradient(logits)
    weights = tf.exp(logits - tf.reduce_max(logits, -1, keepdims=True))
    V = weights.shape[-1]
    padded = tf.pad(weights, [[0, 0], [0, 0], [0, -V % _WIDTH]])
    blocks = tf.reshape(padded, tf.concat([tf.shape(weights)[:-1], [-1, _WIDTH]], 0))
    block, rest = _place(tf.reduce_sum(blocks, -1), draws * tf.reduce_sum(blocks, [-2, -1]))
    inside, _ = _place(tf.gather(blocks, block, batch_dims=2), rest)
    return tf.minimum(block * _WIDTH + inside, V - 1)


def _place(weights, heights):
    """Returns the index at which the cumulative weights [..., n] exceed heights [...], and by how much."""
    tops = tf.cumsum(weights, axis=-1)
    index = tf.reduce_sum(tf.cast(tops <= heights[..., tf.newaxis], tf.int32), -1)
    index = tf.minimum(index, tf.shape(weights)[-1] - 1)  # for a height that was rounded up to the total
    foot = tf.gather(tops - weights, index, batch_dims=heights.shape.rank)
    return index, heights - foot
