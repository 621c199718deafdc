"""Integrated gradients (Sundararajan, Taly and Yan 2017): which part of a score each input is to be thanked for."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

_TOKENS = 2048  # of all rows that are computed at a time


class Integral(NamedTuple):
    """Attributions of one row.

    Attributes:
        values: float32 [S, E], of each number of the vectors.
        score, baseline_score: of the row, and of the baseline.
        gap: how far the sum of `values` is from the difference of the scores, as a share of that difference.
        steps: points of the straight way from baseline to row at which the gradient was taken.
    """

    values: np.ndarray
    score: float
    baseline_score: float
    gap: float
    steps: int


def integrated_gradients(score: Callable, vectors: tf.Tensor, baseline: tf.Tensor, steps: int) -> Integral:
    """Integrates a score's gradient along the straight way from a baseline to a row, by Gauss and Legendre's points.

    Args:
        score: float [B, S, E] -> float [B].
        vectors, baseline: float [1, S, E].
        steps: points.
    """
    nodes, shares = np.polynomial.legendre.leggauss(steps)
    way = vectors - baseline
    total = np.zeros(way.shape[1:], np.float64)
    most = max(1, _TOKENS // way.shape[1])
    for start in range(0, steps, most):
        places = (1 + nodes[start : start + most, np.newaxis, np.newaxis]) / 2
        gradients = _gradients(score, baseline + tf.cast(places, way.dtype) * way)
        total += np.tensordot(shares[start : start + most] / 2, gradients.astype(np.float64), 1)
    values = total * np.asarray(way[0], np.float64)
    ends = [float(score(each)[0]) for each in (vectors, baseline)]
    difference = ends[0] - ends[1]
    missing = abs(values.sum() - difference)
    gap = missing / abs(difference) if difference else float("inf") if missing else 0.0
    return Integral(values.astype(np.float32), *ends, gap, steps)


def _gradients(score, points):
    with tf.GradientTape() as tape:
        tape.watch(points)
        total = tf.reduce_sum(score(points))
    return tape.gradient(total, points).numpy()
