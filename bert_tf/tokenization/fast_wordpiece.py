"""Google's BERT tokenizer in plain Python, equal to that of the graph (`wordpiece.py`), for one text at a time.

White space parts chunks, which do not depend on each other: each is computed once and remembered.
"""

import re
from typing import NamedTuple

from bert_tf.tokenization import characters
from bert_tf.tokenization.fast_added_tokens import Section
from bert_tf.tokenization.fast_tokens import Tokens, WordCache
from bert_tf.tokenization.wordpiece_tables import WordPieceTables

_SPACES = "".join(char for char in map(chr, characters.WHITE) if characters.flags_of_character(char) & characters.SPACE)
_CHUNK = re.compile(f"[^{_SPACES}]+")
_PLAIN = re.compile("[!-~]+")  # ASCII without control characters: neither marks nor characters of several
_PLAIN_WORD = re.compile("[A-Za-z0-9]+|[!-~]")
_CJK = "".join(f"{chr(first)}-{chr(last)}" for first, last in characters.CJK)
_CJK_OR_NOT = re.compile(f"[{_CJK}]|[^{_CJK}]+")
_UNBOUND = characters.MARK | characters.REORDERED | characters.DELETED  # belongs to what is before it, or may
_SMALL_SIGMA = re.compile("[\u03c3\u03c2]")


class _WordCharacter(NamedTuple):
    """A character after normalization, its flags of `characters`, and the span that it came from."""

    char: str
    flags: int
    start: int
    end: int


class FastWordPiece:
    """Converts a text to WordPiece ids.

    Args:
        tables: vocabulary and settings.
    """

    def __init__(self, tables: WordPieceTables):
        self._id_of = {token: tables.id_of(token) for token in tables.vocab[: tables.file_size] if token}
        self._longest_token = max(map(len, self._id_of))
        self._longest_word, self._unknown = tables.max_input_chars_per_word, tables.unk_id
        self._lower, self._strip = tables.do_lower_case, tables.strip_accents
        self._forms = WordCache(self._form)
        self._chunks = WordCache(self._chunk)

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text's tokens."""
        chunks, ids = self._chunks, []
        for chunk in _CHUNK.findall(text):
            ids += chunks[chunk][0]
        return ids

    def tokens(self, text: str) -> Tokens:
        """Returns the ids of a text's tokens, and the span of each."""
        chunks, tokens = self._chunks, Tokens([], [], [])
        for match in _CHUNK.finditer(text):
            tokens.extend(chunks[match.group()], match.start())
        return tokens

    def section(self, section: Section) -> Tokens:
        """Returns the tokens of the text between two added tokens."""
        return self.tokens(section.text)

    def normalized(self, text: str) -> tuple[str, list[int], list[int]]:
        """Returns a text before it is split, with whitespace as blanks, and the span that each character came
        from."""
        stream = self._stream(text)
        chars = "".join(" " if each.flags & characters.SPACE else each.char for each in stream)
        return chars, [each.start for each in stream], [each.end for each in stream]

    def _chunk(self, chunk) -> Tokens:
        """Returns the tokens of text without whitespace."""
        tokens = Tokens([], [], [])
        if _PLAIN.fullmatch(chunk):
            for match in _PLAIN_WORD.finditer(chunk.lower() if self._lower else chunk):
                tokens.extend(self._pieces(match.group()), match.start())
            return tokens
        parts = self._parts(chunk)
        if len(parts) > 1:
            start = 0
            for part in parts:
                tokens.extend(self._chunks[part], start)
                start += len(part)
            return tokens
        for word in _words(self._stream(chunk)):
            ids, firsts, ends = self._pieces("".join(each.char for each in word))
            tokens.ids.extend(ids)
            tokens.starts.extend(word[first].start for first in firsts)
            tokens.ends.extend(word[end - 1].end for end in ends)
        return tokens

    def _parts(self, chunk):
        """Splits a chunk around CJK characters, but for what belongs to the character before it."""
        parts = []
        for part in _CJK_OR_NOT.findall(chunk):
            if parts and characters.flags_of_character(part[0]) & _UNBOUND:
                parts[-1] += part
            else:
                parts.append(part)
        return parts

    def _pieces(self, word) -> Tokens:
        """Returns the longest tokens that fit, from the left."""
        length, longest = len(word), self._longest_token
        ids, starts, ends, start, prefix = [], [], [], 0, ""
        if length > self._longest_word:
            return Tokens([self._unknown], [0], [length])
        while start < length:
            for end in range(min(length, start + longest), start, -1):
                number = self._id_of.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return Tokens([self._unknown], [0], [length])
            ids.append(number)
            starts.append(start)
            ends.append(end)
            start, prefix = end, "##"
        return Tokens(ids, starts, ends)

    def _stream(self, text) -> list[_WordCharacter]:
        """Returns the characters of a text, cleaned, lowercased and stripped."""
        if self._lower and "\u03a3" in text:
            text = _with_final_sigma(text)
        stream, forms = [], self._forms
        for at, char in enumerate(text):
            stream += [_WordCharacter(form, flags, at, at + 1) for form, flags in forms[char]]
        if self._strip:
            stream = _without_marks(_in_canonical_order(stream))
        return stream

    def _form(self, char):
        """Returns the characters that one becomes, with their flags."""
        if characters.flags_of_character(char) & characters.DELETED:
            return ()
        form = characters.form_of(char, self._lower, self._strip)
        return tuple((each, characters.flags_of_character(each)) for each in form)


def _with_final_sigma(text):
    """Replaces capital sigmas by small ones, at the end of a word by its final form, as Python's lower() does."""
    seen = "".join(char for char in text if not characters.flags_of_character(char) & characters.DELETED)
    found = iter(_SMALL_SIGMA.findall(_SMALL_SIGMA.sub("a", seen).lower()))
    return "".join(next(found) if char == "\u03a3" else char for char in text)


def _in_canonical_order(stream):
    """Sorts, within each run of combining characters, those that stay by their class; each gets their whole span."""
    runs, run = {}, 0
    for at, each in enumerate(stream):
        run += not each.flags // characters.COMBINING_CLASS & 0xFF
        if each.flags & characters.REORDERED:
            runs.setdefault(run, []).append(at)
    for places in runs.values():
        parts = [stream[at] for at in places]
        start, end = min(each.start for each in parts), max(each.end for each in parts)
        parts.sort(key=lambda each: each.flags // characters.COMBINING_CLASS & 0xFF)
        for at, each in zip(places, parts, strict=True):
            stream[at] = each._replace(start=start, end=end)
    return stream


def _without_marks(stream):
    """Drops marks; the character before a run of marks inherits its end."""
    kept = []
    for each in stream:
        if not each.flags & characters.MARK:
            kept.append(each)
        elif kept:
            kept[-1] = kept[-1]._replace(end=max(kept[-1].end, each.end))
    return kept


def _words(stream):
    """Splits characters at whitespace and around isolated ones: lists of characters."""
    words, fresh = [], True
    for each in stream:
        apart = each.flags & characters.ISOLATED
        if not each.flags & characters.SPACE:
            if fresh or apart:
                words.append([])
            words[-1].append(each)
        fresh = bool(apart or each.flags & characters.SPACE)
    return words
