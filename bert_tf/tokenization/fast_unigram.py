"""Unigram tokenizers in plain Python, equal to those of the graph (`unigram.py`), for one text at a time.

Spaces part chunks, which do not depend on each other but for a few characters: each is computed once and remembered.
"""

import array
import re
from typing import NamedTuple

import numpy as np

from bert_tf.tokenization import sentencepiece_model as models
from bert_tf.tokenization.characters import WHITE
from bert_tf.tokenization.fast_added_tokens import Section
from bert_tf.tokenization.fast_tokens import Tokens, WordCache
from bert_tf.tokenization.tokenizer_json import METASPACE
from bert_tf.tokenization.unigram_characters import (
    APOSTROPHE,
    CONTROL,
    DOUBLE,
    GRAVE,
    JOINER,
    LONGEST_CLUSTER,
    MARK,
    PREPENDED,
    fold,
    kind_of,
)
from bert_tf.tokenization.unigram_tables import UnigramTables

_CHUNK = re.compile("[^ ]+")
_PLAIN = re.compile("[!-~]+")  # ASCII without control characters
_WHITE = frozenset(map(chr, WHITE))
_KINDS = WordCache(kind_of)
_UNKNOWN_PENALTY = 10.0  # SentencePiece's kUnkPenalty
_USER_DEFINED_COST = 0.1
_LEAST, _LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


class _Mapped(NamedTuple):
    """A character after normalization, and the span that it came from."""

    char: str
    start: int
    end: int

    def replaced(self, text: str) -> "list[_Mapped]":
        """Returns the characters of a text in its place."""
        return [self] if text == self.char else [_Mapped(char, self.start, self.end) for char in text]


class _Chunk(NamedTuple):
    """The tokens of a chunk, and whether they depend on what is around it."""

    tokens: Tokens
    is_bound: bool


class FastUnigram:
    """Converts a text to the token ids of a SentencePiece unigram model.

    Args:
        tables: the model and the settings.
    """

    def __init__(self, tables: UnigramTables):
        self._tables = tables
        self._mapping = tables.model.mapping
        self._search = _BestPath(tables)
        self._known = tables.model.known
        self._folds = WordCache(lambda char: fold(char, tables.do_lower_case, not tables.keep_accents))
        # ASCII that stays as it is, but for its letter case and for quotation marks.
        self._keeps_ascii = not any(len(key) == 1 and _PLAIN.fullmatch(key) for key in self._mapping)
        self._chunks = WordCache(self._inner_chunk)
        self._keeps_spaces = tables.trailing_space != "dropped"

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text's tokens."""
        return self.tokens(text).ids

    def tokens(self, text: str) -> Tokens:
        """Returns the ids of a text's tokens, and the span of each."""
        return self._tokens(text, self._tables.trailing_space == "kept")

    def section(self, section: Section) -> Tokens:
        """Returns the tokens of the text between two added tokens."""
        inside = section.token is not None and section.token.normalized
        kept = inside if self._tables.trailing_space == "kept_inside" else self._tables.trailing_space == "kept"
        return self._tokens(section.text, kept)

    def _tokens(self, text, kept) -> Tokens:
        """Returns the tokens of a text; `kept`: whether a space at its end is a token."""
        tokens, last = Tokens([], [], []), None
        for match in _CHUNK.finditer(text):
            if last is not None and not self._append(tokens, last):
                return self._split(text, True, kept)
            last = match
        if last is None:
            return self._split(text, True, kept)
        is_plain = last.end() == len(text) and _PLAIN.fullmatch(last.group())
        if is_plain or not self._keeps_spaces:
            return tokens if self._append(tokens, last) else self._split(text, True, kept)
        if self._chunks[last.group()].is_bound:
            return self._split(text, True, kept)
        tokens.extend(self._split(text[last.start() :], True, kept), last.start())
        return tokens

    def normalized(self, text: str) -> tuple[str, list[int], list[int]]:
        """Returns a text in which added tokens are looked up, and the span that each character came from."""
        end, made, blank_before = len(text), [], False
        for each in self._stream(text + "\n"):
            each = _Mapped("\0" if each.start == end else each.char, each.start, min(each.end, end))
            blank = each.char == " "
            if not (blank and blank_before):
                made.append(each)
            elif self._keeps_spaces:  # it counts where a run of spaces ends; XLM-RoBERTa's becomes a marker
                inside = self._tables.trailing_space == "kept_inside"
                made[-1] = _Mapped(METASPACE if inside else " ", made[-1].start, each.end)
            blank_before = blank
        return "".join(each.char for each in made), [each.start for each in made], [each.end for each in made]

    def _append(self, tokens, match) -> bool:
        """Appends a chunk's tokens; returns False if they depend on what is around it."""
        chunk = self._chunks[match.group()]
        tokens.extend(chunk.tokens, match.start())
        return not chunk.is_bound

    def _inner_chunk(self, text) -> _Chunk:
        """Returns the chunk of a text without spaces that a space follows."""
        is_bound = _KINDS[text[0]] in (MARK, JOINER)
        if self._keeps_spaces and not is_bound:
            stream = self._stream(text)
            is_bound = all(each.char in _WHITE for each in stream) or stream[0].char == METASPACE
        return _Chunk(self._split(text, False, False), is_bound)

    def _split(self, text, is_end, kept) -> Tokens:
        """Returns the tokens of a text.

        Args:
            text: the text.
            is_end: whether a text ends, rather than a chunk before a space.
            kept: whether a space at the end of the text is a token.
        """
        if not is_end and (plain := self._plain(text)) is not None and self._known.issuperset(plain):
            found = self._search(METASPACE + plain)
            return Tokens([each[0] for each in found], [max(each[1] - 1, 0) for each in found],
                          [max(each[2] - 1, 1) for each in found])  # fmt: skip
        stream = self._stream(text + "\n" if is_end else text)
        white = [each.char in _WHITE for each in stream]
        if self._keeps_spaces:
            self._keep_spaces(stream, white, len(text) if is_end else None, kept)
        tokens, word = Tokens([], [], []), []
        for each, is_white in zip(stream, white, strict=True):
            if word and (is_white or each.char == METASPACE):
                self._add_word(tokens, word)
                word = []
            if not is_white:
                word.append(each)
        if word:
            self._add_word(tokens, word)
        return tokens

    def _add_word(self, tokens, word):
        """Appends the tokens of a word: characters."""
        word = self._without_unknown_runs(word)
        text = "".join(each.char for each in word)
        ahead = text[0] != METASPACE
        for number, start, end in self._search(METASPACE + text if ahead else text):
            tokens.ids.append(number)
            tokens.starts.append(word[max(start - ahead, 0)].start)  # the mark has the next letter's span
            tokens.ends.append(word[max(end - ahead - 1, 0)].end)

    def _without_unknown_runs(self, word):
        """Keeps the first and the last of several unknown characters in a row, which are one unknown token."""
        unknown = [each.char not in self._known for each in word]
        if not any(unknown):
            return word
        follows = [False, *(a and b for a, b in zip(unknown, unknown[1:], strict=False)), False]
        return [each for n, each in enumerate(word) if not (follows[n] and follows[n + 1])]

    def _keep_spaces(self, stream, white, end, kept):
        """Turns spaces that are separate words into markers, and unmarks whitespace that is part of words.

        Args:
            stream: the characters of a text.
            white: list of bool, which of them are whitespace; changed, as is the stream.
            end: position of the line feed that closes the text. If None, a space follows.
            kept: whether a space at the end of the text is a token.
        """
        solid_until = max((at for at, is_white in enumerate(white) if not is_white), default=-1)
        for at, each in enumerate(stream):
            is_end = each.start == end
            following = stream[at + 1] if at + 1 < len(stream) else None
            space = each.char == " " and not is_end
            at_end = end is not None and (following is not None and following.start == end or space and each.end > end)
            own = space and (kept if at_end else following is not None and following.char == METASPACE)
            if own:
                stream[at] = _Mapped(METASPACE, each.start, each.start)
            stripped = end is not None and not kept and at > solid_until
            white[at] = space and not own or is_end or stripped

    def _stream(self, text) -> list[_Mapped]:
        """Returns the characters of a text after normalization."""
        plain = self._plain(text)
        if plain is not None:
            return [_Mapped(char, at, at + 1) for at, char in enumerate(plain)]
        stream = [_Mapped(char, at, at + 1) for at, char in enumerate(text)]
        if self._tables.straight_quotes:
            stream = _with_straight_quotes(stream)
        return self._mapped(self._folded(stream))

    def _plain(self, text) -> str | None:
        """Returns the normalized text if each character of it is one of ASCII then, too, otherwise None."""
        if not (self._keeps_ascii and _PLAIN.fullmatch(text)):
            return None
        if self._tables.straight_quotes and (2 * GRAVE in text or 2 * APOSTROPHE in text):
            return None
        return text.lower() if self._tables.do_lower_case else text

    def _folded(self, stream):
        """Applies letter case and accents; the character before removed marks inherits their end."""
        kept = []
        for each in stream:
            if self._tables.keep_accents or _KINDS[each.char] != MARK:
                kept.append(each)
            elif kept:
                kept[-1] = kept[-1]._replace(end=each.end)
        return [made for each in kept for made in each.replaced(self._folds[each.char])]

    def _mapped(self, stream):
        """Applies the model's character map to graphemes that are short enough, otherwise to characters."""
        if not self._mapping:
            return stream
        made, at = [], 0
        while at < len(stream):
            end = at + 1
            while end < len(stream) and _joins(stream[end].char, stream[end - 1].char):
                end += 1
            made += self._mapped_cluster(stream[at:end])
            at = end
        return made

    def _mapped_cluster(self, cluster):
        """Returns the characters of one grapheme."""
        first, mapping = cluster[0], self._mapping
        if len(cluster) == 1:
            return first.replaced(mapping.get(first.char, first.char))
        short = sum(len(each.char.encode("utf-8")) for each in cluster) < LONGEST_CLUSTER
        if short:
            pair = first.char + cluster[1].char
            text = mapping.get(first.char, mapping.get(pair))
            if text is not None:  # a replacement of the beginning stands for all of it
                whole = _Mapped(first.char, first.start, max(each.end for each in cluster))
                return whole.replaced(text)
        return [made for each in cluster for made in each.replaced(mapping.get(each.char, each.char))]


class _BestPath:
    """The most probable tokens of a word, as SentencePiece finds them, with its arithmetic in single precision.

    Args:
        tables: the model.
    """

    def __init__(self, tables: UnigramTables):
        model = tables.model
        normal = [piece.score for piece in model.message.pieces if piece.type in (0, models.NORMAL)]
        least = np.float32(min(normal, default=_LARGEST))
        self._unknown_score = float(least - np.float32(_UNKNOWN_PENALTY))
        most = np.float32(max([_LEAST, *normal]))
        self._pieces: dict[str, tuple[float, int]] = {}
        for piece, number in zip(model.message.pieces, model.ids.tolist(), strict=True):
            kind = piece.type or models.NORMAL
            if kind == models.UNKNOWN:
                self._unknown = number
            elif kind == models.USER_DEFINED:
                score = float(np.float32(len(piece.piece.encode("utf-8"))) * most) - _USER_DEFINED_COST
                self._pieces[piece.piece] = score, number
            elif kind == models.NORMAL:
                self._pieces[piece.piece] = piece.score, number
        self._longest: dict[str, int] = {}  # first two characters -> length of the longest piece
        for text in self._pieces:
            self._longest[text[:2]] = max(self._longest.get(text[:2], 1), len(text))

    def __call__(self, word: str) -> list[tuple[int, int, int]]:
        """Returns the id, start and end of each token of a word; unknown characters in a row are one token."""
        length, pieces, rounded = len(word), self._pieces, array.array("f", [0.0])
        scores = array.array("f", bytes(4 * (length + 1)))
        paths: list[tuple[int, int | None]] = [(-1, None)] * (length + 1)  # (start, id) of the last token
        for start in range(length):
            here, has_single = scores[start], False
            for end in range(start + 1, min(start + self._longest.get(word[start : start + 2], 1), length) + 1):
                piece = pieces.get(word[start:end])
                if piece is None:
                    continue
                score = piece[0] + here
                has_single = has_single or end == start + 1
                if paths[end][0] < 0 or score > scores[end]:
                    scores[end], paths[end] = score, (start, piece[1])
            if not has_single:
                rounded[0] = self._unknown_score + here
                if paths[start + 1][0] < 0 or rounded[0] > scores[start + 1]:
                    scores[start + 1], paths[start + 1] = rounded[0], (start, None)
        return self._backwards(paths)

    def _backwards(self, paths):
        """Returns the tokens of the best path, from the word's end."""
        tokens, end = [], len(paths) - 1
        while end > 0:
            start, number = paths[end]
            if number is None and tokens and tokens[-1][0] is None:
                tokens[-1] = None, start, tokens[-1][2]
            else:
                tokens.append((number, start, end))
            end = start
        return [(self._unknown if number is None else number, *span) for number, *span in reversed(tokens)]


def _joins(char, before):
    """Returns whether a character belongs to the grapheme of the one before it."""
    kind, last = _KINDS[char], _KINDS[before]
    joins = kind in (MARK, JOINER) and last != CONTROL or last == PREPENDED and kind != CONTROL
    return joins or char == "\n" and before == "\r"


def _with_straight_quotes(stream):
    """Replaces two grave accents or two apostrophes with a double quotation mark, from the left of a run."""
    made = []
    for each in stream:
        last = made[-1] if made else None
        if last and each.char in (GRAVE, APOSTROPHE) and last.char == each.char:
            made[-1] = _Mapped(DOUBLE, last.start, each.end)
        else:
            made.append(each)
    return made
