"""Cosines of vectors, and vectors of length 1."""

import numpy as np
import pytest

from bert_tf.evaluation.cosine_similarity import cosines, unit


def test_cosines_and_units():
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0, 0]]
    for dtype in (np.float16, np.float32, np.float64):
        limits = np.finfo(dtype)
        sizes = (limits.max / 8, np.sqrt(limits.max), 1, np.sqrt(limits.tiny), limits.tiny, limits.smallest_subnormal)
        rows = np.array([[3 * size, -4 * size] for size in sizes], dtype)
        expected = np.broadcast_to([0.6, -0.8], rows.shape)
        np.testing.assert_allclose(unit(rows), expected, rtol=4 * float(limits.eps))
        np.testing.assert_array_equal(unit(rows)[2], unit(rows[2:3])[0])  # whatever is beside it
        np.testing.assert_allclose(cosines(rows, rows[::-1]), 1, rtol=8 * float(limits.eps))
    assert cosines(np.array([[2.0, 0.0]]), np.array([[1.0, 1.0]])) == pytest.approx([0.5**0.5])
