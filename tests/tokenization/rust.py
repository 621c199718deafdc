"""Comparing ids and offsets with those of Hugging Face's tokenizers, which are written in Rust."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_QUOTES = ("``", "''")
# A letter of Thai that counts as an accent where graphemes are told apart, and what completes a syllable of Korean.
_JOINING = {"\u0e33", *map(chr, range(0x1160, 0x1200))}
_BATCH = 2000


class Difference(NamedTuple):
    """A text of which we make something else: ids, and (start, end) of each."""

    text: str
    ours: tuple[list, list]
    theirs: tuple[list, list]

    @property
    def of_ids(self) -> bool:
        return self.ours[0] != self.theirs[0]


def differences(tokenizer, texts: Sequence[str], expected: Sequence) -> Iterator[Difference]:
    """Yields the texts with other ids, or with offsets that mean something else (see `_same`).

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
            if own != theirs or not all(_same(text, *pair) for pair in zip(ours, spans, strict=True)):
                yield Difference(text, (own, ours), (theirs, spans))


def _same(text, ours, theirs):
    """Whether a span of ours is one of theirs, but for what we do otherwise on purpose.

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
