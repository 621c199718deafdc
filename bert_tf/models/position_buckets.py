"""Buckets of relative positions: which distances share an embedding (DeBERTa, version 2) or a bias (T5, MPNet).

Computed in float32, because rounding can decide between two buckets.
"""

import numpy as np

_MOST_BIASED = 128  # the distance from which on all share a bias, in T5 and MPNet
_VECTOR = 16  # at least as many numbers as TensorFlow computes at a time


def position_buckets(length: int, buckets: int | None, most: int) -> np.ndarray:
    """Returns the bucket of each distance 0, 1, ..., int32 [length], computed as in Transformers.

    Args:
        length: number of distances.
        buckets: `EncoderConfig.position_buckets`. If None, each distance has a bucket of its own.
        most: `EncoderConfig.most_relative_positions`.
    """
    distance = np.arange(length, dtype=np.float32)
    if buckets is None:
        return distance.astype(np.int32)
    half = buckets // 2
    scale = np.log(np.float32((most - 1) / half))
    return _join(distance, half, np.log(np.maximum(distance, 1) / np.float32(half)) / scale * np.float32(half - 1))


def keras_hub_buckets(length: int, buckets: int, most: int) -> np.ndarray:
    """Returns the same, computed as in KerasHub, which multiplies before it divides.

    As in KerasHub, logarithms are those of TensorFlow, which computes them differently for vectors and for single
    numbers.
    """
    import tensorflow as tf  # here, because other models' configurations are read without it

    half = np.float32(buckets // 2)
    distance = np.arange(-(-length // _VECTOR) * _VECTOR, dtype=np.float32)
    scale = tf.math.log(np.float32(most - 1) / half).numpy()
    shares = tf.math.log(np.maximum(distance, 1) / half).numpy() * (half - 1) / scale
    return _join(distance, half, shares)[:length]


def two_sided_buckets(length: int, buckets: int) -> np.ndarray:
    """Returns the bucket of each distance -(length - 1), ..., length - 1, int32 [2 length - 1], as in Transformers.

    A distance is the position of the query minus that of the key. Keys after the query have the second half of the
    buckets. Of each half, the first half holds one distance each, and the others grow logarithmically up to 128.

    Args:
        length: number of distances of each sign, including 0.
        buckets: `EncoderConfig.relative_attention_num_buckets`.
    """
    half = buckets // 2
    exact = half // 2
    distance = np.arange(length, dtype=np.float32)
    share = np.log(np.maximum(distance, 1) / np.float32(exact)) / np.float32(np.log(_MOST_BIASED / exact))
    grown = exact + (share * np.float32(half - exact)).astype(np.int32)
    bucket = np.where(distance < exact, distance, np.minimum(grown, half - 1)).astype(np.int32)
    return np.concatenate([bucket[:0:-1] + half, bucket])


def _join(distance, half, shares):
    return np.where(distance <= half, distance, np.ceil(shares) + half).astype(np.int32)
