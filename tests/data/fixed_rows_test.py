"""Rows of few fixed sizes: where each token is, and how many sizes there are."""

import numpy as np
import pytest

from bert_tf.data.fixed_rows import INDICES, SHARES, SOURCES, fixed_layout, usual_shares
from bert_tf.data.packed_rows import ROW

RANDOM = np.random.default_rng(0)
BATCHES = {
    "short": (64, RANDOM.integers(4, 31, 64)),
    "one long": (288, [*RANDOM.integers(3, 20, 31), 3 * ROW]),
    "all full": (64, [64] * 8),
    "narrow": (8, [3, 8, 5, 1]),
    "one": (40, [7]),
    "nothing in some": (48, [0, 30, 0, 0, 5, 0]),
}


def _mask(lengths, width):
    return (np.arange(width) < np.array(lengths)[:, np.newaxis]).astype(np.int32)


def _short(texts=32):
    return _mask(RANDOM.integers(3, 30, texts), 64)


@pytest.mark.parametrize("name", BATCHES)
def test_every_token_is_there_once_next_to_those_of_its_text(name):
    width, lengths = BATCHES[name]
    mask = _mask(lengths, width)
    layout = fixed_layout(mask, 1)
    sources, indices = layout[SOURCES], layout[INDICES]
    assert sources.dtype == indices.dtype == np.int32
    kept = np.flatnonzero(np.maximum(mask, np.arange(width) == 0))  # a text without tokens keeps one for padding
    np.testing.assert_array_equal(np.sort(sources[sources >= 0]), kept)
    np.testing.assert_array_equal(sources.ravel()[indices][mask > 0], np.flatnonzero(mask))
    padding = sources.ravel()[indices][mask == 0]
    np.testing.assert_array_equal(padding, np.nonzero(mask == 0)[0] * width)  # has what its own text has
    for row in np.where(sources < 0, -1, sources // width):  # a text is not torn apart
        texts = row[np.flatnonzero(np.diff(row, prepend=-2))]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", BATCHES)
def test_rows_have_no_more_tokens_than_the_batch(name):
    width, lengths = BATCHES[name]
    rows, length = fixed_layout(_mask(lengths, width), 1)[SOURCES].shape
    assert length % width == 0 and (rows - 1) * length < len(lengths) * width


def test_a_hundred_random_batches_have_at_most_four_shapes():
    batches = [_mask(np.minimum(RANDOM.geometric(0.07, 32) + 2, 64), 64) for _ in range(100)]
    usual = [fixed_layout(mask, 1)[SOURCES] for mask in batches]
    assert {rows.shape for rows in usual} <= {(rows, 128) for rows in (4, 8, 12, 16)}
    shares = usual_shares(batches, 1)
    fitted = [fixed_layout(mask, 1, shares)[SOURCES] for mask in batches]
    assert 1 < len({rows.shape for rows in fitted}) < len(shares) <= 4 and shares[-1] == 1
    assert sum(rows.size for rows in fitted) < 0.9 * sum(rows.size for rows in usual)
    assert fixed_layout(_mask([64] * 32, 64), 1, shares)[SOURCES].size == 32 * 64  # one that is not like these


def test_each_part_has_rows_of_its_own_and_as_many_as_the_others():
    mask = _short()
    mask[8:16] = 1  # one of the parts needs more
    whole = fixed_layout(mask, 4)
    alone = [fixed_layout(part, 1) for part in np.split(mask, 4)]
    assert len(whole[SOURCES]) == 4 * max(len(each[SOURCES]) for each in alone)
    for sources, indices, each in zip(
        np.split(whole[SOURCES], 4), np.split(whole[INDICES], 4), alone, strict=True
    ):
        np.testing.assert_array_equal(indices, each[INDICES])
        np.testing.assert_array_equal(sources[: len(each[SOURCES])], each[SOURCES])
        assert (sources[len(each[SOURCES]) :] == -1).all()


def test_texts_of_several_sequences_are_packed_as_their_sequences():
    mask = _short(32)
    one, other = fixed_layout(mask.reshape(8, 4, -1), 2), fixed_layout(mask, 2)
    assert all(np.array_equal(one[name], other[name]) for name in (SOURCES, INDICES))


def test_padding_before_a_text_stays_there():
    mask = _mask([10, 3, 3], 12)
    mask[1] = mask[1, ::-1]
    layout = fixed_layout(mask, 1)
    sources = layout[SOURCES]
    assert (sources >= 0).sum() == 10 + 12 + 3
    np.testing.assert_array_equal(sources.ravel()[layout[INDICES][1]], np.arange(12, 24))


def test_the_usual_shares_are_those_of_other_batches_of_their_kind():
    shares = usual_shares([_short() for _ in range(50)], 1)
    assert len(shares) <= 4 and max(shares[:-1]) < 0.5 < SHARES[-1] == shares[-1]
