"""What the tokenizers in plain Python share: the tokens of a text, and a cache of what its words become."""

from collections.abc import Callable
from typing import Any, NamedTuple

_MOST_WORDS, _LONGEST_WORD = 2**15, 48  # some 20 MB; longer words seldom come again


class Tokens(NamedTuple):
    """The tokens of a text: token n came from text[starts[n]:ends[n]]."""

    ids: list[int]
    starts: list[int]
    ends: list[int]

    def extend(self, more: "Tokens", origin: int):
        """Appends the tokens of what begins at `origin` in this text."""
        self.ids.extend(more.ids)
        self.starts.extend([start + origin for start in more.starts])
        self.ends.extend([end + origin for end in more.ends])

    def cut(self, first: int, count: int) -> "Tokens":
        """Returns at most `count` tokens from number `first` on."""
        return Tokens(*(column[first : first + count] for column in self))


def solid_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the span of text[start:end] without the spaces around it; that of spaces alone is empty, at its end."""
    part = text[start:end]
    solid = part.strip(" ")
    first = start + len(part) - len(part.lstrip(" ")) if solid else end
    return first, first + len(solid)


class WordCache(dict):
    """word -> `compute(word)`, which is remembered unless the word is long; a full cache is cleared."""

    def __init__(self, compute: Callable[[str], Any]):
        super().__init__()
        self._compute = compute

    def __missing__(self, word: str) -> Any:
        value = self._compute(word)
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = value
        return value
