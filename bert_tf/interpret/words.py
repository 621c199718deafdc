"""Words of a text as a reader sees them, and the word of each token, independent of the tokenizer's words."""

from typing import NamedTuple

import numpy as np

from bert_tf.tokenization.characters import ISOLATED, SPACE, character_flags

_JOINERS = np.array(list(map(ord, "'\u2019-._\u00ad")))  # between letters, they do not split words: "don't", "e-mail"


class Word(NamedTuple):
    """A word and its character offsets in the text.

    Attributes:
        text: as the user wrote it.
        start, end: its offsets in the text, half-open, in code points.
        of_text: index of its text: 0, or 1 for the second of a pair.
    """

    text: str
    start: int
    end: int
    of_text: int = 0


def words_of(text: str, starts: np.ndarray, ends: np.ndarray, of_text: int = 0) -> tuple[list[Word], np.ndarray]:
    """Returns the words of a text that have a token, and the word of each token.

    White space and punctuation end a word, and a Chinese character is a word by itself; the span of one token is never
    split.

        text     I don't, 東京.            words    I  don't  ,  東  京  .

    Args:
        text: the text.
        starts, ends: int [P], the offsets of its tokens; equal for a token of whitespace.
        of_text: the index of the text in its pair.

    Returns:
        the W words, and int32 [P]: the index of each token's word among them; -1 for a token without a word.
    """
    word_of_char, spans = _find_spans(text)
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    solid = np.flatnonzero(starts < ends)
    first, last = word_of_char[starts[solid]], word_of_char[ends[solid] - 1]
    joined = np.zeros(len(spans) + 1, bool)  # with the word before
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        joined[a + 1 : b + 1] = True
    group = np.cumsum(~joined[: len(spans)]) - 1
    of_token = np.full(len(starts), -1, np.int32)
    there, of_token[solid] = np.unique(group[first], return_inverse=True)
    words = []
    for each in there.tolist():
        members = np.flatnonzero(group == each)
        start, end = int(spans[members[0], 0]), int(spans[members[-1], 1])
        words.append(Word(text[start:end], start, end, of_text))
    return words, of_token


def _find_spans(text):
    """Returns int [code points], the word of each (of whitespace: that before), and int [words, 2], their offsets."""
    chars = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)
    flags = character_flags()[chars]
    space, apart = flags & SPACE != 0, flags & ISOLATED != 0
    letter = ~space & ~apart
    inside = np.zeros(len(chars), bool)
    inside[1:-1] = letter[:-2] & letter[2:] & np.isin(chars[1:-1], _JOINERS)
    apart &= ~inside
    before = np.concatenate([[True], (space | apart)[:-1]])[: len(chars)]
    begins = ~space & (before | apart)
    word = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    solid = np.flatnonzero(~space)
    ends = solid[np.searchsorted(word[solid], np.arange(len(firsts)), "right") - 1] + 1
    return word, np.stack([firsts, ends], 1)
