"""Finds added tokens in a text in plain Python, as in the graph (`added_token_matcher.py`)."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bert_tf.tokenization.added_tokens import AddedToken, check_normalized, is_word_character
from bert_tf.tokenization.characters import WHITE

_WHITE = frozenset(map(chr, WHITE))
_END = "\0"  # closes a normalized text


class Section(NamedTuple):
    """The text between two added tokens, and the one after it.

    Attributes:
        text: the text, which begins at `origin`.
        origin: its position in the whole text.
        token: the added token after it. If None, the whole text ends after this section.
        start, end: the span of this token in the whole text.
    """

    text: str
    origin: int
    token: AddedToken | None = None
    start: int = 0
    end: int = 0


class _Spelled(NamedTuple):
    """A text in which tokens are looked up, and the span in its original that each character came from."""

    chars: str
    starts: Sequence[int]
    ends: Sequence[int]

    def origins(self, first, end) -> tuple[int, int]:
        """Returns the span that its characters from `first` to before `end` came from."""
        last = self.ends[max(end - 1, 0)]
        return (self.starts[first] if first < end else last), last


class FastAddedTokens:
    """Splits a text into sections and the added tokens between them.

    Args:
        tokens: the added tokens to find.
        normalize: text -> its normalized characters, and the span that each came from.
        apart: (first, last) ranges of code points that are not word characters in normalized text.

    Raises:
        ValueError: a token is empty after normalization.
    """

    def __init__(
        self,
        tokens: Sequence[AddedToken],
        normalize: Callable[[str], tuple[str, list[int], list[int]]],
        apart: Sequence[tuple[int, int]],
    ):
        self._normalize = normalize
        raw = [token for token in tokens if not token.normalized]
        rest = [token for token in tokens if token.normalized]
        contents = [normalize(token.content)[0].replace(_END, "") for token in rest]
        check_normalized(rest, contents)
        self._in_text = _SectionFinder(raw, [token.content for token in raw], ()) if raw else None
        self._in_normalized = _SectionFinder(rest, contents, apart) if rest else None

    def __call__(self, text: str) -> list[Section]:
        """Returns the sections of a text, in order; the last one has no token."""
        sections = [Section(text, 0)]
        if self._in_text:
            sections = self._in_text(Section(text, 0), _Spelled(text, range(len(text)), range(1, len(text) + 1)))
        if self._in_normalized:
            spelled = [(each, _Spelled(*self._normalize(each.text))) for each in sections]
            sections = [part for pair in spelled for part in self._in_normalized(*pair)]
        return sections


class _SectionFinder:
    def __init__(self, tokens, contents, apart):
        self._tokens = dict(reversed(list(zip(contents, tokens, strict=True))))  # the lower id counts
        longest_first = sorted(self._tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._apart = apart

    def __call__(self, section: Section, text: _Spelled) -> list[Section]:
        """Returns the sections that the tokens found in the normalized `text` of a section leave."""
        made, begin = [], 0
        for match in self._pattern.finditer(text.chars):
            token, (first, end) = self._tokens[match.group()], match.span()
            if token.single_word and self._is_joined(text.chars, first, end):
                continue
            cut = text.origins(
                _back(text.chars, first) if token.lstrip else first, _ahead(text.chars, end) if token.rstrip else end
            )
            solid = min(_ahead(text.chars, first), end)  # a token is where its text is, without white space
            inside = text.origins(solid, max(_back(text.chars, end), solid))
            spans = (section.origin + place for place in inside)
            # White space that both neighbours take is the first one's.
            made.append(Section(section.text[begin : max(cut[0], begin)], section.origin + begin, token, *spans))
            begin = cut[1]
        return [*made, section._replace(text=section.text[begin:], origin=section.origin + begin)]

    def _is_joined(self, chars, first, end):
        """Returns whether a word character is next to a match."""
        around = chars[max(first - 1, 0) : first] + chars[end : end + 1]
        return any(is_word_character(char, self._apart) for char in around)


def _back(chars, place):
    """Returns where the whitespace before a place begins."""
    while place and chars[place - 1] in _WHITE:
        place -= 1
    return place


def _ahead(chars, place):
    """Returns where the whitespace after a place ends."""
    while place < len(chars) and chars[place] in _WHITE:
        place += 1
    return place
