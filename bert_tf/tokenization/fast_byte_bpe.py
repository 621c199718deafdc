"""Byte-level BPE in plain Python, equal to that of the graph (`byte_bpe.py`), for one text at a time.

A text is split into words by GPT-2's regular expression; what a word becomes is computed once and remembered.
"""

import functools
import itertools
import re

from bert_tf.tokenization.byte_bpe_tables import ByteBpeTables
from bert_tf.tokenization.byte_pair_merges import byte_symbols, effective_merges
from bert_tf.tokenization.characters import WHITE
from bert_tf.tokenization.fast_added_tokens import Section
from bert_tf.tokenization.fast_composition import compose, composed_spans
from bert_tf.tokenization.fast_merges import PairMerger
from bert_tf.tokenization.fast_tokens import Tokens, WordCache, solid_span

_NUMBERS_END = 0x20000  # no number lies beyond
_WHITE = frozenset(map(chr, WHITE))


class FastByteBpe:
    """Converts a text to byte-level BPE ids.

    Args:
        tables: vocabulary, merges and settings.
    """

    def __init__(self, tables: ByteBpeTables):
        self._tables = tables
        symbols = byte_symbols()
        self._byte_ids, self._symbols = [tables.id_of(symbol) for symbol in symbols], dict(enumerate(symbols))
        self._whole = {token: tables.id_of(token) for token in (*symbols, *effective_merges(tables.merges))}
        self._lengths = {number: len(token) for token, number in self._whole.items()}  # in bytes
        self._merger = PairMerger(tables.merges, tables.id_of, tables.file_size)
        self._words = WordCache(self._word)

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text's tokens."""
        words, ids = self._words, []
        for word in _word_pattern().findall(self._with_space(self._composed(text))):
            ids += words[word].ids
        return ids

    def tokens(self, text: str) -> Tokens:
        """Returns the ids of a text's tokens, and the span of each without surrounding spaces."""
        composed = self._composed(text)
        spaced = self._with_space(composed)
        words, tokens = self._words, Tokens([], [], [])
        for match in _word_pattern().finditer(spaced):
            tokens.extend(words[match.group()], match.start())
        if spaced != composed:
            tokens = tokens._replace(starts=_one_less(tokens.starts), ends=_one_less(tokens.ends))
        return tokens if composed == text else _moved(tokens, *composed_spans(text))

    def section(self, section: Section) -> Tokens:
        """Returns the tokens of the text between two added tokens."""
        return self.tokens(section.text)

    def normalized(self, text: str) -> tuple[str, list[int], list[int]]:
        """Returns a text in which added tokens are looked up, and the span that each character came from."""
        composed = self._composed(text)
        if composed != text:
            return composed, *composed_spans(text)
        return text, list(range(len(text))), list(range(1, len(text) + 1))

    def _composed(self, text):
        return compose(text) if self._tables.nfc and not text.isascii() else text

    def _with_space(self, text):
        return " " + text if self._tables.add_prefix_space and text and text[0] != " " else text

    def _word(self, word) -> Tokens:
        """Returns the tokens of a word."""
        data = word.encode("utf-8")
        whole = self._whole.get(data.decode("latin-1").translate(self._symbols))
        if whole is not None and word[-1] not in _WHITE:
            return Tokens([whole], [int(word[0] == " ")], [len(word)])
        ids = self._merger([self._byte_ids[byte] for byte in data]) if whole is None else [whole]
        char_of_byte = [at for at, char in enumerate(word) for _ in char.encode("utf-8")]
        tokens, end = Tokens(ids, [], []), 0
        for number in ids:
            begin, end = end, end + self._lengths[number]
            first, last = solid_span(word, char_of_byte[begin], char_of_byte[end - 1] + 1)
            tokens.starts.append(first)
            tokens.ends.append(last)
        return tokens


def _one_less(places):
    return [max(place - 1, 0) for place in places]


def _moved(tokens, starts, ends):
    """Returns tokens of a composed text with their spans in the original one, from those of its characters."""
    pairs = list(zip(tokens.starts, tokens.ends, strict=True))
    return Tokens(
        tokens.ids,
        [starts[first] if first < end else ends[max(end - 1, 0)] for first, end in pairs],
        [ends[max(end - 1, 0)] for _, end in pairs],
    )


@functools.cache
def _word_pattern() -> re.Pattern:
    """Returns GPT-2's regular expression; Python's has one class for Unicode's letters and numbers together."""
    numbers = _ranges(code for code in range(_NUMBERS_END) if chr(code).isalnum() and not chr(code).isalpha())
    white = "".join(_WHITE)
    letter, number, other = f"[^\\W_{numbers}]", f"[{numbers}]", f"(?:[^\\w{white}]|_)"
    return re.compile(f"'(?:s|t|re|ve|m|ll|d)| ?{letter}+| ?{number}+| ?{other}+|[{white}]+(?![^{white}])|[{white}]+")


def _ranges(codes):
    """Returns the ranges of ascending code points as in a class of a regular expression."""
    runs = [list(run) for _, run in itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)
