"""Normalizes text to Unicode's NFC, as `composition.py` does, and to NFKC, in plain Python, with a map back to the
original text."""

import functools
import itertools
import re
import unicodedata

_PLANES = 0x20000  # no character beyond is composed
_SYLLABLES, _CODAS = (0xAC00, 0xD7A3), 28  # of Korean; one in 28 has none
_LEADS, _VOWELS, _ENDS = (0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)


# Python sorts marks by inserting one after the other, so that many cost the square of their number. No mark is \\w.
_LONG_RUN = re.compile(r"\W{31,}")


def compose(text: str) -> str:
    """Returns a text in NFC; long runs of marks are decomposed and sorted before."""
    return unicodedata.normalize("NFC", _LONG_RUN.sub(lambda run: _sorted_marks(run.group()), text))


def composed_spans(text: str) -> tuple[list[int], list[int]]:
    """Returns where the origin of each character of `compose(text)` starts and ends in the text.

    What changes is replaced as a whole: its first character came from all of it, others from its last character.
    """
    starts, ends, begin = [], [], 0
    for end in range(1, len(text) + 1):
        if end < len(text) and not (_begins(text[end]) or _ends(text[end - 1])):
            continue
        part = text[begin:end]
        made = compose(part)
        same = len(part) if made == part else int(len(part) > 1 and not _composes(part[0]))
        starts += range(begin, begin + same)
        ends += range(begin + 1, begin + same + 1)
        changed = len(made) - same
        starts += [begin + same, *[end - 1] * (changed - 1)][:changed]
        ends += [end] * changed
        begin = end
    return starts, ends


def compatible_spans(text: str) -> tuple[str, list[int], list[int]]:
    """Returns a text in NFKC, and where the origin of each of its characters starts and ends in the text.

    What changes is replaced as a whole: all of its characters came from all of it.
    """
    if text.isascii():
        return text, list(range(len(text))), list(range(1, len(text) + 1))
    parts, starts, ends, begin = [], [], [], 0
    for end in range(1, len(text) + 1):
        if end < len(text) and not _begins(unicodedata.normalize("NFKD", text[end])[0]):
            continue
        part = text[begin:end]
        made = unicodedata.normalize("NFKC", _LONG_RUN.sub(lambda run: _sorted_marks(run.group()), part))
        starts += range(begin, end) if made == part else [begin] * len(made)
        ends += range(begin + 1, end + 1) if made == part else [end] * len(made)
        parts.append(made)
        begin = end
    return "".join(parts), starts, ends


def _sorted_marks(text):
    """Returns a text with the marks of each run decomposed and in the order of their classes."""
    runs = itertools.groupby(text, lambda char: bool(unicodedata.combining(char)))
    return "".join("".join(_in_order(run) if is_mark else run) for is_mark, run in runs)


def _in_order(marks):
    return sorted("".join(unicodedata.normalize("NFD", mark) for mark in marks), key=unicodedata.combining)


def _begins(char):
    """Returns whether a character is never composed with what is before it, nor moved."""
    return not (unicodedata.combining(char) or char in _composed_pairs()[1] or _within(char, _VOWELS, _ENDS))


def _ends(char):
    """Returns whether a character is replaced by others, of which the last is never composed with what follows."""
    made = unicodedata.normalize("NFC", char)
    return made != char and not _composes(made[-1])


def _composes(char):
    """Returns whether a character may be composed with what follows it, or moved."""
    if _within(char, _SYLLABLES):
        return (ord(char) - _SYLLABLES[0]) % _CODAS == 0
    moves = unicodedata.combining(char) or unicodedata.normalize("NFD", char) != char
    return bool(moves) or char in _composed_pairs()[0] or _within(char, _LEADS)


def _within(char, *ranges):
    return any(first <= ord(char) <= last for first, last in ranges)


@functools.cache
def _composed_pairs() -> tuple[frozenset[str], frozenset[str]]:
    """Returns the characters that begin, and those that end, a pair that NFC makes one character."""
    pairs = []
    for char in map(chr, range(_PLANES)):
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and parts[0][0] != "<" and unicodedata.normalize("NFC", char) == char:
            pairs.append([chr(int(part, 16)) for part in parts])
    return frozenset(first for first, _ in pairs), frozenset(last for _, last in pairs)
