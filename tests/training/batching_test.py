"""Examples from memory as a run's batches: from any step on, each once where they are scored."""

import numpy as np
import pytest

from bert_tf.data.windowed import Windowed
from bert_tf.training.batching import BatchSettings
from bert_tf.training.run_config import RunConfig
from bert_tf.training.step import StepConfig
from tests import tiny

EXAMPLES = tiny.tokenized(30)


def _drawn(batches):
    return [{name: values.numpy() for name, values in batch.items()} for batch in batches]


def _equal(one, other):
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
        for a, b in zip(one, other, strict=True)
    )


def _training(seed=0, **options):
    run = RunConfig("unused", 8, 7, step=StepConfig(seed=seed))
    return BatchSettings(16, **options).training(EXAMPLES, run)


def test_training_goes_on_from_any_step():
    whole = _drawn(_training()(0))
    assert len(whole) == 7 and all(batch["input_ids"].shape[0] == 8 for batch in whole)
    assert _equal(_drawn(_training()(5)), whole[5:])
    assert not _equal(_drawn(_training(seed=1)(0)), whole)


@pytest.mark.parametrize(("most", "batches"), [(12, 2), (100, 4)])
def test_a_sample_is_of_all_lengths_and_none_twice_but_to_fill_up(most, batches):
    numbered = tiny.tokenized(30)
    numbered.targets["number"] = np.arange(30)
    drawn = _drawn(BatchSettings(16).sample(numbered, most, 0, 8))
    assert len(drawn) == batches and all(batch["is_real_example"].all() for batch in drawn)
    numbers = np.concatenate([batch["number"] for batch in drawn])
    count = min(most, 30)
    assert len(set(numbers)) == count and np.array_equal(numbers[count:], numbers[: len(numbers) - count])
    other = _drawn(BatchSettings(16).sample(numbered, 12, 1, 8))
    assert set(numbers[:12]) != {*np.concatenate([batch["number"] for batch in other])}


def test_scoring_has_each_example_once_and_knows_which():
    scoring = BatchSettings(16).scoring(EXAMPLES, 8)
    assert scoring.rows is EXAMPLES and scoring.order.shape == (4, 8)
    batches = _drawn(scoring.batches())
    assert _equal(_drawn(scoring.batches()), batches)  # they can be asked for again
    assert sorted(scoring.order.reshape(-1)) == [-1, -1, *range(30)]
    for batch, places in zip(batches, scoring.order, strict=True):
        assert batch["is_real_example"].tolist() == (places >= 0).tolist()
        real = places >= 0
        assert batch["label_ids"][real].tolist() == EXAMPLES.targets["label_ids"][places[real]].tolist()
        assert batch["input_mask"].sum(1)[real].tolist() == EXAMPLES.lengths[places[real]].tolist()


def _widths(**options):
    scoring = BatchSettings(30, **options).scoring(tiny.tokenized(200, longest=30), 2)
    return {batch["input_ids"].shape[1] for batch in _drawn(scoring.batches())}


def test_batches_of_similar_lengths_are_as_wide_as_their_longest():
    assert _widths() == {8, 16, 24, 30}
    assert _widths(by_length=False) == {30}


def test_for_xla_there_are_at_most_four_widths():
    assert _widths(use_xla=True) == {8, 16, 24, 30}
    narrow = BatchSettings(100, use_xla=True).scoring(EXAMPLES, 2)
    assert {batch["input_ids"].shape[1] for batch in _drawn(narrow.batches())} == {25}


def test_batches_that_xla_packs_are_as_wide_as_the_longest_example():
    examples, run = tiny.tokenized(320, longest=20), RunConfig("unused", 16, 20)

    def batches(**options):
        return _drawn(BatchSettings(100, packs=True, **options).training(examples, run)(0))

    packed, usual = batches(use_xla=True), batches()
    assert {batch["input_ids"].shape[1] for batch in packed} == {24} and len({b["input_ids"].shape for b in usual}) > 1
    for one, other in zip(packed, usual, strict=True):  # the same examples
        np.testing.assert_array_equal(one["input_mask"].sum(1), other["input_mask"].sum(1))
    shares = BatchSettings(100, use_xla=True, packs=True).packed_shares(examples, run)
    assert len(shares) <= 4 and shares[0] < shares[-1] == 1


@pytest.mark.parametrize("size", [0, -8])
def test_a_batch_holds_something(size):
    with pytest.raises(ValueError, match=f"The batch size of evaluation and prediction must be .* got {size}\\."):
        BatchSettings(16).scoring(EXAMPLES, size)


@pytest.mark.parametrize(
    "options", [{}, {"by_length": False}, {"use_xla": True}, {"use_xla": True, "packs": True}], ids=str
)
def test_the_sizes_of_batches_are_known_before_they_are_made(options):
    run, batching = RunConfig("unused", 8, 7), BatchSettings(16, **options)
    rows, widths = batching.sizes(EXAMPLES, run)
    batches = _drawn(batching.training(EXAMPLES, run)(0))
    assert [batch["input_ids"].shape for batch in batches] == list(zip(rows.tolist(), widths.tolist(), strict=True))


def test_the_sizes_of_batches_count_the_rows_of_each_example():
    examples = Windowed(EXAMPLES, np.array([0, 1, 4, 10, 20, 30]), {})
    run, batching = RunConfig("unused", 2, 3), BatchSettings(16)
    rows, widths = batching.sizes(examples, run)
    for batch, count, width in zip(_drawn(batching.training(examples, run)(0)), rows, widths, strict=True):
        assert batch["input_ids"].shape[2] == width and (batch["input_mask"].sum(-1) > 0).sum() == count
