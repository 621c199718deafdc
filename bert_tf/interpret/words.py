"""The words that a reader sees in a text, and which of them each piece is of, whatever the tokenizer calls a word."""

from typing import NamedTuple

import numpy as np

from bert_tf.tokenization.characters import ISOLATED, PAGE, SPACE, character_table

_JOINERS = np.array(list(map(ord, "'\u2019-._\u00ad")))  # between letters they part no words: "don't", "e-mail"


class Word(NamedTuple):
    """A word, by the characters of the text that it stands in.

    Attributes:
        text: as the user wrote it.
        start, limit: where it lies in its text, half-open, in code points.
        of_text: which text it is of: 0, or 1 for the second of a pair.
    """

    text: str
    start: int
    limit: int
    of_text: int = 0


def words_of(text: str, starts: np.ndarray, limits: np.ndarray, of_text: int = 0) -> tuple[list[Word], np.ndarray]:
    """Returns the words of a text that have a piece, and the word of each piece.

    White space and punctuation end a word, and a Chinese character is one by itself; what one piece lies over is never
    parted.

        text     I don't, 東京.            words    I  don't  ,  東  京  .

    Args:
        text: the text.
        starts, limits: int [P], where each of its pieces lies in it; equal for a piece of white space.
        of_text: which of a row's texts it is.

    Returns:
        the W words, and int32 [P]: the place of each piece's word among them; -1 for a piece of none.
    """
    word_of_char, spans = _spans(text)
    starts, limits = np.asarray(starts, np.int64), np.asarray(limits, np.int64)
    solid = np.flatnonzero(starts < limits)
    first, last = word_of_char[starts[solid]], word_of_char[limits[solid] - 1]
    joined = np.zeros(len(spans) + 1, bool)  # with the word before
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        joined[a + 1 : b + 1] = True
    group = np.cumsum(~joined[: len(spans)]) - 1
    of_piece = np.full(len(starts), -1, np.int32)
    there, of_piece[solid] = np.unique(group[first], return_inverse=True)
    words = []
    for each in there.tolist():
        members = np.flatnonzero(group == each)
        start, limit = int(spans[members[0], 0]), int(spans[members[-1], 1])
        words.append(Word(text[start:limit], start, limit, of_text))
    return words, of_piece


def _spans(text):
    """Returns int [code points], the word of each (of white space: that before), and int [words, 2], where they lie."""
    chars = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)
    table = character_table()
    flags = table.flags[table.pages[chars // PAGE] * PAGE + chars % PAGE]
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
    limits = solid[np.searchsorted(word[solid], np.arange(len(firsts)), "right") - 1] + 1
    return word, np.stack([firsts, limits], 1)
