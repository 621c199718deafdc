"""Batches for pretraining: every row once an epoch, in another order each, from any step on."""

import itertools

import numpy as np
import pytest

from bert_tf.data import example_bytes, tfrecords
from bert_tf.pretraining.batches import Records


@pytest.fixture
def files(tmp_path):
    """Four files of 5, 6, 7 and 8 rows, numbered through from 0."""
    first = 0
    for number in range(5, 9):
        path = str(tmp_path / f"{number}.tfrecord{'.gz' if number == 6 else ''}")
        tfrecords.write_records(path, _rows_of(first, number))
        first += number
    return Records.of([f"{tmp_path}/*"], 3, 2)


def _rows_of(first, number, length=3):
    ids = np.arange(first, first + number)[:, None].repeat(length, 1)
    features = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    features |= dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), 0 * ids[:, :2])
    return example_bytes.serialize(features | {"masked_lm_weights": np.ones((number, 2), np.float32)})


def _rows(dataset, number):
    return [batch["input_ids"][:, 0].numpy().tolist() for batch in itertools.islice(dataset, number)]


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
    with pytest.raises(ValueError, match="No record files found: "):
        Records.of([f"{tmp_path}/none-*"], 3, 2)


def test_records_made_for_another_length(files):
    message = "must contain input_ids as 8 int64; got 3 int64; create the records again with `max_seq_length=8`, or"
    with pytest.raises(ValueError, match=f"{files.paths[0]} {message} set `max_seq_length=3` for this run"):
        Records.of(files.paths, 8, 2)
    message = "masked_lm_positions as 20 int64. .* set `max_predictions_per_seq=2` for this run"
    with pytest.raises(ValueError, match=message):
        Records.of(files.paths, 3, 20)


def test_what_records_hold_is_found_out(files):
    held = Records.of(files.paths)
    assert (held.max_seq_length, held.max_predictions, held.masked) == (3, 2, True)
    assert not held.packed and not held.has_sentences


@pytest.fixture
def two_lengths(tmp_path):
    for name, length in (("short-0", 3), ("long", 5), ("short-1", 3)):
        tfrecords.write_records(str(tmp_path / name), _rows_of(0, 4, length))
    return str(tmp_path)


def test_records_of_one_length_are_selected_among_all(two_lengths):
    assert Records.select([f"{two_lengths}/*"], 3).paths == [f"{two_lengths}/short-{n}" for n in range(2)]
    assert Records.select([f"{two_lengths}/long", f"{two_lengths}/s*"], 5).paths == [f"{two_lengths}/long"]
    message = f"sequences of 9 tokens: in {two_lengths}/., all have 3 and 5. .* `max_seq_length=9`"
    with pytest.raises(ValueError, match=message):
        Records.select([f"{two_lengths}/*"], 9)


def test_records_of_two_lengths_do_not_go_together(two_lengths):
    with pytest.raises(ValueError, match="short-0 does not match .*long: input_ids is 3 int64 in the "):
        Records.of([f"{two_lengths}/*"])


def test_a_path_that_looks_like_a_pattern(tmp_path):
    path = str(tmp_path / "run[1].tfrecord")
    tfrecords.write_records(path, _rows_of(0, 4))
    assert Records.of([path]).paths == [path]
