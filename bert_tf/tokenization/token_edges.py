"""Which tokens continue a word and which end one, where a token's text alone decides, as in BPE and unigram models."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.tokenization.word_boundaries import ALONE, ATTACHED, BLANK, character_classes

# Bytes that "surrogateescape" decodes to these are part of a character that several tokens share: one that continues
# it, or the first one of an ideograph, a Hangul syllable or an emoji (U+3000 and later).
_BYTES, _CONTINUING, _FIRST_BYTE = range(0xDC80, 0xDD00), range(0xDC80, 0xDCC0), range(0xDCE3, 0xDD00)


class TokenEdges(NamedTuple):
    """How the tokens of a vocabulary make up words, bool [vocab_size] each.

    Attributes:
        continues: true for a token that continues the word of the token before it.
        ends: true for a token that ends its word: the next token begins one, whatever it is.
    """

    continues: np.ndarray
    ends: np.ndarray


def find_token_edges(texts: Sequence[str], apart: Sequence[bool]) -> TokenEdges:
    """Returns the edges of words, which are divided as by WordPiece: at spaces, punctuation, symbols and ideographs.

        " film"  "s"   ","   " 北"  "京"            the texts of tokens
        no       yes   no    no     no              continues
        no       no    yes   yes    yes             ends

    Args:
        texts: the text of each token, with a space in front if it begins a word; bytes that are no whole character as
            the "surrogateescape" of Python decodes them.
        apart: true for a token that is a word by itself, such as an added token.
    """
    classes = character_classes("punctuation")
    edges = [_edges(text, classes) for text in texts]
    continues, ends = (np.array(column, bool) for column in zip(*edges, strict=True))
    apart = np.asarray(apart, bool)
    return TokenEdges(continues & ~apart, ends | apart)


def _edges(text, classes):
    """Returns whether a token continues a word, and whether it ends one."""
    if not text:
        return False, True
    first = ord(text[0])
    continues = first in _CONTINUING or (first not in _FIRST_BYTE and classes[first] not in (BLANK, ALONE))
    if text == " " or ord(text[-1]) in _BYTES:  # the mark alone of a word that follows, or a part of a character
        return continues, False
    own = (classes[ord(char)] for char in reversed(text) if classes[ord(char)] != ATTACHED)
    return continues, next(own, None) in (BLANK, ALONE)
