"""Which pieces are masked: drawn by hand where rates leave one way only, by law where there are many."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from bert_tf.pretraining.masking import Masking, mask
from bert_tf.utils.names import MASKINGS
from tests.pretraining.corpus import support

PAD, UNK, CLS, SEP, MASK = range(5)
PHRASES = {tuple(np.random.default_rng(n).integers(5, 120, 2).tolist()) for n in range(1500)}
# Words 5 to 99, pieces that go on 100 to 119; in a row of random ones every tenth piece begins a phrase.
PIECES = support.pieces(words=95, continuations=20, phrases=PHRASES)


def _rng(seed=0):
    return np.random.default_rng(seed)


def _ids(*rows):
    width = max(map(len, rows))
    return np.array([list(row) + [PAD] * (width - len(row)) for row in rows], np.int32)


def _rows(n, width, rng, goes_on=0.3):
    """Random rows of two texts, from 5 to `width` pieces long, in which some words have several pieces."""
    ids = np.where(
        rng.random((n, width)) < goes_on, rng.integers(100, 120, (n, width)), rng.integers(5, 100, (n, width))
    )
    length = rng.integers(5, width + 1, n)
    rows = np.arange(n)
    ids[:, 0] = CLS
    ids[rows, rng.integers(2, length - 2)] = SEP
    ids[rows, length - 1] = SEP
    ids[np.arange(width) >= length[:, None]] = PAD
    return ids.astype(np.int32)


def _chosen(made):
    """bool [n, S]: which positions were chosen."""
    chosen = np.zeros(made["input_ids"].shape, bool)
    row, place = np.nonzero(made["masked_lm_weights"])
    chosen[row, made["masked_lm_positions"][row, place]] = True
    return chosen


def _groups(row, kind="whole_word"):
    """The words of a row as lists of positions, found one piece after the other; or phrases, and the words outside."""
    words = []
    for i, piece in enumerate(row):
        if piece >= 100 and words and words[-1][-1] == i - 1:
            words[-1].append(i)
        elif piece >= 5:
            words.append([i])
    if kind != "phrase":
        return words
    phrases = []
    while words:
        first, *words = words
        pair = first + (words[0] if words else [])
        if len(pair) == 2 and pair[1] == pair[0] + 1 and tuple(row[pair]) in PHRASES:
            first, words = pair, words[1:]
        phrases.append(first)
    return phrases


def _budget(row, masking):
    shortest = min((len(word) for word in _groups(row, masking.kind)), default=1) if masking.kind != "token" else 1
    return min(masking.max_predictions, max(shortest, round(masking.prob * int(np.sum(row != PAD)))))


@pytest.mark.parametrize("kind", MASKINGS)
def test_rate_1_hides_all(kind):
    ids = _ids([CLS, 5, 6, 100, SEP, 7, SEP], [CLS, 8, SEP])
    made = mask(ids, Masking(kind, 1.0, 6, mask_token_prob=1.0, random_token_prob=0.0), PIECES, _rng())
    assert made["input_ids"].tolist() == [[CLS, MASK, MASK, MASK, SEP, MASK, SEP], [CLS, MASK, SEP, 0, 0, 0, 0]]
    assert made["masked_lm_positions"].tolist() == [[1, 2, 3, 5, 0, 0], [1, 0, 0, 0, 0, 0]]
    assert made["masked_lm_ids"].tolist() == [[5, 6, 100, 7, 0, 0], [8, 0, 0, 0, 0, 0]]
    assert made["masked_lm_weights"].tolist() == [[1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0]]
    types = {name: values.dtype.name for name, values in made.items()}
    weights = types.pop("masked_lm_weights")
    assert weights == "float32" and set(types.values()) == {"int32"}


def test_rates_0_change_nothing_and_all_random_leaves_no_mask():
    ids = _rows(200, 40, _rng(1))
    kept = mask(ids, Masking("token", 1.0, 40, mask_token_prob=0.0, random_token_prob=0.0), PIECES, _rng())
    np.testing.assert_array_equal(kept["input_ids"], ids)
    swapped = mask(ids, Masking("token", 1.0, 40, mask_token_prob=0.0, random_token_prob=1.0), PIECES, _rng())
    ordinary = ids >= 5
    np.testing.assert_array_equal(_chosen(swapped), ordinary)
    assert set(np.unique(swapped["input_ids"][ordinary])) == set(range(5, 120))  # every piece but the special ones
    np.testing.assert_array_equal(swapped["input_ids"][~ordinary], ids[~ordinary])


def test_one_piece_at_least_and_the_most_allowed():
    ids = _ids([CLS, 5, 6, 7, SEP])
    assert _chosen(mask(ids, Masking(prob=0.0), PIECES, _rng())).sum() == 1
    assert _chosen(mask(ids, Masking(prob=1.0, max_predictions=2), PIECES, _rng())).sum() == 2


def test_half_is_rounded_to_even_as_python_does():
    ids = _ids([CLS] + [5] * 8 + [SEP], [CLS] + [5] * 28 + [SEP])
    made = mask(ids, Masking(prob=0.25), PIECES, _rng())
    assert _chosen(made).sum(1).tolist() == [round(2.5), round(7.5)] == [2, 8]


@pytest.mark.parametrize("kind", MASKINGS)
def test_each_row_has_its_budget_unless_no_word_fits(kind):
    for width, masking in ((40, Masking(kind)), (200, Masking(kind)), (90, Masking(kind, 0.3, 9))):
        ids = _rows(500, width, _rng(width), goes_on=0.4)
        made = mask(ids, masking, PIECES, _rng(2))
        for row, chosen in zip(ids, _chosen(made), strict=True):
            left = _budget(row, masking) - chosen.sum()
            assert left >= 0
            if kind == "token":
                assert left == 0
            elif left:
                assert min((len(w) for w in _groups(row, kind) if not chosen[w[0]]), default=width) > left


@pytest.mark.parametrize("kind", MASKINGS)
def test_what_is_written_down_is_what_stood_there(kind):
    ids = _rows(500, 70, _rng(3))
    ids[:, 5] = UNK
    before = ids.copy()
    made = mask(ids, Masking(kind), PIECES, _rng(4))
    np.testing.assert_array_equal(ids, before)
    chosen = _chosen(made)
    assert not PIECES.special[ids[chosen]].any()
    np.testing.assert_array_equal(made["input_ids"][~chosen], ids[~chosen])
    weights = made["masked_lm_weights"] > 0
    np.testing.assert_array_equal(made["masked_lm_ids"][weights], ids[chosen])  # so the positions are ascending
    assert not made["masked_lm_ids"][~weights].any() and not made["masked_lm_positions"][~weights].any()
    assert np.all(weights[:, :-1] >= weights[:, 1:])


@pytest.mark.parametrize("kind", ["whole_word", "span", "ngram", "phrase"])
def test_words_and_phrases_are_chosen_whole(kind):
    ids = _rows(500, 80, _rng(5), goes_on=0.5)
    chosen = _chosen(mask(ids, Masking(kind), PIECES, _rng(6)))
    several = 0
    for row, picked in zip(ids, chosen, strict=True):
        for word in _groups(row, kind):
            assert len(set(picked[word].tolist())) == 1
            several += len(word) > 1 and picked[word[0]]
    assert several > 100


def test_a_word_does_not_go_on_over_a_special_piece():
    ids = _ids([CLS, 100, SEP, 101, UNK, 102, SEP])
    counts = [_chosen(mask(ids, Masking("whole_word", 0.0), PIECES, _rng(seed)))[0].tolist() for seed in range(30)]
    assert all(sum(row) == 1 for row in counts)
    assert np.any(counts, axis=0).tolist() == [False, True, False, True, False, True, False]


@pytest.mark.parametrize("kind", ["whole_word", "span", "ngram", "phrase"])
def test_where_all_words_are_too_long_a_shortest_is_taken_if_there_is_room(kind):
    ids = _ids([CLS, 5, 100, 101, 6, 102, SEP], [CLS, 5, 100, 101, 102, 103, SEP])
    chosen = _chosen(mask(ids, Masking(kind, max_predictions=4), PIECES, _rng()))
    assert chosen.astype(int).tolist() == [[0, 0, 0, 0, 1, 1, 0], [0] * 7]


def test_spans_are_runs_of_words_with_one_fate_and_spanberts_lengths():
    ids = np.tile(_rows(1, 8002, _rng(7)), (40, 1))
    ids[:] = np.where(ids >= 100, ids - 50, ids)  # every piece a word
    ids[:, 1:-1] = np.maximum(ids[:, 1:-1], 5)
    ids[:, -1] = SEP
    made = mask(ids, Masking("span", 0.02, 200, mask_token_prob=1.0, random_token_prob=0.0), PIECES, _rng(8))
    edges = np.diff(_chosen(made).astype(int), axis=1)
    lengths = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    # The chance is small that two chosen spans are neighbours: the runs are about the spans.
    expected = 0.8 ** np.arange(10) / np.sum(0.8 ** np.arange(10))
    found = np.bincount(np.minimum(lengths, 11), minlength=12)[1:11] / len(lengths)
    assert len(lengths) > 1500
    np.testing.assert_allclose(found, expected, atol=0.03)
    assert abs(lengths.mean() - 3.8) < 0.25


def test_spans_have_one_fate_each_and_the_first_has_a_random_phase():
    ids = np.tile(_ids([CLS, *range(5, 45), SEP]), (20000, 1))
    made = mask(ids, Masking("span", 1.0, 40, mask_token_prob=0.5, random_token_prob=0.0), PIECES, _rng(14))
    hidden = made["input_ids"][:, 1:41] == MASK
    # A span ends between any two words with the same chance, 1 / 3.8; then the fate changes in half of the cases. (Did
    # a span begin with each row, the chance would be 0.224 after the first word; had each piece its fate, 1.)
    ends = 2 * np.mean(hidden[:, 1:] != hidden[:, :-1], axis=0)
    np.testing.assert_allclose(ends, 1 / 3.8, atol=0.02)


def _lengths(chosen):
    """How long the runs of chosen positions are."""
    edges = np.diff(chosen.astype(int), axis=1)
    return np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]


def test_ngrams_have_albert_s_lengths_and_each_piece_has_its_fate():
    ids = np.full((40, 8002), 7)
    ids[:, 0], ids[:, -1] = CLS, SEP
    made = mask(ids, Masking("ngram", 0.02, 200, mask_token_prob=0.5, random_token_prob=0.0), PIECES, _rng(8))
    lengths = _lengths(_chosen(made))
    # The chance is small that two chosen n-grams are neighbours, and the last one of a row may be cut.
    found = np.bincount(np.minimum(lengths, 4), minlength=5)[1:] / len(lengths)
    assert len(lengths) > 3500
    np.testing.assert_allclose(found, [6 / 11, 3 / 11, 2 / 11, 0], atol=0.03)
    hidden = made["input_ids"] == MASK
    pairs = _chosen(made)[:, 1:] & _chosen(made)[:, :-1]
    np.testing.assert_allclose(np.mean((hidden[:, 1:] != hidden[:, :-1])[pairs]), 0.5, atol=0.05)


def test_phrases_are_counted_and_not_cut():
    ids = _ids([CLS, 5, 6, 7, SEP, 5, 6, 100, SEP], [CLS, 5, 6, 5, 6, SEP])
    pieces = support.pieces(words=95, continuations=20, phrases=[[5, 6], [5, 6, 7]])
    counts, seen = Counter(), []
    for seed in range(40):
        made = mask(ids, Masking("phrase", 0.4, 4), pieces, _rng(seed), counts)
        seen += [tuple(np.flatnonzero(row)) for row in _chosen(made)]
    # "6 100" is a word of its own, so "5 6" is no phrase before it; 0.4 of 9 and of 6 pieces are 4 and 2.
    assert set(seen) == {(1, 2, 3, 5), (5, 6, 7), (1, 2), (3, 4)}
    assert counts == {"found": 40 * 3, "masked": len(seen) - seen.count((5, 6, 7))}


def test_phrases_without_a_list_are_refused():
    with pytest.raises(ValueError, match="`masking=phrase` require each other; got no list and"):
        mask(_ids([CLS, 5, SEP]), Masking("phrase"), support.pieces(), _rng())


SHARES = [(kind, 0.8, 0.1) for kind in MASKINGS] + [("ngram", 0.5, 0.5), ("phrase", 0.3, 0.2), ("token", 1.0, 0.0)]


@pytest.mark.parametrize("kind, hidden, random", SHARES)
def test_80_10_10_and_other_shares(kind, hidden, random):
    pieces = support.pieces(words=900, continuations=100, phrases=[[n, n + 1] for n in range(5, 900)])
    rng = _rng(9)
    ids = rng.integers(5, 1005, (24000, 64)).astype(np.int32)
    ids[:, 0], ids[:, -1] = CLS, SEP
    made = mask(ids, Masking(kind, 0.25, 20, hidden, random), pieces, rng)
    now, was = made["input_ids"][_chosen(made)], ids[_chosen(made)]
    found = np.mean(now == MASK), np.mean((now != MASK) & (now != was)), np.mean(now == was)
    assert len(now) > 100_000
    # One in a thousand random pieces is the one that stood there.
    true = hidden, 0.999 * random, 1 - hidden - 0.999 * random
    np.testing.assert_allclose(found, true, atol=0.005)


def test_every_piece_is_chosen_equally_often():
    ids = np.tile(_ids([CLS, *range(5, 45), SEP]), (20000, 1))
    found = _chosen(mask(ids, Masking(prob=0.12), PIECES, _rng(10))).sum(0)[1:41]
    share = 5 / 40
    chi_square = np.sum((found - 20000 * share) ** 2 / (20000 * share * (1 - share)))
    assert found.sum() == 100_000 and chi_square < 75  # of 39 degrees of freedom: over 75 once in 2,000 seeds


def test_spans_favour_no_word_but_slightly_the_first_ones():
    ids = np.tile(_ids([CLS, *range(5, 65), SEP]), (20000, 1))
    found = _chosen(mask(ids, Masking("span"), PIECES, _rng(11))).sum(0)[1:61] / 20000
    np.testing.assert_allclose(found[:5], 9 / 60, atol=0.05)
    np.testing.assert_allclose(found[5:], 9 / 60, atol=0.012)


@pytest.mark.parametrize("kind", MASKINGS)
def test_the_same_seed_gives_the_same(kind):
    ids = _rows(100, 60, _rng(12))
    first, again, other = (mask(ids, Masking(kind), PIECES, _rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["masked_lm_positions"], other["masked_lm_positions"])


@pytest.mark.parametrize("kind", MASKINGS)
def test_rows_of_nothing_but_special_pieces_and_no_rows(kind):
    ids = _ids([CLS, SEP, PAD], [CLS, UNK, SEP], [PAD, PAD, PAD])
    made = mask(ids, Masking(kind), PIECES, _rng())
    np.testing.assert_array_equal(made["input_ids"], ids)
    assert not made["masked_lm_weights"].any()
    assert mask(ids[:0], Masking(kind), PIECES, _rng())["masked_lm_ids"].shape == (0, 20)


@pytest.mark.parametrize("kind", MASKINGS)
def test_how_the_rows_lie_in_memory_does_not_matter(kind):
    ids = _rows(50, 60, _rng(13))
    straight, turned = (mask(rows, Masking(kind), PIECES, _rng(1)) for rows in (ids, np.asfortranarray(ids)))
    assert all(np.array_equal(straight[name], turned[name]) for name in straight)


def test_a_vocabulary_without_mask_is_an_error():
    with pytest.raises(ValueError, match=r"\[MASK\].*missing from the 120 tokens"):
        mask(_ids([CLS, 5, SEP]), Masking(), dataclasses.replace(PIECES, mask_id=None), _rng())


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(kind="word"), "token, whole_word, span, ngram, phrase; got 'word'"),
        (dict(prob=1.5), "from 0 to 1; got 1.5"),
        (dict(max_predictions=0), "got 0"),
        (dict(mask_token_prob=0.9, random_token_prob=0.2), "`random_token_prob` must .* got 0.9 and 0.2"),
    ],
)
def test_impossible_settings_are_errors(wrong, message):
    with pytest.raises(ValueError, match=message):
        Masking(**wrong)
