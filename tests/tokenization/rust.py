"""Texts to compare ids and offsets on with Hugging Face's tokenizers, which are written in Rust, and the comparison."""

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
