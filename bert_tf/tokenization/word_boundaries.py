"""Where a text is divided into the words that a tagger tags; `tagging_words` has the same as a graph.

boundaries   "Paris-based, 北京"
whitespace   Paris-based,   北京           models of columns, whose words may contain punctuation
punctuation  Paris - based ,   北 京       models of character spans; scripts without spaces have no other words
characters   P a r i s - b a s e d , ...   entities that begin or end anywhere: each token is tagged by itself
"""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bert_tf.tokenization.characters import CODE_POINTS, DELETED, ISOLATED, MARK, PAGE, SPACE, assigned, character_flags

# What a word between spaces may have at its edges without being part of the name that it is in.
EDGES = ".,;:!?\"'()[]{}<>…‘’‚“”„«»‹›¡¿、。，；：！？（）「」『』《》"
_WORD = re.compile(r"\S+")
# Scripts that are written without spaces, and Korean, whose names end inside words. CJK ideographs are ISOLATED.
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x3040, 0x31FF), (0xAC00, 0xD7A3),
    (0xFF66, 0xFFDC), (0x2EBF0, 0x2EE5D), (0x30000, 0x323AF),
)  # fmt: skip
_FIRST_UNSPACED = chr(min(_UNSPACED)[0])
_SINGLE = 0.95  # share of the words of such scripts
ORDINARY, BLANK, ALONE, ATTACHED = range(4)  # classes of characters: ALONE is a word, ATTACHED none by itself


def word_spans(text: str, boundaries: str = "whitespace") -> list[tuple[int, int]]:
    """Returns (start, end) of each word of a text: half-open, in code points.

    Args:
        text: without surrogates.
        boundaries: one of `names.WORD_BOUNDARIES`.
    """
    if boundaries == "whitespace" or not text:
        return [match.span() for match in _WORD.finditer(text)]
    classes = character_classes(boundaries)[np.frombuffer(text.encode("utf-32-le"), "<u4")]
    solid = classes != BLANK
    attached = (classes == ATTACHED) & np.append(False, solid[:-1])
    group = np.append(BLANK, classes[~attached])[np.cumsum(~attached)]  # the class of what a mark is attached to
    before = np.append(BLANK, group[:-1])
    begins = solid & ~attached & ((before == BLANK) | (before == ALONE) | (classes == ALONE))
    ends = solid & np.append(begins[1:] | ~solid[1:], True)
    return list(zip(np.flatnonzero(begins).tolist(), (np.flatnonzero(ends) + 1).tolist(), strict=True))


def find_boundaries(sentences: Sequence[Sequence[str]]) -> str:
    """Returns where words of texts end so that they are like those of tagged sentences.

    "punctuation" if most words are single characters of scripts without spaces, as in Chinese files with one character
    per line; otherwise "whitespace".
    """
    words = [word for word in itertools.chain.from_iterable(sentences) if word[0] >= _FIRST_UNSPACED and word.isalpha()]
    if not words:
        return "whitespace"
    classes, total = character_classes("punctuation"), sum(map(len, sentences))
    counts = Counter(len(word) for word in words if classes[ord(word[0])] == ALONE)
    return "punctuation" if counts[1] > max(total / 2, _SINGLE * counts.total()) else "whitespace"


def inner_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a word's span without punctuation at its edges, as served: "Rome," -> "Rome"; "U.S." is unchanged."""
    word = text[start:end]
    edges = EDGES.replace(".", "") if word.count(".") > 1 else EDGES
    inner = word.strip(edges)
    first = start + len(word) - len(word.lstrip(edges))
    return (first, first + len(inner)) if inner else (start, end)


@functools.cache
def character_classes(boundaries: str) -> np.ndarray:
    """Returns the class of each code point, int32 [code points], for one of `names.WORD_BOUNDARIES`; cached."""
    flags = character_flags()
    alone = flags & ISOLATED != 0
    for code, _, category in assigned(ideographs=False):
        alone[code] |= category[0] == "S"
    for first, last in _UNSPACED:
        alone[first : last + 1] = True
    alone |= boundaries == "characters"
    classes = np.where(alone, ALONE, ORDINARY)
    classes[flags & (MARK | DELETED) != 0] = ATTACHED
    classes[flags & SPACE != 0] = BLANK
    return classes.astype(np.int32)


@functools.cache
def class_pages(boundaries: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the classes as the two tables of `characters.CharacterTable`, each distinct page once."""
    classes = character_classes(boundaries).reshape(CODE_POINTS // PAGE, PAGE)
    rows, pages = np.unique(classes, axis=0, return_inverse=True)
    return (pages.reshape(-1) * PAGE).astype(np.int32), rows.reshape(-1).astype(np.int32)
