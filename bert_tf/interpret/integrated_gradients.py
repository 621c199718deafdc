"""Integrated gradients (Sundararajan, Taly and Yan 2017): the contribution of each input to a logit.

They run eagerly and in exported graphs.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

GAP = 0.01  # small enough
_FIRST, _MOST = 32, 512  # steps: so many at first, doubled while the gap is greater
_TOKENS = 2048  # over all rows that are computed at a time


class Integral(NamedTuple):
    """Attributions of one sequence, as tensors.

    Attributes:
        values: float32 [S, E], for each element of the embeddings.
        score, baseline_score: float32 [], of the sequence and of the baseline.
        gap: float64 [], completeness gap: the sum of `values` minus the difference of the scores, relative to that
            difference.
        steps: int32 [], number of points on the straight line from baseline to sequence at which the gradient was
            computed.
    """

    values: tf.Tensor
    score: tf.Tensor
    baseline_score: tf.Tensor
    gap: tf.Tensor
    steps: tf.Tensor


def integrated_gradients(score: Callable, vectors: tf.Tensor, baseline: tf.Tensor, steps: int) -> Integral:
    """Integrates a score's gradient along the straight line from a baseline to a sequence (Gauss-Legendre quadrature).

    Args:
        score: float [B, S, E] -> float [B].
        vectors, baseline: float [1, S, E].
        steps: number of points.
    """
    return _integral(score, vectors, baseline, *(tf.constant(column) for column in _quadrature(steps)))


def integrated_until_small(score: Callable, vectors: tf.Tensor, baseline: tf.Tensor) -> Integral:
    """Integrates as `integrated_gradients` does, with 32 steps, doubled until the gap is at most `GAP`, 512 at most."""
    levels = [_FIRST << k for k in range((_MOST // _FIRST).bit_length())]
    nodes, shares = (tf.constant(np.concatenate(columns)) for columns in zip(*map(_quadrature, levels), strict=True))
    zero = tf.zeros([])
    start = Integral(tf.zeros_like(vectors[0]), zero, zero, tf.constant(np.inf, tf.float64), tf.constant(_FIRST // 2))

    def is_unfinished(found):
        return (found.gap > GAP) & (found.steps < _MOST)

    def again(found):
        steps = 2 * found.steps
        own = slice(steps - _FIRST, 2 * steps - _FIRST)  # the points before a level are as many as its own, minus 32
        return [_integral(score, vectors, baseline, nodes[own], shares[own])]

    return tf.while_loop(is_unfinished, again, [start], parallel_iterations=1)[0]


@functools.cache
def _quadrature(steps):
    """Returns float64 [steps] twice: the positions of the points, from 0 to 1, and their weights."""
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
    gap = tf.where(missing > 0, missing / tf.abs(difference), 0.0)  # infinite if there is no difference
    return Integral(tf.cast(values, tf.float32), *ends, gap, steps)


def _gradients(score, points):
    with tf.GradientTape() as tape:
        tape.watch(points)
        total = tf.reduce_sum(score(points))
    return tape.gradient(total, points)
