"""Pieces that are put into rows: ids at the masked places, and ids drawn from a model's own scores."""

import tensorflow as tf

_WIDTH = 128  # pieces of the vocabulary that are added up before one of them is looked for


def with_ids_at(positions, weights, others, ids):
    """Returns `ids` with `others` in the masked places, int32 [B, S].

    Args:
        positions: int32 [B, M], the places.
        weights: float32 [B, M]; where it is 0, there is no such place.
        others, ids: int32 [B, M] and [B, S].
    """
    # Padding points at place 0 with weight 0: it must put nothing there.
    real = tf.cast(weights > 0, tf.int32)[:, :, tf.newaxis]
    at = tf.one_hot(positions, tf.shape(ids)[1], dtype=tf.int32) * real  # [B, M, S]
    there = tf.reduce_sum(at * others[:, :, tf.newaxis], 1)
    return tf.where(tf.reduce_sum(at, 1) > 0, there, ids)


def sampled_ids(logits, draws):
    """Draws an id from each softmax: the first up to which the probabilities add up to more than the number drawn.

    What is random is `draws` alone, so that an example gets the same ids in whatever part of a batch it stands, and no
    noise is needed for each piece of the vocabulary. First the block of pieces is found, then the piece in it: a sum
    over all of them would round small probabilities away.

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
    """Returns where [..., n] weights, put one upon the other, reach above heights [...], and how far above its foot."""
    tops = tf.cumsum(weights, axis=-1)
    place = tf.reduce_sum(tf.cast(tops <= heights[..., tf.newaxis], tf.int32), -1)
    place = tf.minimum(place, tf.shape(weights)[-1] - 1)  # of a height that was rounded up to the whole
    foot = tf.gather(tops - weights, place, batch_dims=heights.shape.rank)
    return place, heights - foot
