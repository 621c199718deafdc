"""Packed rows of short texts: where each token is, and what is left as it is."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.packed_rows import ROW, lay_out

SPEC = tf.TensorSpec([None, None], tf.int32)
LAY_OUT = tf.function(lay_out, input_signature=[{"input_ids": SPEC, "input_mask": SPEC}], autograph=False)


def _mask(lengths, width=None):
    return (np.arange(width or max(lengths)) < np.array(lengths)[:, np.newaxis]).astype(np.int32)


def _rows(mask):
    """Returns where the tokens of a batch are in rows, these tokens as numbers, and the rows of numbers and mask."""
    ids = np.arange(1, mask.size + 1, dtype=np.int32).reshape(mask.shape)
    rows = LAY_OUT({"input_ids": ids, "input_mask": mask})
    return rows.indices.numpy(), ids, {name: each.numpy() for name, each in rows.features.items()}


RANDOM = np.random.default_rng(0)
BATCHES = {
    "short": RANDOM.integers(4, 31, 64),
    "one long": [*RANDOM.integers(3, 20, 40), 3 * ROW],
    "two": [1, 40],
    "just as long as a row": [ROW, *[ROW // 2] * 6, 1],
    "many": RANDOM.integers(1, ROW, 500),
    "nothing in some": [0, 30, 0, 0, 5, 0],
    "nothing in the last of a full row": [ROW, ROW // 2, ROW // 2 - 1, 0, 0],
}


@pytest.mark.parametrize("name", BATCHES)
def test_every_token_is_there_once_next_to_those_of_its_text(name):
    mask = _mask(BATCHES[name])
    indices, ids, rows = _rows(mask)
    assert sorted(rows["input_ids"][rows["input_mask"] > 0]) == sorted(ids[mask > 0])
    np.testing.assert_array_equal(rows["input_ids"].ravel()[indices][mask > 0], ids[mask > 0])
    text, position = (ids - 1) // mask.shape[1] + 1, (ids - 1) % mask.shape[1]
    for names, numbers in (("sentence_ids", text), ("position_ids", position)):
        np.testing.assert_array_equal(rows[names].ravel()[indices][mask > 0], numbers[mask > 0])
    assert rows["input_ids"].shape[1] <= max(ROW, *BATCHES[name])
    assert not rows["input_mask"][rows["sentence_ids"] == 0].any()
    for row in rows["sentence_ids"]:  # a text is not torn apart
        changes = row[:-1][row[:-1] != row[1:]].tolist() + [row[-1]]
        assert len(set(changes)) == len(changes)


def test_rows_are_full():
    rows = _rows(_mask(BATCHES["short"]))[2]
    assert rows["input_mask"].mean() > 0.85
    rows = _rows(_mask(BATCHES["many"]))[2]
    assert rows["input_mask"].mean() > 0.6 > _mask(BATCHES["many"]).mean()


@pytest.mark.parametrize("lengths", [[5], [7, 7, 7], [10, 8, 9], [1]])
def test_a_batch_with_little_padding_stays_as_it_is(lengths):
    indices, ids, rows = _rows(_mask(lengths))
    np.testing.assert_array_equal(rows["input_ids"], ids)
    np.testing.assert_array_equal(indices, ids - 1)
    np.testing.assert_array_equal(rows["position_ids"], (ids - 1) % ids.shape[1])
    np.testing.assert_array_equal(rows["sentence_ids"], np.ones([len(lengths), 1]))  # a row is one text


def test_a_batch_without_rows_has_none():
    indices, _, rows = _rows(np.zeros([0, 4], np.int32))
    assert indices.shape == rows["input_ids"].shape == (0, 4)


def test_padding_is_given_what_its_own_text_has():
    """And not what is next to it: answers to one text must not hold a trace of another."""
    mask = _mask([9, 3, 2], 20)
    indices, ids, rows = _rows(mask)
    back = rows["input_ids"].ravel()[indices]
    np.testing.assert_array_equal(back, np.where(mask > 0, ids, ids[:, :1]))


def test_padding_before_a_text_stays_there():
    mask = _mask([10, 3, 3])
    mask[1] = mask[1, ::-1]
    rows = _rows(mask)[2]
    assert rows["sentence_ids"].size > mask.sum() and rows["input_mask"].sum() == mask.sum()
