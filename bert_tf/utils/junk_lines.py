"""Junk lines, which teach a language model nothing: tables, rulers, page numbers, encoded data."""

import re
import unicodedata

_LONG_RUN = re.compile(r"[!-~]{101}")


def is_junk(sentence: str) -> bool:
    """Returns whether fewer than half of the characters are letters, or 100 ASCII ones follow without a space.

        * * * * * * * *      1,024   98.6   0.31      . . . . . 47      QmFzZTY0IGRhdGEgaXMgbm90IGxhbmd1YWdl...
        12 letters at 12:47, said he                kept: 16 of 23

    White space does not count, marks as letters (half of written Hindi is marks). The longest words of any
    language have fewer than 100 letters, but Chinese or Thai writes whole sentences without a space: hence ASCII.
    """
    letters = len(sentence.translate(_LETTERS))
    if 2 * letters < len(sentence) and 2 * letters < len("".join(sentence.split())):
        return True
    return _LONG_RUN.search(sentence) is not None


class _Letters(dict):
    """A table for `str.translate` that keeps letters and marks: filled with the characters as they come."""

    def __missing__(self, code):
        self[code] = code if unicodedata.category(chr(code))[0] in "LM" else None
        return self[code]


_LETTERS = _Letters()
