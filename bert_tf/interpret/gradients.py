"""Integrated gradients (Sundararajan, Taly and Yan 2017): which part of a score each input is to be thanked for.

Eager, and in a graph that is exported.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

GAP = 0.01  # that is small enough
_FIRST, _MOST = 32, 512  # steps: so many at first, doubled while the gap is greater
_TOKENS = 2048  # of all rows that are computed at a time


class Integral(NamedTuple):
    """Attributions of one row, tensors.

    Attributes:
        values: float32 [S, E], of each number of the vectors.
        score, baseline_score: float32 [], of the row, and of the baseline.
        gap: float64 [], how far the sum of `values` is from the difference of the scores, as a share of that
            difference.
        steps: int32 [], points of the straight way from baseline to row at which the gradient was taken.
    """

    values: tf.Tensor
    score: tf.Tensor
    baseline_score: tf.Tensor
    gap: tf.Tensor
    steps: tf.Tensor


def integrated_gradients(score: Callable, vectors: tf.Tensor, baseline: tf.Tensor, steps: int) -> Integral:
    """Integrates a score's gradient along the straight way from a baseline to a row, by Gauss and Legendre's points.

    Args:
        score: float [B, S, E] -> float [B].
        vectors, baseline: float [1, S, E].
        steps: points.
    """
    return _integral(score, vectors, baseline, *(tf.constant(column) for column in _points(steps)))


def integrated_until_small(score: Callable, vectors: tf.Tensor, baseline: tf.Tensor) -> Integral:
    """As `integrated_gradients`, with 32 steps, doubled until the gap is at most `GAP`, 512 at most."""
    levels = [_FIRST << k for k in range((_MOST // _FIRST).bit_length())]
    nodes, shares = (tf.constant(np.concatenate(columns)) for columns in zip(*map(_points, levels), strict=True))
    zero = tf.zeros([])
    start = Integral(tf.zeros_like(vectors[0]), zero, zero, tf.constant(np.inf, tf.float64), tf.constant(_FIRST // 2))

    def is_unfinished(found):
        return (found.gap > GAP) & (found.steps < _MOST)

    def again(found):
        steps = 2 * found.steps
        own = slice(steps - _FIRST, 2 * steps - _FIRST)  # before a level there are as many points as it has, less 32
        return [_integral(score, vectors, baseline, nodes[own], shares[own])]

    return tf.while_loop(is_unfinished, again, [start], parallel_iterations=1)[0]


def _points(steps):
    """Returns float64 [steps] twice: where on the way the gradient is taken, from 0 to 1, and its share in the mean."""
    nodes, shares = np.polynomial.legendre.leggauss(steps)
    return (1 + nodes) / 2, shares / 2


def _integral(score, vectors, baseline, nodes, shares):
    way, steps = vectors - baseline, tf.size(nodes)
    most = tf.maximum(1, _TOKENS // tf.shape(way)[1])

    def add(start, total):
        own = slice(start, start + most)
        points = baseline + tf.cast(nodes[own], way.dtype)[:, tf.newaxis, tf.newaxis] * way
        gradients = tf.cast(_gradients(score, points), tf.float64)
        return start + most, total + tf.reduce_sum(shares[own, tf.newaxis, tf.newaxis] * gradients, 0)

    first = tf.constant(0), tf.zeros_like(way[0], tf.float64)
    _, total = tf.while_loop(lambda start, total: start < steps, add, first, parallel_iterations=1)
    values = total * tf.cast(way[0], tf.float64)
    ends = tf.unstack(score(tf.concat([vectors, baseline], 0)), 2)
    difference = tf.cast(ends[0] - ends[1], tf.float64)
    missing = tf.abs(tf.reduce_sum(values) - difference)
    gap = tf.where(missing > 0, missing / tf.abs(difference), 0.0)  # infinite where there is no difference
    return Integral(tf.cast(values, tf.float32), *ends, gap, steps)


def _gradients(score, points):
    with tf.GradientTape() as tape:
        tape.watch(points)
        total = tf.reduce_sum(score(points))
    return tape.gradient(total, points)
