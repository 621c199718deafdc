"""Phrases from a list: read in the right form, found as whole words, the longest first."""

import numpy as np
import pytest

from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.pretraining.phrases import Phrases, read_phrases
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB_SIZE, CONTINUATIONS = 14, 11  # words 5 to 10, pieces that go on 11 to 13


def _naive(row, phrases):
    """Returns the phrases of a row, found by trying every place: {start: length}; and where its words start."""
    free = [piece >= 5 for piece in row]
    words = [free[i] and not (row[i] >= CONTINUATIONS and i and free[i - 1]) for i in range(len(row))]
    ends = [i + 1 == len(row) or words[i + 1] or not free[i + 1] for i in range(len(row))]
    found, taken = {}, set()
    for length in range(max(map(len, phrases)), 0, -1):
        for start in range(len(row) - length + 1):
            places = range(start, start + length)
            fits = words[start] and ends[start + length - 1] and not taken & set(places)
            if fits and tuple(row[start : start + length]) in phrases:
                found[start] = length
                taken.update(places)
    return found, words


def _places(rows):
    free = rows >= 5
    after = np.zeros_like(free)
    after[:, 1:] = free[:, :-1]
    return free & ~((rows >= CONTINUATIONS) & after), free


@pytest.mark.parametrize("number", [1, 30, 400])
def test_whole_words_and_the_longest_first(number):
    rng = np.random.default_rng(number)
    rows = rng.integers(5, VOCAB_SIZE, (300, 24))
    rows[rng.random(rows.shape) < 0.08] = SEP  # the last piece of a row is mostly none: phrases end with rows
    phrases = {tuple(rng.integers(5, VOCAB_SIZE, rng.integers(1, 6)).tolist()) for _ in range(number)}
    words, free = _places(rows)
    before = words.copy()
    joined, starts = Phrases.of(list(phrases), VOCAB_SIZE).join(rows, words, free)
    np.testing.assert_array_equal(words, before)
    true = np.zeros_like(words)
    places = []
    for number, row in enumerate(rows.tolist()):
        found, true[number] = _naive(row, phrases)
        for start, length in found.items():
            places.append(number * len(row) + start)
            true[number, start + 1 : start + length] = False
    np.testing.assert_array_equal(joined, true)
    assert sorted(starts.tolist()) == sorted(places) and (number == 1 or len(places) > 20)


def test_no_rows_and_rows_of_one_piece():
    phrases = Phrases.of([[5, 6], [7]], VOCAB_SIZE)
    for rows in (np.zeros((0, 4), np.int64), np.array([[5], [6], [7]])):
        words, free = _places(rows)
        joined, starts = phrases.join(rows, words, free)
        np.testing.assert_array_equal(joined, words)
        assert starts.tolist() == ([2] if len(rows) else [])


def test_a_list_is_read_without_blanks_empty_lines_and_repeats(tmp_path):
    (tmp_path / "list").write_text("\ufeff the film \r\n\nthe film\nof people\n", encoding="utf-8")
    assert read_phrases(tmp_path / "list") == ["the film", "of people"]


WRONG = {
    "columns": ("the film\nof\tpeople\n", r"list:2: .* must be one phrase .*got 'of\\tpeople', which has a tab;"),
    "prose": ("a " * 200, r"list:1: .* must be one phrase of at most 256 characters.*which has 399 characters"),
    "bytes": ("a\0b", r"list:1: .* must be one phrase .*which has a NUL byte"),
    "nothing": ("\n \n", r"The `phrase_file` .*list contains no phrases"),
    "another language": ("北京\nwörter\n", r"None of the 2 phrases of the `phrase_file` .*list consists of tokens"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_list_in_the_wrong_form(tmp_path, name):
    text, message = WRONG[name]
    (tmp_path / "list").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        MaskingVocabulary.of_tokenizer(WordPieceTokenizer(tiny.VOCAB), tmp_path / "list")


def test_phrases_are_in_the_pieces_and_the_case_of_the_vocabulary(tmp_path):
    (tmp_path / "list").write_text("The Films\nof wörter\npeople\nthe films\n", encoding="utf-8")
    phrases = MaskingVocabulary.of_tokenizer(WordPieceTokenizer(tiny.VOCAB), tmp_path / "list").phrases
    assert (phrases.number, phrases.unknown) == (2, 1)
    rows = np.array([[CLS, *(tiny.VOCAB.index(piece) for piece in ("the", "film", "##s", "of", "people"))]])
    words = np.array([[False, True, True, False, True, True]])
    joined, starts = phrases.join(rows, words, rows >= 5)
    assert joined.tolist() == [[False, True, False, False, True, True]] and sorted(starts.tolist()) == [1, 5]
    tokenizer = WordPieceTokenizer(tiny.VOCAB, do_lower_case=False)
    cased = MaskingVocabulary.of_tokenizer(tokenizer, tmp_path / "list").phrases
    assert (cased.number, cased.unknown) == (2, 2)  # "The" is no piece
