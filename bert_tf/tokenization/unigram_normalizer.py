"""Normalizes text for unigram tokenizers in graph ops, with a map back to the original text.

Like Hugging Face's tokenizers for ALBERT and XLM-RoBERTa: quotation marks, accents and letter case, and the character
map that a SentencePiece model carries.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tokenization.characters import CODE_POINTS, WHITE, assigned
from bert_tf.tokenization.flat_ops import shift, unicode_decode, utf8_lengths
from bert_tf.tokenization.unigram_characters import (
    APOSTROPHE,
    CONTROL,
    DOUBLE,
    GRAVE,
    JOINER,
    LONGEST_CLUSTER,
    MARK,
    PREPENDED,
    folded_characters,
    kind_of,
)

_PAGE = 128
_PAIR = 1 << 21  # more than there are code points
_CR, _LF = 0x0D, 0x0A


class Stream(NamedTuple):
    """The concatenated characters of all texts, each text ended by a line feed; every field is int32 [characters].

    Attributes:
        chars: code points.
        starts, ends: the span in the concatenated original texts that a character came from.
    """

    chars: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    def take(self, indices):
        return Stream(*(tf.gather(field, indices) for field in self))


class Replacements(tf.Module):
    """Replaces characters with zero or more others; all others are kept.

    Args:
        replacements: code point, or a number beyond them -> text.
    """

    def __init__(self, replacements: Mapping[int, str]):
        super().__init__()
        texts = {text: n for n, text in enumerate(dict.fromkeys(replacements.values()), 1)}
        rows = np.zeros(_PAGE + max([CODE_POINTS, *replacements]) // _PAGE * _PAGE, np.int32)
        rows[list(replacements)] = [texts[text] for text in replacements.values()]
        pages = rows.reshape(-1, _PAGE)
        indices: dict[bytes, int] = {}  # most pages are alike
        which = np.array([indices.setdefault(page.tobytes(), len(indices)) for page in pages], np.int32)
        codes = [[0], *([ord(char) for char in text] for text in texts)]  # of row 0 the character itself stays
        with tf.init_scope(), tf.device("CPU:0"):
            self._pages = tf.constant(which)
            self._rows = tf.constant(np.frombuffer(b"".join(indices), np.int32))
            self._lengths = tf.constant([len(text) for text in codes], tf.int32)
            self._begins = tf.constant(np.cumsum([0, *map(len, codes)])[:-1], tf.int32)
            self._codes = tf.constant(np.concatenate([np.array(text, np.int32) for text in codes]))

    def rows(self, chars) -> tf.Tensor:
        """Returns the replacement index of each character, int32 [characters]; 0 if it is kept."""
        return tf.gather(self._rows, tf.gather(self._pages, chars // _PAGE) * _PAGE + chars % _PAGE)

    def apply(self, stream: Stream, rows) -> Stream:
        """Returns the stream with each character replaced by the text of its row, which inherits its origin."""
        lengths = tf.gather(self._lengths, rows)
        origin = tf.repeat(tf.range(tf.size(rows)), lengths)
        index = tf.range(tf.size(origin)) - tf.gather(tf.cumsum(lengths, exclusive=True), origin)
        made, row = stream.take(origin), tf.gather(rows, origin)
        chars = tf.where(row == 0, made.chars, tf.gather(self._codes, tf.gather(self._begins, row) + index))
        return made._replace(chars=chars)


class Normalizer(tf.Module):
    """Converts texts to streams of normalized characters.

    Args:
        mapping: the character map, as from `sentencepiece_model.character_map`.
        do_lower_case: whether each character is lowercased by itself.
        keep_accents: if false, apply compatibility decomposition (NFKD) and remove all marks.
        straight_quotes: whether two grave accents, or two apostrophes, become a double quotation mark.
    """

    def __init__(self, mapping: Mapping[str, str], do_lower_case: bool, keep_accents: bool, straight_quotes: bool):
        super().__init__()
        self._straight_quotes, self._strip = straight_quotes, not keep_accents
        self._folding = Replacements(folded_characters(do_lower_case, not keep_accents))
        short = {key: text for key, text in mapping.items() if len(key.encode("utf-8")) < LONGEST_CLUSTER}
        pairs = [key for key in short if len(key) == 2 and key[0] not in mapping]
        singles = {ord(key): text for key, text in mapping.items() if len(key) == 1}
        codes = {key: CODE_POINTS + n for n, key in enumerate(pairs)}  # a pair is looked up like a character
        self._mapping = Replacements(singles | {codes[key]: mapping[key] for key in pairs})
        keys = [-1, *(ord(pair[0]) * _PAIR + ord(pair[1]) for pair in pairs)]  # a table must not be empty
        with tf.init_scope(), tf.device("CPU:0"):
            rows = tf.lookup.KeyValueTensorInitializer(keys, [0, *codes.values()], tf.int64, tf.int32)
            self._pairs = tf.lookup.StaticHashTable(rows, 0)
            self._joins, self._white = tf.constant(_joins()), tf.constant(WHITE)

    def __call__(self, texts) -> tuple[Stream, tf.Tensor, tf.Tensor]:
        """Normalizes texts (string [n], UTF-8; invalid bytes are dropped).

        Returns:
            The stream; bool [characters], which of them are whitespace; int64 [n + 1], where texts begin in the
            concatenated original texts, counting a line feed after each.
        """
        splits, chars = unicode_decode(tf.strings.join([texts, "\n"]))
        at = tf.range(tf.size(chars))
        stream = Stream(chars, at, at + 1)
        if self._straight_quotes:
            stream = _with_straight_quotes(stream)
        stream = self._fold(stream)
        stream = self._map(stream)
        return stream, tf.reduce_any(stream.chars[:, None] == self._white, 1), splits

    def _fold(self, stream):
        """Applies letter case and accents; the character before removed marks inherits their end."""
        rows = self._folding.rows(stream.chars)
        if self._strip:
            gone = tf.gather(self._joins, stream.chars) == MARK
            kept = tf.where(~gone)[:, 0]
            ends = tf.gather(stream.ends, tf.concat([kept, tf.shape(rows, tf.int64)], 0)[1:] - 1)
            stream, rows = stream.take(kept)._replace(ends=ends), tf.gather(rows, kept)
        return self._folding.apply(stream, rows)

    def _map(self, stream):
        """Applies the model's character map to graphemes that are short enough, otherwise to characters."""
        chars = stream.chars
        before = shift(chars, 1)
        kind, last = tf.gather(self._joins, chars), tf.gather(self._joins, before)
        inner = ((kind == MARK) | (kind == JOINER)) & (last != CONTROL) | (last == PREPENDED) & (kind != CONTROL)
        inner = (inner | (chars == _LF) & (before == _CR)) & (tf.range(tf.size(chars)) > 0)
        cluster = tf.cumsum(tf.cast(~inner, tf.int32)) - 1
        lengths = utf8_lengths(chars)
        short = tf.gather(tf.math.segment_sum(lengths, cluster), cluster) < LONGEST_CLUSTER
        leads = ~inner & shift(inner, -1) & short
        pairs = tf.cast(chars, tf.int64) * _PAIR + tf.cast(shift(chars, -1), tf.int64)
        paired = tf.where(leads, self._pairs.lookup(pairs), 0)
        rows = self._mapping.rows(tf.where(paired > 0, paired, chars))
        whole = leads & (rows > 0)  # a replacement of the beginning stands for all of it
        gone = inner & tf.gather(tf.math.segment_max(tf.cast(whole, tf.int32), cluster) > 0, cluster)
        ends = tf.where(whole, tf.gather(tf.math.segment_max(stream.ends, cluster), cluster), stream.ends)
        kept = tf.where(~gone)[:, 0]
        return self._mapping.apply(stream._replace(ends=ends).take(kept), tf.gather(rows, kept))


@functools.cache
def _joins() -> np.ndarray:
    """uint8 [code points]: the `kind_of` each character."""
    kinds = np.zeros(CODE_POINTS, np.uint8)
    for code, char, _ in assigned(ideographs=False):
        kinds[code] = kind_of(char)
    return kinds


def _with_straight_quotes(stream):
    """Replaces two grave accents or two apostrophes with a double quotation mark, from the left of a run."""
    chars = stream.chars
    quote = (chars == ord(GRAVE)) | (chars == ord(APOSTROPHE))
    at, first = tf.range(tf.size(chars)), quote & (chars != shift(chars, 1))
    runs = tf.concat([[0], tf.boolean_mask(at, first)], 0)
    since = at - tf.gather(runs, tf.cumsum(tf.cast(first, tf.int32)))  # the run's beginning
    left = quote & (chars == shift(chars, -1)) & (since % 2 == 0)
    made = stream._replace(chars=tf.where(left, ord(DOUBLE), chars), ends=stream.ends + tf.cast(left, tf.int32))
    return made.take(tf.where(~shift(left, 1))[:, 0])
