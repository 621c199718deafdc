"""Merges of byte pair encoding: those that can ever apply, over the characters that represent bytes or over others."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence


def byte_symbols() -> list[str]:
    """Returns the character that represents each of the 256 bytes in vocabulary files."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    codes = dict(zip(printable, printable, strict=True)) | {byte: 256 + n for n, byte in enumerate(others)}
    return [chr(codes[byte]) for byte in range(256)]


def check_merges(vocab: Mapping[str, int], merges: Sequence[tuple[str, str]]):
    """Raises ValueError if a byte, a part of a merge or its result is not in the vocabulary, token -> id."""
    byte = next((n for n, symbol in enumerate(byte_symbols()) if symbol not in vocab), None)
    lacking = next((a + b for a, b in merges if not {a, b, a + b} <= vocab.keys()), None)
    if byte is not None or lacking:
        lacks = f"the merge of {lacking!r}" if lacking else f"byte {byte}"
        raise ValueError(f"The byte-level vocabulary is incomplete: it lacks {lacks}. Use the complete files.")


def effective_merges(merges: Sequence[tuple[str, str]], symbols: Iterable[str] | None = None) -> dict[str, int]:
    """Returns {token: index of the merge that creates it}.

    SentencePiece merges two tokens whenever their concatenation is a token; tokenizer.json and merges.txt require the
    merge of exactly these two. Both have the same result if each token has a single merge, by which its own text
    becomes this token. A merge for which this does not hold never happens in any text: two tokens get next to each
    other only as they do in their own text, because what is merged is never split again.

    Args:
        merges: pairs of tokens, in the order they were learned.
        symbols: the characters that are merged. If None, those that represent bytes.
    """
    ranks: dict[tuple[str, str], int] = {}
    for number, pair in enumerate(merges):
        ranks.setdefault(pair, number)  # of a merge that occurs twice, the first counts
    symbols = byte_symbols() if symbols is None else symbols
    made = {symbol: (-1, "", "") for symbol in symbols}  # by which merge, and of which two tokens
    for (left, right), number in ranks.items():
        if left not in made or right not in made:
            return _simulated(ranks)  # a part is made by a later merge, or never
        if not _is_crossed(left, right, number, ranks.get, made):
            made[left + right] = number, left, right
    return {token: number for token, (number, _, _) in made.items() if number >= 0}


def _is_crossed(left, right, number, rank_of, made):
    """Returns whether a merge before `number` joins parts of two tokens: the end of `left`, the beginning of `right`.

    It undoes the merges of both tokens, the latest first, and looks at what was adjacent then.
    """
    while rank_of((left, right), number) >= number:
        by_left, _, end = made[left]
        by_right, begin, _ = made[right]
        if by_left > by_right:
            number, left = by_left, end
        elif by_right >= 0:
            number, right = by_right + 1, begin  # of two equal pairs, the left one is merged first
        else:
            return False
    return True


def _simulated(ranks):
    """Does the same for merges in any order, of which each token's text is merged step by step."""
    made = {}
    for token in dict.fromkeys(left + right for left, right in ranks):
        parts, last = [*token], None
        while len(parts) > 1:
            numbers = [ranks.get(pair, math.inf) for pair in itertools.pairwise(parts)]
            last = min(numbers)
            if last == math.inf:
                break
            at = numbers.index(last)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 1:
            made[token] = last
    return made
