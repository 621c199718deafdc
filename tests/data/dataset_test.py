"""Which examples go together, in which order, padded to which width."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import dataset
from bert_tf.data.dataset import Tokenized, Truncation, build_batches, count_truncated
from bert_tf.pretraining.batches import Records
from tests.data.tfrecords_test import rows, written


def _three():
    """Three examples of 3, 5 and 2 tokens."""
    features = {
        "input_ids": np.array([2, 7, 3, 2, 8, 9, 6, 3, 2, 3], np.int32),
        "segment_ids": np.array([0, 0, 0, 0, 0, 0, 1, 1, 0, 0], np.int32),
    }
    return Tokenized(features, np.array([0, 3, 8, 10]), {"label_ids": np.array([1, 0, 1], np.int32)})


def _drawn(batch):
    return {name: value.numpy().tolist() for name, value in batch.items()}


def test_each_epoch_shuffles_again_and_has_every_example_once():
    order = dataset.training_order(np.ones(10, int), batch_size=4, num_steps=7, seed=1, by_length=False)
    assert order.shape == (7, 4)
    first, second = order.reshape(-1)[:10], order.reshape(-1)[10:20]  # epochs follow without a gap
    assert sorted(first) == sorted(second) == list(range(10))
    assert first.tolist() != second.tolist() != list(range(10))
    assert len(set(order.reshape(-1)[20:])) == 8


def test_training_order_is_a_function_of_its_arguments():
    lengths = np.random.default_rng(0).integers(3, 60, 700)
    order = dataset.training_order(lengths, 8, 300, seed=3)
    assert (order == dataset.training_order(lengths, 8, 300, seed=3)).all()
    assert (order != dataset.training_order(lengths, 8, 300, seed=4)).any()


@pytest.mark.parametrize("by_length", [False, True])
def test_an_epoch_of_whole_batches_has_every_example_once(by_length):
    lengths = np.random.default_rng(0).integers(3, 60, 96)
    order = dataset.training_order(lengths, 8, 36, seed=0, by_length=by_length)  # 3 epochs of 12 batches
    for epoch in order.reshape(3, -1):
        assert sorted(epoch) == list(range(96))


def test_batches_by_length_hold_near_lengths_and_come_in_chance_order():
    lengths = np.random.default_rng(0).integers(3, 60, 8 * 100)
    order = dataset.training_order(lengths, 8, 100, seed=0, by_length=True, pool_batches=50)
    plain = dataset.training_order(lengths, 8, 100, seed=0, by_length=False)
    for pool in (slice(0, 50), slice(50, 100)):  # sorting and shuffling stay inside a pool of 50 batches
        assert sorted(order[pool].reshape(-1)) == sorted(plain[pool].reshape(-1))
    assert np.ptp(lengths[order], axis=1).max() <= 6 < np.ptp(lengths[plain], axis=1).mean()
    longest = lengths[order].max(1)
    assert np.abs(np.diff(longest)).mean() > 10  # sorted batches would differ by about 1


def test_smaller_pools_make_batches_more_by_chance():
    lengths = np.random.default_rng(0).integers(3, 60, 8 * 100)
    plain = dataset.training_order(lengths, 8, 100, seed=0, by_length=False)
    orders = {n: dataset.training_order(lengths, 8, 100, seed=0, pool_batches=n) for n in (1, 4, 50)}
    assert (np.sort(orders[1]) == np.sort(plain)).all()  # each batch holds what chance put there
    assert (orders[4] == dataset.training_order(lengths, 8, 100, seed=0)).all()
    for start in range(0, 100, 4):
        assert sorted(orders[4][start : start + 4].reshape(-1)) == sorted(plain[start : start + 4].reshape(-1))
    wide = {n: lengths[order].max(1).mean() for n, order in orders.items()}
    assert wide[50] < wide[4] < wide[1]


@pytest.mark.parametrize(
    ("num_examples", "pool"),
    [(2_490, 4), (5_749, 4), (8_551, 6), (67_349, 50), (392_702, 50), (10, 4)],  # RTE, STS-B, CoLA, SST-2, MNLI
)
def test_small_sets_are_sorted_in_small_pools(num_examples, pool):
    assert dataset.usual_pool(num_examples, 32) == pool


def test_scoring_order_has_every_example_once_the_longest_first():
    lengths = np.array([4, 9, 4, 7, 5])
    assert dataset.scoring_order(lengths, 2).tolist() == [[1, 3], [4, 0], [2, -1]]
    assert dataset.scoring_order(lengths, 2, by_length=False).tolist() == [[0, 1], [2, 3], [4, -1]]
    assert dataset.scoring_order(lengths, 5).shape == (1, 5)


@pytest.mark.parametrize("longest, width", [(1, 8), (8, 8), (9, 16), (17, 20), (20, 20)])
def test_width_is_the_next_multiple_or_the_longest_allowed(longest, width):
    assert dataset.width_of(np.array([1, longest]), max_seq_length=20) == width


def test_targets_of_tokens_are_padded_as_their_feature_says():
    examples = _three()
    examples.features["tag_ids"], examples.pad_id = np.arange(10, dtype=np.int32), 5
    (batch,) = dataset.build_batches(examples, np.array([[2, 0, -1]]), max_seq_length=4, by_length=False)
    drawn = _drawn(batch)
    assert drawn["tag_ids"] == [[8, 9, -1, -1], [0, 1, 2, -1], [-1] * 4]
    assert drawn["input_ids"] == [[2, 3, 5, 5], [2, 7, 3, 5], [5] * 4]
    assert drawn["input_mask"] == [[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]]  # of a row of padding, one is looked at
    assert drawn["segment_ids"][2] == [0] * 4 and drawn["is_real_example"] == [1, 1, 0]
    assert drawn["label_ids"] == [1, 1, 0]


def test_batches_picture():
    (batch,) = dataset.build_batches(_three(), np.array([[1, 0]]), max_seq_length=6, width_step=2)
    assert _drawn(batch) == {
        "input_ids": [[2, 8, 9, 6, 3, 0], [2, 7, 3, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]],
        "label_ids": [0, 1],
        "is_real_example": [1.0, 1.0],
    }


def test_batches_have_their_longest_width_each_and_the_dtypes_of_the_schema():
    batches = dataset.build_batches(_three(), np.array([[2], [1]]), 6, width_step=2)
    assert [batch["input_ids"].shape[1] for batch in batches] == [2, 6]
    spec = dataset.build_batches(_three(), np.array([[2]]), 6).element_spec
    assert {n: s.dtype for n, s in spec.items()} == {
        **dict.fromkeys(("input_ids", "input_mask", "segment_ids", "label_ids"), tf.int32),
        "is_real_example": tf.float32,
    }


def test_targets_may_be_several_numbers_an_example():
    examples = _three()
    examples.targets = {"label_ids": np.array([[1, 0], [0, 0], [1, 1]], np.int32)}
    (batch,) = dataset.build_batches(examples, np.array([[2, 0]]), 8)
    assert batch["label_ids"].numpy().tolist() == [[1, 1], [1, 0]]


def test_the_fingerprint_depends_on_tokens_targets_and_order():
    def changed(name, i, value):
        examples = _three()
        {**examples.features, **examples.targets}[name][i] = value
        return examples.fingerprint()

    prints = [_three().fingerprint(), changed("input_ids", 1, 8), changed("segment_ids", 6, 0)]
    prints += [changed("label_ids", 0, 0)]
    assert len(set(prints)) == 4
    assert _three().fingerprint() == prints[0]


# === Truncation ===
# What did not fit into rows, counted by rows and by examples.


def test_counts_truncated_sequences_of_one_example_each():
    cut = count_truncated(np.array([3, 9, 8, 12]), 8)
    assert cut.examples.tolist() == [1, 3] and (cut.lost, cut.total) == (5, 32)
    assert (cut.parameter, cut.limit) == ("max_seq_length", 8)


def test_counts_truncated_examples_by_their_longest_sequence():
    cut = count_truncated(np.array([3, 9, 8, 12, 4, 4]), 8, np.array([0, 0, 1, 1, 2, 2]), 3)
    assert cut.needed.tolist() == [9, 12, 4] and cut.examples.tolist() == [0, 1] and cut.lost == 5


def test_a_sequence_that_fits_exactly_is_not_truncated():
    assert not len(Truncation("max_windows", 2, np.array([1, 2]), 0, 10).examples)


# === Iteration ===
# Datasets that are gone through in training have no thread whose sleep their end would wait for.


def _is_left_alone(dataset):
    return dataset.options().autotune.enabled is False


def test_datasets_are_read_without_autotuning(tmp_path):
    path = written(tmp_path / "rows.tfrecord", rows())
    found = Records.of([str(path)])
    assert _is_left_alone(found.batches(2, 0).dataset) and _is_left_alone(found.in_order(2, 1).map(lambda x: x).dataset)
    texts = Tokenized({"input_ids": np.array([2, 7, 3, 2, 3], np.int32)}, np.array([0, 3, 5]), {})
    assert _is_left_alone(build_batches(texts, np.array([[0, 1]]), 8))
