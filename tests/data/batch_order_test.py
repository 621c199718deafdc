"""Which examples go together, in which order."""

import numpy as np
import pytest

from bert_tf.data import batch_order


def test_each_epoch_shuffles_again_and_has_every_example_once():
    order = batch_order.training_order(np.ones(10, int), batch_size=4, num_steps=7, seed=1, by_length=False)
    assert order.shape == (7, 4)
    first, second = order.reshape(-1)[:10], order.reshape(-1)[10:20]  # epochs follow without a gap
    assert sorted(first) == sorted(second) == list(range(10))
    assert first.tolist() != second.tolist() != list(range(10))
    assert len(set(order.reshape(-1)[20:])) == 8


def test_training_order_is_a_function_of_its_arguments():
    lengths = np.random.default_rng(0).integers(3, 60, 700)
    order = batch_order.training_order(lengths, 8, 300, seed=3)
    assert (order == batch_order.training_order(lengths, 8, 300, seed=3)).all()
    assert (order != batch_order.training_order(lengths, 8, 300, seed=4)).any()


@pytest.mark.parametrize("by_length", [False, True])
def test_an_epoch_of_whole_batches_has_every_example_once(by_length):
    lengths = np.random.default_rng(0).integers(3, 60, 96)
    order = batch_order.training_order(lengths, 8, 36, seed=0, by_length=by_length)  # 3 epochs of 12 batches
    for epoch in order.reshape(3, -1):
        assert sorted(epoch) == list(range(96))


def test_batches_by_length_hold_near_lengths_and_come_in_chance_order():
    lengths = np.random.default_rng(0).integers(3, 60, 8 * 100)
    order = batch_order.training_order(lengths, 8, 100, seed=0, by_length=True, pool_batches=50)
    plain = batch_order.training_order(lengths, 8, 100, seed=0, by_length=False)
    for pool in (slice(0, 50), slice(50, 100)):  # sorting and shuffling stay inside a pool of 50 batches
        assert sorted(order[pool].reshape(-1)) == sorted(plain[pool].reshape(-1))
    assert np.ptp(lengths[order], axis=1).max() <= 6 < np.ptp(lengths[plain], axis=1).mean()
    longest = lengths[order].max(1)
    assert np.abs(np.diff(longest)).mean() > 10  # sorted batches would differ by about 1


def test_smaller_pools_make_batches_more_by_chance():
    lengths = np.random.default_rng(0).integers(3, 60, 8 * 100)
    plain = batch_order.training_order(lengths, 8, 100, seed=0, by_length=False)
    orders = {n: batch_order.training_order(lengths, 8, 100, seed=0, pool_batches=n) for n in (1, 4, 50)}
    assert (np.sort(orders[1]) == np.sort(plain)).all()  # each batch holds what chance put there
    assert (orders[4] == batch_order.training_order(lengths, 8, 100, seed=0)).all()
    for start in range(0, 100, 4):
        assert sorted(orders[4][start : start + 4].reshape(-1)) == sorted(plain[start : start + 4].reshape(-1))
    wide = {n: lengths[order].max(1).mean() for n, order in orders.items()}
    assert wide[50] < wide[4] < wide[1]


@pytest.mark.parametrize(
    ("num_examples", "pool"),
    [(2_490, 4), (5_749, 4), (8_551, 6), (67_349, 50), (392_702, 50), (10, 4)],  # RTE, STS-B, CoLA, SST-2, MNLI
)
def test_small_sets_are_sorted_in_small_pools(num_examples, pool):
    assert batch_order.usual_pool(num_examples, 32) == pool


def test_scoring_order_has_every_example_once_the_longest_first():
    lengths = np.array([4, 9, 4, 7, 5])
    assert batch_order.scoring_order(lengths, 2).tolist() == [[1, 3], [4, 0], [2, -1]]
    assert batch_order.scoring_order(lengths, 2, by_length=False).tolist() == [[0, 1], [2, 3], [4, -1]]
    assert batch_order.scoring_order(lengths, 5).shape == (1, 5)
