"""Code points: the Unicode tables of Google's BERT tokenizer, built from Python's `unicodedata`, and other character
properties that tokenizers need.

These tables are used instead of TensorFlow's regular expressions (RE2, ICU), because those libraries have their own
Unicode versions, whereas google-research/bert follows the Python version that runs it.
"""

import functools
import itertools
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# What a character is; the bits of CharacterTable.flags.
SPACE = 1 << 0  # ends a word
ISOLATED = 1 << 1  # punctuation and CJK ideographs: a word of their own
MARK = 1 << 2  # category Mn: stripped after decomposition when the text is lowercased
REORDERED = 1 << 3  # combining, but not a mark that is stripped: canonical order matters for what stays
COMBINING_CLASS = 1 << 4  # times the canonical combining class: bits 4 to 11
FORM_BITS = 12
FORM = (1 << FORM_BITS) - 1  # all of the above: the flags that an entry of CharacterTable.forms carries
DELETED = 1 << FORM_BITS  # NUL, U+FFFD and control characters: gone before anything else is looked at
CASED = 2 << FORM_BITS  # Unicode's Cased, as far as it makes a neighbouring capital sigma final
TRANSPARENT = 4 << FORM_BITS  # Unicode's Case_Ignorable: the search for a cased neighbour of a sigma looks through it

PAGE_BITS = 7
PAGE = 1 << PAGE_BITS  # characters in one page of the tables
NOTHING = -(1 << 31)  # in CharacterTable.forms: no character here; differences are below 2 ** 19, and so never this

CODE_POINTS = 0x110000  # how many there are
_PLANES = range(0x40000), range(0xE0000, 0xF0000)  # the others are empty or private
# The same without the blocks of unified ideographs: two assigned characters of three, letters in their only form.
_PLANES_BUT_IDEOGRAPHS = (
    range(0x3400), range(0x4DC0, 0x4E00), range(0xA000, 0x20000), range(0x2A6E0, 0x2A700), range(0x2EBF0, 0x30000),
    range(0x323B0, 0x40000), range(0xE0000, 0xF0000),
)  # fmt: skip
# White space of Unicode.
WHITE = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
# The blocks that google-research/bert calls Chinese characters; later extensions of Unicode are not among them.
CJK = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")  # ASCII that Unicode calls symbols and google-research/bert punctuation


def assigned(ideographs: bool = True) -> Iterator[tuple[int, str, str]]:
    """Yields code point, character and category of every assigned character, except private ones and surrogates.

    With `ideographs` false also without unified ideographs: for those who look for marks, symbols, case or other forms.
    """
    for code in itertools.chain(*(_PLANES if ideographs else _PLANES_BUT_IDEOGRAPHS)):
        char = chr(code)
        category = unicodedata.category(char)
        if category not in ("Cn", "Co", "Cs"):
            yield code, char, category


def flags_of_character(char: str) -> int:
    """Returns the flags of one character, as in `character_flags`, which takes longer for its whole table."""
    category = unicodedata.category(char)
    flags = 0 if category in ("Cn", "Co", "Cs") else _flags(char, category)
    return flags | (ISOLATED if any(first <= ord(char) <= last for first, last in CJK) else 0)


def form_of(char: str, lower: bool, decompose: bool) -> str:
    """Returns what a character becomes: lowercased, and canonically decomposed with its marks."""
    form = char.lower() if lower else char
    return unicodedata.normalize("NFD", form) if decompose else form


class CharacterTable(NamedTuple):
    """Two-level tables over all code points: `c` has its position at `pages[c // PAGE] + c % PAGE`.

    Attributes:
        pages: int32 [8704], where each run of 128 code points begins in the other two (equal pages are kept once).
        flags: int32 [positions], the bits above.
        forms: int32 [positions, longest], the characters that `c` becomes: for each, its difference from `c`, times
            2 ** FORM_BITS, plus its flags below DELETED; NOTHING where there are fewer, or `c` is DELETED.
    """

    pages: np.ndarray
    flags: np.ndarray
    forms: np.ndarray


@functools.cache
def character_flags() -> np.ndarray:
    """Returns the flags of each code point, int32 [code points], in this Python's Unicode version; cached."""
    flags = np.zeros(CODE_POINTS, np.int32)
    for code, char, category in assigned(ideographs=False):  # the others are ordinary letters to BERT
        flags[code] = _flags(char, category)
    for first, last in CJK:
        flags[first : last + 1] |= ISOLATED
    return flags


@functools.cache
def character_table(lower: bool, decompose: bool, /) -> CharacterTable:
    """Returns the tables of this Python's Unicode version; takes a fraction of a second, then cached.

    Args:
        lower: whether `forms` is lowercased.
        decompose: whether `forms` is canonically decomposed, with marks kept.
    """
    flags, changed = character_flags(), {}
    for code, char, _ in assigned(ideographs=False) if lower or decompose else ():
        form = form_of(char, lower, decompose)
        if form != char:
            changed[code] = [ord(each) for each in form]
    return _build_pages(flags, _forms(flags, changed))


def _forms(flags, changed):
    """Returns `CharacterTable.forms` of all code points; `changed` maps those that change to their new code points."""
    forms = np.full((CODE_POINTS, max([1, *map(len, changed.values())])), NOTHING, np.int32)
    forms[:, 0] = flags & FORM
    for code, form in changed.items():
        forms[code, : len(form)] = [(each - code) * (1 << FORM_BITS) + (flags[each] & FORM) for each in form]
    forms[flags & DELETED != 0] = NOTHING
    return forms


def _flags(char, category):
    """Returns the flags of one assigned character, without the CJK flag."""
    flags = unicodedata.combining(char) * COMBINING_CLASS
    if char in "\0\ufffd" or category in ("Cc", "Cf") and char not in "\t\n\r":
        flags |= DELETED | TRANSPARENT  # no neighbour of a sigma either
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
    """Returns CASED, TRANSPARENT or 0, derived from `str.lower`, because Python does not expose these properties."""
    if (char + "\u03a3").lower().endswith("\u03c2"):  # a capital sigma after it, at a word's end, becomes final
        return CASED
    return TRANSPARENT if ("A" + char + "\u03a3").lower().endswith("\u03c2") else 0


def _build_pages(flags, forms):
    """Keeps each distinct page once: most of Unicode is ordinary letters, its own lower case."""
    rows = np.concatenate([flags[:, None], forms], axis=1).reshape(CODE_POINTS // PAGE, -1)
    seen: dict[bytes, int] = {}
    pages = np.array([PAGE * seen.setdefault(row.tobytes(), len(seen)) for row in rows], np.int32)
    entries = np.frombuffer(b"".join(seen), np.int32).reshape(-1, 1 + forms.shape[1])
    return CharacterTable(pages, entries[:, 0].copy(), entries[:, 1:].copy())
