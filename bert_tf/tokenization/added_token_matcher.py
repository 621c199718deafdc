"""Finds added tokens in texts with graph ops, as huggingface/tokenizers does (added_vocabulary.rs).

Tokens that are not `normalized` are found first, in the original text. The others are found in the text between them,
after normalization. If several match, the first one counts; among those that begin at the same position, the longest.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tokenization.added_tokens import AddedToken, check_normalized, is_word_character
from bert_tf.tokenization.characters import CODE_POINTS, WHITE, assigned

_MARK = b"\xff"  # surrounds matches: this byte never occurs in UTF-8
_END = 0  # marks the end of a normalized text


class Normalized(NamedTuple):
    """Sections after the tokenizer's normalization.

    Attributes:
        chars: RaggedTensor int32 [s, (characters)], code points.
        starts, ends: int32 [all characters], the span in its section that each character came from.
    """

    chars: tf.RaggedTensor
    starts: tf.Tensor
    ends: tf.Tensor

    @classmethod
    def of(cls, chars, starts, ends, splits) -> "Normalized":
        """Builds it from the concatenated characters of all texts, each text ended by a line feed.

        Args:
            chars: int32 [characters].
            starts, ends: int32 [characters], the span in the concatenated original texts that each came from.
            splits: int64 [n + 1], where texts begin in that concatenation, line feeds included.
        """
        row = tf.searchsorted(splits, tf.cast(starts, tf.int64), "right", tf.int64) - 1
        first, end = (tf.cast(tf.gather(splits, row + by), tf.int32) for by in (0, 1))
        # By where it starts: marks with which the next text begins, and which were taken out, count to its end.
        chars = tf.where(starts == end - 1, _END, chars)
        nrows = tf.size(splits, tf.int64) - 1
        ragged = tf.RaggedTensor.from_value_rowids(chars, row, nrows, validate=False)
        return cls(ragged, starts - first, tf.minimum(ends, end - 1) - first)

    def keep(self, kept) -> "Normalized":
        """Returns the characters for which `kept`, bool [all characters], is true."""
        chars = tf.ragged.boolean_mask(self.chars, self.chars.with_flat_values(kept))
        return Normalized(chars, tf.boolean_mask(self.starts, kept), tf.boolean_mask(self.ends, kept))


    def origins(self, first, end) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the spans in their sections that characters came from: int32 [m] twice.

        Args:
            first, end: int64 [m], the span of these characters among those of all sections.
        """
        starts, ends = (tf.concat([each, [0]], 0) for each in (self.starts, self.ends))  # there may be none
        start = tf.gather(starts, tf.minimum(first, tf.size(self.starts, tf.int64)))
        last = tf.gather(ends, tf.maximum(end - 1, 0))
        return tf.where(first < end, start, last), last


class Sections(NamedTuple):
    """The text between added tokens of n texts, one section after the other; in this example, [E1] has the id 7.

        text         a [E1] b
        sections     "a ", " b"
        tokens       7, -1
        starts       2, 0
        ends       6, 0

    Attributes:
        chars: RaggedTensor int32 [s, (characters)], code points.
        origins: int32 [s], the position in its text where each section begins.
        tokens: int32 [s], the id of the added token after each section, or -1 at the end of a text.
        starts, ends: int32 [s], the span of this token in the text.
        splits: int64 [n + 1], the sections of each text.
    """

    chars: tf.RaggedTensor
    origins: tf.Tensor
    tokens: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    splits: tf.Tensor

    @classmethod
    def whole(cls, texts) -> "Sections":
        """Returns texts (strings [n], UTF-8; invalid bytes are dropped) as one section each."""
        chars = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        nothing = tf.zeros(tf.shape(texts), tf.int32)
        splits = tf.range(tf.size(texts, tf.int64) + 1)
        return cls(chars, nothing, nothing - 1, nothing, nothing, splits)

    def strings(self) -> tf.Tensor:
        """Returns the sections as strings [s]."""
        return tf.strings.unicode_encode(self.chars, "UTF-8")

    def joined(self, ids, starts, ends) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids, starts and ends of the texts, including the added tokens, from those of the sections.

        Args:
            ids, starts, ends: RaggedTensors int32 [s, (tokens)], or [s, (words), (tokens)]: then an added token is a
                word.
        """
        has_words = ids.ragged_rank == 2
        splits = tf.gather(ids.values.row_splits, ids.row_splits) if has_words else ids.row_splits
        found = tf.where(self.tokens >= 0)[:, 0]
        of, indices, new_splits = _between(splits, found)
        origins = tf.gather(self.origins, of)
        flat = [ids.flat_values, starts.flat_values + origins, ends.flat_values + origins]
        behind = (tf.gather(each, found) for each in (self.tokens, self.starts, self.ends))
        flat = [_stitch(indices, list(each)) for each in zip(flat, behind, strict=True)]
        if has_words:
            _, indices, new_splits = _between(ids.row_splits, found)
            lengths = _stitch(indices, [ids.values.row_lengths(), tf.ones_like(found)])
            flat = [tf.RaggedTensor.from_row_lengths(each, lengths, validate=False) for each in flat]
        of_texts = tf.gather(new_splits, self.splits)
        return tuple(tf.RaggedTensor.from_row_splits(each, of_texts, validate=False) for each in flat)


def _stitch(positions, values):
    return tf.dynamic_stitch([tf.cast(each, tf.int32) for each in positions], values)


def _between(splits, found):
    """Interleaves the values of sections with one value after each of the sections `found`.

    Returns:
        int64 [values], the section of each value; two int64 vectors, the positions of the values and of those after
        sections; int64 [s + 1], where sections begin, including what follows them.
    """
    at = tf.range(splits[-1])
    of = tf.searchsorted(splits, at, "right", tf.int64) - 1
    before = tf.searchsorted(found, tf.range(tf.size(splits, tf.int64)), "left", tf.int64)
    behind = tf.gather(splits, found + 1) + tf.range(tf.size(found, tf.int64))
    return of, [at + tf.gather(before, of), behind], splits + before


class AddedTokenMatcher(tf.Module):
    """Splits texts into sections and the added tokens between them.

    Args:
        tokens: the added tokens to find.
        normalize: strings [s] -> `Normalized`. If None, normalized text equals the original text.
        apart: (first, last) ranges of code points that are not word characters in normalized text, because spaces are
            put around them.

    Attributes:
        normalized_ids: ids of the tokens that are found in normalized text.

    Raises:
        ValueError: a token is empty after normalization.
    """

    def __init__(
        self,
        tokens: Sequence[AddedToken],
        normalize: Callable[[tf.Tensor], Normalized] | None,
        apart: Sequence[tuple[int, int]] = (),
    ):
        super().__init__()
        self._normalize = normalize
        raw = [token for token in tokens if not token.normalized]
        rest = [token for token in tokens if token.normalized]
        contents = [token.content for token in rest]
        if normalize and rest:
            contents = _normalized_contents(rest, normalize)
        self.normalized_ids = [token.id for token in rest]
        self._in_text = _Finder(raw, [token.content for token in raw]) if raw else None
        self._in_normalized = _Finder(rest, contents, apart) if rest else None

    def __call__(self, texts) -> Sections:
        """Returns the `Sections` of texts, strings [n]."""
        sections = Sections.whole(texts)
        if self._in_text:
            sections = self._in_text(sections, _as_it_is(sections.chars))
        if self._in_normalized:
            normalized = self._normalize(sections.strings()) if self._normalize else _as_it_is(sections.chars)
            sections = self._in_normalized(sections, normalized)
        return sections


def _as_it_is(chars):
    at = tf.range(tf.size(chars.flat_values, tf.int64)) - tf.gather(chars.row_starts(), chars.value_rowids())
    at = tf.cast(at, tf.int32)
    return Normalized(chars, at, at + 1)


def _normalized_contents(tokens, normalize):
    """Returns the normalized content of each token, which normalized text is searched for."""
    with tf.init_scope(), tf.device("CPU:0"):
        chars = normalize(tf.constant([token.content for token in tokens])).chars.to_list()
    contents = ["".join(chr(code) for code in codes if code != _END) for codes in chars]
    check_normalized(tokens, contents)
    return contents


class _Finder(tf.Module):
    def __init__(self, tokens, contents, apart=()):
        super().__init__()
        first = {content: i for i, content in reversed(list(enumerate(contents)))}  # the lower id counts
        # RE2 takes the first matching alternative, not the longest.
        longest_first = sorted(first, key=len, reverse=True)
        self._pattern = "|".join(map(_literal, longest_first))
        single = [token.single_word for token in tokens]
        with tf.init_scope(), tf.device("CPU:0"):
            rows = tf.lookup.KeyValueTensorInitializer(list(first), list(first.values()), tf.string, tf.int32)
            self._numbers = tf.lookup.StaticHashTable(rows, -1)
            self._ids = tf.constant([token.id for token in tokens], tf.int32)
            self._lstrip = tf.constant([token.lstrip for token in tokens])
            self._rstrip = tf.constant([token.rstrip for token in tokens])
            self._white = tf.constant(WHITE)
            self._single = tf.constant(single) if any(single) else None
            self._words = tf.constant(_word_characters(tuple(apart))) if any(single) else None

    def __call__(self, sections: Sections, text: Normalized) -> Sections:
        """Splits sections at the tokens found in their normalized `text`."""
        row, number, first, end = self._found(text.chars)
        row_first, row_limit = (tf.gather(each, row) for each in (text.chars.row_starts(), text.chars.row_limits()))
        solid = tf.where(tf.reduce_all(text.chars.flat_values[:, None] != self._white, 1))[:, 0]
        before, behind = _solid_around(solid, first, end)
        cut_first = tf.where(tf.gather(self._lstrip, number), tf.maximum(before, row_first), first)
        cut_end = tf.where(tf.gather(self._rstrip, number), tf.minimum(behind, row_limit), end)
        inside = _solid_around(solid, end, first)  # a token is where its text is, without white space
        start = tf.minimum(inside[1], end)
        inside = start, tf.maximum(inside[0], start)
        spans = [text.origins(*span) for span in ((cut_first, cut_end), inside)]
        return _cut(sections, row, tf.gather(self._ids, number), *spans[0], *spans[1])

    def _found(self, chars):
        """Returns the section, the token's index and its span over all characters, int64 [matches] each."""
        marked = tf.strings.regex_replace(
            tf.strings.unicode_encode(chars, "UTF-8"), self._pattern, _MARK + rb"\0" + _MARK
        )
        parts = tf.strings.split(marked, _MARK)  # by turns text and token
        lengths = tf.strings.length(parts.flat_values, "UTF8_CHAR")
        ends = tf.cumsum(tf.cast(lengths, tf.int64))
        rows = parts.value_rowids()
        index = tf.range(tf.size(rows, tf.int64)) - tf.gather(parts.row_starts(), rows)
        at = tf.where(index % 2 == 1)[:, 0]
        number, end = self._numbers.lookup(tf.gather(parts.flat_values, at)), tf.gather(ends, at)
        first, row = end - tf.gather(tf.cast(lengths, tf.int64), at), tf.gather(rows, at)
        if self._single is None:
            return row, number, first, end
        word = tf.gather(self._words, chars.flat_values)
        word = tf.concat([[False], word, [False]], 0)
        joined = tf.gather(word, first) & (first > tf.gather(chars.row_starts(), row))
        joined |= tf.gather(word, end + 1) & (end < tf.gather(chars.row_limits(), row))
        kept = tf.where(~(joined & tf.gather(self._single, number)))[:, 0]
        return tuple(tf.gather(each, kept) for each in (row, number, first, end))


def _literal(content):
    """Returns the regular expression of RE2 that matches a text literally."""
    return "".join(c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in content)


@functools.cache
def _word_characters(apart) -> np.ndarray:
    r"""bool [code points]: Unicode's \w, except for the characters in `apart`."""
    word = np.zeros(CODE_POINTS, bool)
    for code, char, _ in assigned():
        word[code] = is_word_character(char, apart)
    return word


def _solid_around(solid, first, end):
    """Returns the extent of the whitespace before `first` and after `end`: int64 [m] twice.

    `solid` contains the positions of characters other than whitespace.
    """
    ends = tf.concat([[-1], solid, [tf.constant(np.iinfo(np.int64).max)]], 0)
    before = tf.gather(ends, tf.searchsorted(solid, first, "left", tf.int64)) + 1
    return before, tf.gather(ends, tf.searchsorted(solid, end, "left", tf.int64) + 1)


def _cut(sections, row, tokens, cut_starts, cut_ends, starts, ends):
    """Returns sections split at the tokens found, each in the section `row`: int32 [matches]."""
    chars, nrows = sections.chars, tf.size(sections.tokens, tf.int64)
    # Among the new sections, one ends before each match, and one at the end of each old section.
    splits = tf.searchsorted(row, tf.range(nrows + 1), "left", tf.int64)
    before = row + tf.range(tf.size(row, tf.int64))
    last, first = tf.range(nrows) + splits[1:], tf.range(nrows) + splits[:-1]

    def stitch_ends(of_matches, of_old):
        return _stitch([before, last], [of_matches, of_old])

    of = stitch_ends(row, tf.range(nrows))
    begin = _stitch([before + 1, first], [cut_ends, tf.zeros_like(sections.tokens)])
    end = stitch_ends(cut_starts, tf.cast(chars.row_lengths(), tf.int32))
    start = tf.gather(chars.row_starts(), of) + tf.cast(begin, tf.int64)
    count = tf.cast(tf.maximum(end - begin, 0), tf.int64)  # white space that both neighbours take is the first one's
    section = tf.repeat(tf.range(tf.size(count)), count)
    at = tf.range(tf.size(section, tf.int64)) + tf.gather(start - tf.cumsum(count, exclusive=True), section)
    made = tf.RaggedTensor.from_row_lengths(tf.gather(chars.flat_values, at), count, validate=False)
    origins = tf.gather(sections.origins, row)
    return Sections(
        made,
        tf.gather(sections.origins, of) + begin,
        stitch_ends(tokens, sections.tokens),
        stitch_ends(starts + origins, sections.starts),
        stitch_ends(ends + origins, sections.ends),
        tf.gather(splits + tf.range(nrows + 1), sections.splits),
    )
