"""Texts to compare ids and offsets on with Hugging Face's tokenizers, which are written in Rust, and the comparison."""

import itertools
import pathlib
import random
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_QUOTES = ("``", "''")
# A letter of Thai that counts as an accent where graphemes are told apart, and what completes a syllable of Korean.
_JOINING = {"\u0e33", *map(chr, range(0x1160, 0x1200))}
_BATCH = 2000
_ATOMS = (
    "a", "b", "A", "B", " ", "  ", "   ", "\t", "\n", "\r\n", "\0", "\x07", "'", "'s", "'t", "'re", "'ll", " 's", "``",
    "''", "the", "ing", "aaa", "1", "23", "9,", "12,5", "!", "?", "_", "-", "(", ")", "\u00e9", "e\u0301", "\u4e2d",
    "\u6587", "\U0001f600", "\U0001f468\u200d\U0001f469", "\u00a0", "\u3000", "\u017f", "\u2167", "\u00b2", "\u200b",
    "\u200d", "\u2581", "\u00bd", "\ufb01", "\ud55c", "\uad6d", "\u0130", "\u00df", "\u03a3", "\u03c2", "\u03a9",
    "\u094d", "\u0915\u093c", "\u0e33", "\uff0c", "\u2014", "\u2026", "<s>", "[CLS]",
)  # fmt: skip
_BLOCKS = ((0x20, 0x7F), (0x20, 0x250), (0x250, 0x370), (0x370, 0x3000), (0x3000, 0xD7FF), (0xE000, 0x1FFFF))
# Script -> where its characters are, and what stands between words and at the end of a text.
_SCRIPTS = {
    "Latin": (((0x41, 0x5B), (0x61, 0x7B), (0xC0, 0x250), (0x1E00, 0x1EFA)), " ", ".?!"),
    "Greek": (((0x386, 0x3CF), (0x1F00, 0x1FFF)), " ", ".;!"),
    "Cyrillic": (((0x400, 0x482), (0x48A, 0x500)), " ", ".?!"),
    "Hebrew": (((0x5B0, 0x5F5),), " ", ".?\u05c3"),
    "Arabic": (((0x621, 0x656), (0x671, 0x6D6)), " ", ".\u061f\u06d4"),
    "Devanagari": (((0x901, 0x970),), " ", "\u0964?!"),
    "Bengali": (((0x981, 0x9F2),), " ", "\u0964?!"),
    "Tamil": (((0xB82, 0xBF0),), " ", ".?!"),
    "Thai": (((0xE01, 0xE5A),), "", " \u0e2f"),
    "Chinese": (((0x4E00, 0x9FA6),), "", "\u3002\uff1f\uff01"),
    "Japanese": (((0x3041, 0x3097), (0x30A1, 0x30FF), (0x5E00, 0x5F00)), "", "\u3002\u300d\uff01"),
    "Korean": (((0xAC00, 0xD7A4),), " ", ".?!"),
}
_TEXTS_PER_SCRIPT, _WORDS_PER_SCRIPT = 850, 150


def xnli_texts(shared_data: pathlib.Path) -> list[str]:
    """Returns the texts of XNLI's development sets, 52,290 in seven scripts."""
    files = sorted((shared_data / "xnli").glob("dev-*.tsv"))
    lines = (line for file in files for line in file.read_text(encoding="utf-8").split("\n"))
    return [text for line in lines for text in line.split("\t") if text]


def mixed_texts() -> list[str]:
    """Returns 20,000 random strings, of what tokenizers find hard and of any characters."""
    rng = random.Random(0)
    mixed = ["".join(rng.choices(_ATOMS, k=rng.randrange(15))) for _ in range(14_000)]
    return mixed + ["".join(_random_character(rng) for _ in range(rng.randrange(9))) for _ in range(6_000)]


def script_texts() -> list[str]:
    """Returns 10,200 texts of made-up words in 12 scripts; an eighth of them is decomposed, an eighth in capitals."""
    rng = random.Random(3)
    return [text for script in _SCRIPTS.values() for text in _texts_in_script(rng, *script)]


def _texts_in_script(rng, ranges, space, ends):
    # Characters that every Python and every table of Unicode knows alike.
    chars = [chr(code) for code in itertools.chain.from_iterable(itertools.starmap(range, ranges))]
    kinds = {char: unicodedata.ucd_3_2_0.category(char) for char in chars}
    letters, marks, digits = ([c for c in chars if kinds[c][0] == kind] for kind in "LMN")
    words = ["".join(_syllable(rng, letters, marks) for _ in range(rng.randrange(1, 6)))
             for _ in range(_WORDS_PER_SCRIPT)]  # fmt: skip
    frequency = [1 / (n + 2) for n in range(len(words))]
    for _ in range(_TEXTS_PER_SCRIPT):
        chosen = rng.choices(words, frequency, k=rng.randrange(1, 13))
        if rng.random() < 0.3:
            chosen.insert(rng.randrange(len(chosen)), "".join(rng.choices(digits or "0123456789", k=2)))
        form = rng.randrange(8)
        text = space.join(chosen) + rng.choice(ends)
        yield unicodedata.normalize("NFD", text) if form == 0 else text.upper() if form == 1 else text


def _syllable(rng, letters, marks):
    return rng.choice(letters) + (rng.choice(marks) if marks and rng.random() < 0.4 else "")


def _random_character(rng):
    return chr(rng.randrange(*rng.choice(_BLOCKS)))


class Difference(NamedTuple):
    """A text of which we make something else: ids, and (start, end) of each."""

    text: str
    ours: tuple[list, list]
    theirs: tuple[list, list]

    @property
    def of_ids(self) -> bool:
        return self.ours[0] != self.theirs[0]


def differences(tokenizer, texts: Sequence[str], expected: Sequence) -> Iterator[Difference]:
    """Yields the texts with other ids, or with offsets that mean something else (see `same_span`).

    Args:
        tokenizer: ours.
        texts: the texts.
        expected: of each the ids, and the offsets in a flat list: start, end, start, and so on.
    """
    for begin in range(0, len(texts), _BATCH):
        part = texts[begin : begin + _BATCH]
        ids, starts, ends = tokenizer.tokenize_with_offsets([text.encode("utf-8") for text in part])
        found = (ids.to_list(), starts.to_list(), ends.to_list())
        rows = zip(part, *found, expected[begin : begin + _BATCH], strict=True)
        for text, own, first, last, (theirs, offsets) in rows:
            ours = list(zip(first, last, strict=True))
            spans = list(zip(offsets[::2], offsets[1::2], strict=True))
            if own != theirs or not all(same_span(text, *pair) for pair in zip(ours, spans, strict=True)):
                yield Difference(text, (own, ours), (theirs, spans))


def same_span(text: str, ours: tuple[int, int], theirs: tuple[int, int]) -> bool:
    """Returns whether a span of ours is one of theirs, but for what we do otherwise on purpose.

    A span of spaces alone is nowhere, by whichever end it is named; no span has spaces before it. Accents that were
    stripped or composed count to the letter before them. Of two quotation marks that became one, both count.
    """
    ours, theirs = _plain(text, *ours), _plain(text, *theirs)
    start, end = ours
    starts, ends = {start}, {end}
    if text[start : start + 2] in _QUOTES:
        starts.add(start + 1)
    while end > start + 1 and (unicodedata.category(text[end - 1])[0] == "M" or text[end - 1] in _JOINING):
        end -= 1
        ends.add(end)
    return theirs[0] in starts and theirs[1] in ends


def _plain(text, start, end):
    while start < end and text[start] == " ":
        start += 1
    return (start, end) if start < end else (0, 0)
