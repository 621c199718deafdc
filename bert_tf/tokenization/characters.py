"""Code points: the Unicode tables of Google's BERT tokenizer, made from Python's own `unicodedata`, and what else the
tokenizers need to know of characters.

The tables, and not the regular expressions of TensorFlow (RE2, ICU), decide: each of those libraries carries a Unicode
version of its own, and google-research/bert's answer is by definition the one of the Python that runs it.
"""

import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# What a character is; the bits of CharacterTable.flags.
DELETED = 1 << 0  # NUL, U+FFFD and control characters: gone before anything else is looked at
SPACE = 1 << 1  # ends a word
ISOLATED = 1 << 2  # punctuation and CJK ideographs: a word of their own
MARK = 1 << 3  # category Mn: stripped after decomposition when the text is lowercased
CASED = 1 << 4  # Unicode's Cased, as far as it makes a neighbouring capital sigma final
TRANSPARENT = 1 << 5  # Unicode's Case_Ignorable: the search for a cased neighbour of a sigma looks through it
REORDERED = 1 << 6  # combining, but not a mark that is stripped: canonical order matters for what stays
COMBINING_CLASS = 1 << 8  # times the canonical combining class: bits 8 to 15

PAGE = 128  # characters in one page of the tables
LONGEST = 4  # characters in the longest lowercased canonical decomposition
NOTHING = 1 << 30  # in CharacterTable.deltas: no character here

CODE_POINTS = 0x110000  # how many there are
# White space of Unicode.
WHITE = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
# The blocks that google-research/bert calls Chinese characters; later extensions of Unicode are not among them.
CJK = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")  # ASCII that Unicode calls symbols and google-research/bert punctuation


class CharacterTable(NamedTuple):
    """Two-level tables over all code points: `c` has its position at `pages[c // PAGE] * PAGE + c % PAGE`.

    Attributes:
        pages: int32 [8704], which page of the other two holds these 128 code points (equal pages are kept once).
        flags: int32 [positions], the bits above.
        deltas: int32 [positions, 4], what to add to `c` for each character of its lowercased canonical decomposition,
            marks included; NOTHING where it is shorter.
    """

    pages: np.ndarray
    flags: np.ndarray
    deltas: np.ndarray


@functools.cache
def character_table(decompose: bool = True) -> CharacterTable:
    """Returns the tables of this Python's Unicode version; takes about a second the first time, nothing later.

    Args:
        decompose: False: `deltas` has the character's lower case as it is, not decomposed.
    """
    flags = np.zeros(CODE_POINTS, np.int32)
    deltas = np.full((CODE_POINTS, LONGEST), NOTHING, np.int32)
    deltas[:, 0] = 0
    for code in range(CODE_POINTS):
        char = chr(code)
        category = unicodedata.category(char)
        if category in ("Cn", "Co", "Cs"):  # unassigned, private: ordinary letters to BERT
            continue
        flags[code] = _flags(char, category)
        form = unicodedata.normalize("NFD", char.lower()) if decompose else char.lower()
        if form != char:
            deltas[code, : len(form)] = [ord(c) - code for c in form]
    for first, last in CJK:
        flags[first : last + 1] |= ISOLATED
    return _build_pages(flags, deltas)


def _flags(char, category):
    """The bits of one assigned character, without CJK's."""
    flags = unicodedata.combining(char) * COMBINING_CLASS
    if char in "\0\ufffd" or category in ("Cc", "Cf") and char not in "\t\n\r":
        flags |= DELETED
    elif category == "Zs" or char.isspace():
        flags |= SPACE
    elif category.startswith("P") or char in _ASCII_SYMBOLS:
        flags |= ISOLATED
    if category == "Mn":
        flags |= MARK
    elif unicodedata.combining(char):
        flags |= REORDERED
    return flags | _sigma_flags(char)


def _sigma_flags(char):
    """CASED, TRANSPARENT or neither, asked of `str.lower` itself: Python shows these properties in no other way."""
    if (char + "\u03a3").lower().endswith("\u03c2"):  # a capital sigma after it, at a word's end, becomes final
        return CASED
    return TRANSPARENT if ("A" + char + "\u03a3").lower().endswith("\u03c2") else 0


def _build_pages(flags, deltas):
    """Keeps each distinct page once: most of Unicode is ordinary letters, its own lower case."""
    rows = np.concatenate([flags[:, None], deltas], axis=1).reshape(CODE_POINTS // PAGE, -1)
    seen: dict[bytes, int] = {}
    pages = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in rows], np.int32)
    entries = np.frombuffer(b"".join(seen), np.int32).reshape(-1, 1 + LONGEST)
    return CharacterTable(pages, entries[:, 0].copy(), entries[:, 1:].copy())


# === In the graph ===


def shift(values, by):
    """Returns values moved `by` positions to the right, to the left below zero, with zeros where none comes from."""
    count = tf.minimum(abs(by), tf.size(values))
    fill = tf.zeros([count], values.dtype)
    return tf.concat([fill, values[: tf.size(values) - count]] if by > 0 else [values[count:], fill], 0)


def utf8_lengths(codes):
    """Returns how many bytes each code point takes in UTF-8, int32 like `codes`."""
    return 1 + sum(tf.cast(codes >= longer, tf.int32) for longer in (0x80, 0x800, 0x10000))
