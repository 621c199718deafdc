"""Batches for pretraining: every row once an epoch, in another order each, from any step on."""

import numpy as np
import pytest

from bert_tf.data import records
from bert_tf.data.pretraining.batches import Records


@pytest.fixture
def files(tmp_path):
    """Four files of 5, 6, 7 and 8 rows, numbered through from 0."""
    first = 0
    for number in range(5, 9):
        path = str(tmp_path / f"{number}.tfrecord{'.gz' if number == 6 else ''}")
        records.write(path, _rows_of(first, number))
        first += number
    return Records.of([f"{tmp_path}/*"], 3, 2)


def _rows_of(first, number):
    ids = np.arange(first, first + number)[:, None].repeat(3, 1)
    features = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    features |= dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), ids[:, :2])
    return records.serialize(features | {"masked_lm_weights": np.ones((number, 2), np.float32)})


def _rows(dataset, number):
    return [batch["input_ids"][:, 0].tolist() for batch in dataset.take(number).as_numpy_iterator()]


def test_an_epoch_has_every_row_once_and_the_next_one_another_order(files):
    rows = sum(_rows(files.batches(2, seed=1), 26), [])
    assert sorted(rows[:26]) == sorted(rows[26:]) == list(range(26))
    assert rows[:26] != rows[26:] and rows[:26] != list(range(26))


def test_another_seed_gives_another_order(files):
    one, again, other = (_rows(files.batches(13, seed=seed), 1) for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize("start", [1, 7, 13, 20])
def test_a_resumed_run_gets_the_batches_that_would_have_come(files, start):
    whole = _rows(files.batches(4, seed=3), 25)
    assert _rows(files.batches(4, seed=3, start=start), 25 - start) == whole[start:]


def test_held_out_rows_come_in_order_and_once(files):
    assert sum(_rows(files.in_order(5), 99), []) == list(range(25))
    assert _rows(files.in_order(10, 1), 99) == [list(range(10))]


def test_a_pattern_that_matches_nothing(tmp_path):
    with pytest.raises(ValueError, match="Record files must be there. Received"):
        Records.of([f"{tmp_path}/none-*"], 3, 2)


def test_records_made_for_another_length(files):
    with pytest.raises(ValueError, match="must hold input_ids as 8 int64. Received 3 int64"):
        Records.of(files.paths, 8, 2)
