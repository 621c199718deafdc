"""Short examples share a row without loss, within the limits and with little padding."""

import numpy as np
import pytest

from bert_tf.pretraining.packing import pack_examples

_PREDICTIONS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def _rows(lengths, width, rng=None, predictions=None, most=20, padding=0):
    """Random examples of these lengths; predictions: how many each has, 15% of its length if None."""
    rng = rng or np.random.default_rng(0)
    lengths = np.asarray(lengths)
    n, column = len(lengths), np.arange(width)
    mask = column < lengths[:, None]
    if predictions is None:
        predictions = np.clip(np.rint(0.15 * lengths), 1, most)
    weights = np.arange(most) < np.asarray(predictions)[:, None]
    places = np.zeros(weights.shape, np.int32)
    for row, k in enumerate(weights.sum(1)):
        places[row, :k] = np.sort(rng.choice(lengths[row], k, replace=False))
    ids = rng.integers(1000, 30000, mask.shape)
    return {
        "input_ids": np.where(mask, ids, padding).astype(np.int32),
        "input_mask": mask.astype(np.int32),
        "segment_ids": (mask & (column >= lengths[:, None] // 2)).astype(np.int32),
        "masked_lm_positions": places,
        "masked_lm_ids": (rng.integers(1000, 30000, weights.shape) * weights).astype(np.int32),
        "masked_lm_weights": weights.astype(np.float32),
        "next_sentence_labels": rng.integers(0, 2, (n, 1)).astype(np.int32),
    }


def _texts(lengths, seed=0):
    """Realistic lengths of short texts, such as reviews or questions."""
    return np.clip(np.random.default_rng(seed).lognormal(3.4, 0.6, lengths), 5, 128).astype(int)


def _examples(rows):
    """Each example as one tuple of plain values, from rows as they are before packing."""
    for row in range(len(rows["input_ids"])):
        length, k = int(rows["input_mask"][row].sum()), int(rows["masked_lm_weights"][row].sum())
        yield (
            tuple(rows["input_ids"][row, :length].tolist()),
            tuple(rows["segment_ids"][row, :length].tolist()),
            tuple(zip(*(rows[name][row, :k].tolist() for name in _PREDICTIONS), strict=True)),
            int(rows["next_sentence_labels"][row, 0]),
        )


def _unpacked(packed):
    """The same of packed rows, read by their sentence_ids."""
    for row, sentences in enumerate(packed["sentence_ids"]):
        predictions = list(zip(*(packed[name][row].tolist() for name in _PREDICTIONS), strict=True))
        for number in range(1, sentences.max() + 1):
            at = np.flatnonzero(sentences == number)
            assert packed["next_sentence_positions"][row, number - 1] == at[0]
            assert packed["next_sentence_weights"][row, number - 1] == 1 and packed["input_mask"][row, at].all()
            yield (
                tuple(packed["input_ids"][row, at].tolist()),
                tuple(packed["segment_ids"][row, at].tolist()),
                tuple(
                    (p - at[0], piece, weight) for p, piece, weight in predictions if weight and at[0] <= p <= at[-1]
                ),
                int(packed["next_sentence_labels"][row, number - 1]),
            )


def test_two_short_examples_make_one_row():
    rows = {
        "input_ids": [[2, 4, 3, 0, 0, 0, 0, 0], [2, 8, 4, 3, 0, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0]],
        "segment_ids": [[0, 0, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 0, 0]],
        "masked_lm_positions": [[1, 0], [2, 0]],
        "masked_lm_ids": [[7, 0], [9, 0]],
        "masked_lm_weights": [[1.0, 0.0], [1.0, 0.0]],
        "next_sentence_labels": [[0], [1]],
    }
    packed = pack_examples(
        {name: np.array(values) for name, values in rows.items()}, max_predictions=3, max_sentences=3
    )
    assert {name: values.tolist() for name, values in packed.items()} == {
        "input_ids": [[2, 4, 3, 2, 8, 4, 3, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 1, 1, 0]],
        "segment_ids": [[0, 0, 1, 0, 0, 1, 1, 0]],
        "sentence_ids": [[1, 1, 1, 2, 2, 2, 2, 0]],
        "masked_lm_positions": [[1, 5, 0]],
        "masked_lm_ids": [[7, 9, 0]],
        "masked_lm_weights": [[1, 1, 0]],
        "next_sentence_positions": [[0, 3, 0]],
        "next_sentence_labels": [[0, 1, 0]],
        "next_sentence_weights": [[1, 1, 0]],
    }
    floats = {name for name, values in packed.items() if values.dtype == np.float32}
    assert floats == {"masked_lm_weights", "next_sentence_weights"}
    assert all(values.dtype == np.int32 for name, values in packed.items() if name not in floats)


def test_the_longest_first_and_where_the_least_room_is_left():
    rows = _rows([3, 6, 2, 5, 4], 10, predictions=[1] * 5)
    packed = pack_examples(rows, 20, 8)
    found = [[int(np.sum(row == number)) for number in range(1, row.max() + 1)] for row in packed["sentence_ids"]]
    assert found == [[6, 4], [3, 2, 5]]  # in the order of the examples; rows in that of their longest


@pytest.mark.parametrize("width, most, sentences", [(128, 20, 8), (128, 20, 3), (64, 12, 64), (128, 21, 1)])
def test_the_same_examples_come_out_within_the_limits(width, most, sentences):
    rng = np.random.default_rng(width)
    lengths = np.minimum(_texts(2000), width)
    rows = _rows(lengths, width, rng, np.minimum(rng.integers(0, 12, 2000), lengths), most)
    packed = pack_examples(rows, most, sentences)
    assert sorted(_unpacked(packed)) == sorted(_examples(rows))
    assert {values.shape[1] for values in packed.values()} <= {width, most, sentences}
    assert packed["sentence_ids"].max() <= sentences and packed["masked_lm_weights"].sum(1).max() <= most
    weights = packed["masked_lm_weights"] > 0
    positions = np.where(weights, packed["masked_lm_positions"], width + np.arange(most))
    assert np.all(np.diff(positions, axis=1) > 0)  # ascending, and padding last
    assert not any(packed[name][~weights].any() for name in _PREDICTIONS)
    assert np.array_equal(packed["sentence_ids"] > 0, packed["input_mask"] == 1)


@pytest.mark.slow
def test_nearly_no_room_is_lost():
    """Within 1% of the least number of rows there can be; 512 tokens with few examples in a row are bound by these."""
    lengths = _texts(20000)
    rows = len(pack_examples(_rows(lengths, 128), 20, 64)["input_ids"])
    assert rows <= 1.01 * np.ceil(lengths.sum() / 128)
    rows = len(pack_examples(_rows(lengths, 512, most=80), 80, 8)["input_ids"])
    assert rows <= 1.05 * np.ceil(len(lengths) / 8)


def test_full_examples_stay_alone_in_their_order():
    rows = _rows([16] * 5, 16)
    packed = pack_examples(rows, 20, 8)
    assert all(np.array_equal(packed[name], rows[name]) for name in rows if name != "next_sentence_labels")
    assert np.array_equal(packed["next_sentence_labels"][:, :1], rows["next_sentence_labels"])
    assert np.all(packed["sentence_ids"] == 1) and packed["next_sentence_weights"].sum() == 5


def test_without_masks_and_labels_there_are_none():
    rows = {name: values for name, values in _rows(_texts(100), 128).items() if name.startswith(("input", "segment"))}
    packed = pack_examples(rows, 20, 8)
    assert set(packed) == {"input_ids", "input_mask", "segment_ids", "sentence_ids"}
    assert len(packed["input_ids"]) < 50


def test_padding_stays_the_piece_it_was():
    packed = pack_examples(_rows([3, 3], 8, padding=77), 20, 8)
    assert packed["input_ids"][0, 6:].tolist() == [77, 77] and np.all(packed["input_ids"][0, :6] != 77)


def test_no_row():
    rows = {name: values[:0] for name, values in _rows([4], 8).items()}
    assert {name: len(values) for name, values in pack_examples(rows, 20, 8).items()}.keys() >= {"sentence_ids"}
    assert all(len(values) == 0 for values in pack_examples(rows, 20, 8).values())


def test_it_is_the_same_each_time_and_the_input_is_not_changed():
    rows = _rows(_texts(500), 128)
    before = {name: values.copy() for name, values in rows.items()}
    first, again = pack_examples(rows, 20, 8), pack_examples(rows, 20, 8)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert all(np.array_equal(rows[name], before[name]) for name in rows)


def test_impossible_limits_are_errors():
    with pytest.raises(ValueError, match="got max_sentences 0"):
        pack_examples(_rows([4], 8), 20, 0)
    with pytest.raises(ValueError, match="got 5 predictions and room for 4"):
        pack_examples(_rows([8], 8, predictions=[5]), 4, 8)
