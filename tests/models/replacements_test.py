"""Pieces put into rows, and pieces drawn from scores: against the same in float64, and against the law."""

import numpy as np
import tensorflow as tf

from bert_tf.models.replacements import sampled_ids, with_ids_at


def test_ids_at_the_masked_places_and_none_where_there_is_padding():
    ids, others = np.array([[2, 4, 6, 3], [2, 7, 8, 3]], np.int32), np.array([[9, 11], [12, 0]], np.int32)
    positions, weights = np.array([[1, 3], [2, 0]], np.int32), np.array([[1, 1], [1, 0]], np.float32)
    assert with_ids_at(positions, weights, others, ids).numpy().tolist() == [[2, 9, 6, 11], [2, 7, 12, 3]]


def _in_float64(logits, draws):
    weights = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    tops = weights.cumsum(-1) / weights.sum(-1, keepdims=True)
    return (tops <= draws[..., None]).sum(-1), np.abs(tops - draws[..., None]).min(-1)


def test_the_piece_up_to_which_probabilities_add_up_to_the_number_drawn():
    rng = np.random.default_rng(0)
    logits = (3 * rng.standard_normal((8, 50, 300))).astype(np.float32)  # of more than two blocks, the last not whole
    draws = rng.random((8, 50)).astype(np.float32)
    expected, distance = _in_float64(logits, draws)
    clear = distance > 1e-6
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(sampled_ids(logits, draws).numpy()[clear], expected[clear])


def test_the_least_and_the_greatest_draw_give_pieces_that_can_be():
    logits = np.full((1, 1, 300), -np.inf, np.float32)
    logits[..., [7, 140, 260]] = 0.0
    almost_one = np.nextafter(np.float32(1), np.float32(0))
    for draw, piece in ((0.0, 7), (0.5, 140), (almost_one, 260)):
        assert sampled_ids(logits, np.array([[draw]], np.float32)).numpy() == [[piece]]


def test_pieces_come_as_often_as_they_should():
    shares = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625, 0], np.float32)
    with np.errstate(divide="ignore"):
        logits = tf.tile(np.log(shares)[None, None], [1, 100_000, 1])
    draws = tf.random.stateless_uniform([1, 100_000], [1, 1])
    found = np.bincount(sampled_ids(logits, draws).numpy()[0], minlength=6) / 100_000
    np.testing.assert_allclose(found, shares, atol=0.005)
    assert not found[5]


def test_there_is_no_gradient():
    logits = tf.Variable(tf.zeros([1, 2, 5]))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.cast(sampled_ids(logits, tf.fill([1, 2], 0.5)), tf.float32))
    assert tape.gradient(total, logits) is None
