"""Vectors of tokens from their neighbors."""

import numpy as np
import pytest

from bert_tf.pretraining import neighbor_vectors
from bert_tf.pretraining.neighbor_vectors import Neighbors, find_frequent


def test_pairs_count_by_their_distance():
    counted = Neighbors(7, np.array([3, 4]), window=2)
    counted.add(np.array([[2, 3, 5, 4], [6, 6, 6, 3]]))
    expected = np.zeros((7, 2))
    expected[2] = [1, 0]  # the 4 is three places away
    expected[3] = [0, 1 / 2]
    expected[4] = [1 / 2, 0]
    expected[5] = [1, 1]
    expected[6] = [1 + 1 / 2, 0]
    np.testing.assert_allclose(counted.counts, expected)


def test_the_vectors_are_the_factors_of_the_information():
    rng = np.random.default_rng(0)
    rows = rng.choice(12, (800, 16), p=np.arange(3, 15) / 102)
    counted = Neighbors(12, np.arange(12), window=1)
    counted.add(rows)
    counts = counted.counts.astype(np.float64)
    near = counts.sum(0) ** 0.75
    assert counts.all()
    information = np.maximum(np.log(counts / (counts.sum(1, keepdims=True) * near / near.sum())), 0)
    left, values, _ = np.linalg.svd(information)
    true = left[:, :4] * np.sqrt(values[:4])
    vectors = counted.vectors(4)
    cosines = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (vectors, true)]
    np.testing.assert_allclose(cosines[0] @ cosines[0].T, cosines[1] @ cosines[1].T, atol=1e-4)
    np.testing.assert_allclose(np.mean(vectors**2, 1), 1, rtol=1e-5)
    assert vectors.dtype == np.float32 and np.array_equal(vectors, counted.vectors(4))


def test_pieces_of_one_kind_come_together():
    """Two words of each of 4 kinds stand in the same places, never beside each other."""
    rng = np.random.default_rng(0)
    kinds = rng.permuted(np.tile(np.arange(4), (400, 1)), axis=1)
    frames = np.repeat(10 + kinds, 2, axis=1)
    frames[:, 1::2] = 2 * kinds + rng.integers(0, 2, kinds.shape)
    counted = Neighbors(20, find_frequent(np.bincount(frames.ravel(), minlength=20), ()), window=1)
    counted.add(frames)
    vectors = counted.vectors(6)
    assert not vectors[15:].any()  # never seen
    unit = vectors[:8] / np.linalg.norm(vectors[:8], axis=1, keepdims=True)
    near = np.argmax(unit @ unit.T - 2 * np.eye(8), axis=1)
    np.testing.assert_array_equal(near, np.arange(8) ^ 1)


def test_neighbours_are_the_most_frequent_without_special_pieces(monkeypatch):
    monkeypatch.setattr(neighbor_vectors, "_NEIGHBOURS", 3)
    assert find_frequent(np.array([90, 2, 5, 0, 2, 1]), [0]).tolist() == [2, 1, 4]
    with pytest.raises(ValueError, match="neighbor embeddings must be at most .* 3; got 4; use more text"):
        Neighbors(6, np.array([2, 1, 4])).vectors(4)
