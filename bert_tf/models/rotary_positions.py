"""Rotary positions of queries and keys (Su et al. 2021, arXiv 2104.09864, section 3.2.2)."""

import numpy as np
import tensorflow as tf


def rotation(positions, width: int, base: float, ntk_factor: float | None = None):
    """Returns the cosines and sines of rotary positions, float32 [B, 1, S, width / 2] each.

    Args:
        positions: int32 [B, S]; B may be 1.
        width: width of a head.
        base: the i-th pair of numbers is rotated by position / base^(2 i / width).
        ntk_factor: `EncoderConfig.rope_ntk_factor` f: the angle is divided by f^(2 (i + 1) / width).
    """
    # In NumPy's float32, as in Transformers: an error in a wave counts as often as there are tokens.
    waves = 1 / np.float32(base * (ntk_factor or 1)) ** (np.arange(0, width, 2, dtype=np.float32) / np.float32(width))
    if ntk_factor:
        waves /= np.float32(ntk_factor ** (2 / width))
    angles = tf.cast(positions, tf.float32)[:, tf.newaxis, :, tf.newaxis] * waves
    return tf.cos(angles), tf.sin(angles)


def rotate(x, cos, sin):
    """Rotates the pairs (i, i + D / 2) of queries or keys, float [B, A, S, D], by `rotation`."""
    a, b = tf.split(tf.cast(x, tf.float32), 2, -1)
    return tf.cast(tf.concat([a * cos - b * sin, b * cos + a * sin], -1), x.dtype)
