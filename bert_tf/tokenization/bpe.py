"""Byte-level BPE in graph ops, as GPT-2 and RoBERTa have it (Radford et al. 2019, section 2.2; openai/gpt-2).

A text is cut into words, with the space before a word as its first character; a word's bytes are tokens, and of two
neighbours that a merge names those merged first in training are merged first.
"""

import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

_LETTER, _NUMBER, _SPACE, _OTHER = range(4)
_BLANK, _APOSTROPHE = 0x20, 0x27
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
WHITE = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
_CODE_POINTS = 0x110000
_NEVER = np.int64(1) << 62


def byte_symbols() -> list[str]:
    """Returns the character by which vocabulary files write each of the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    codes = dict(zip(printable, printable, strict=True)) | {byte: 256 + n for n, byte in enumerate(others)}
    return [chr(codes[byte]) for byte in range(256)]


@functools.cache
def _classes() -> np.ndarray:
    """uint8 [code points]: letter, number, white space or something else."""
    classes = np.full(_CODE_POINTS, _OTHER, np.uint8)
    for code in range(_CODE_POINTS):
        classes[code] = {"L": _LETTER, "N": _NUMBER}.get(unicodedata.category(chr(code))[0], _OTHER)
    classes[list(WHITE)] = _SPACE
    return classes


class _BpeTokens(NamedTuple):
    """Neighbouring tokens of all words: `ids`, the `words` that they are of, and where each `begins` in bytes."""

    ids: tf.Tensor
    words: tf.Tensor
    begins: tf.Tensor


class BytePairs(tf.Module):
    """Turns texts into the ids of byte-level BPE tokens.

    Args:
        vocab: token -> id, in the characters of `byte_symbols`.
        merges: pairs of tokens, the first learned first.

    Raises:
        ValueError: a byte or what a merge makes has no id.
    """

    def __init__(self, vocab: dict[str, int], merges: list[tuple[str, str]]):
        super().__init__()
        bytes_ = [vocab.get(symbol) for symbol in byte_symbols()]
        lacking = [a + b for a, b in merges if not {a, b, a + b} <= vocab.keys()]
        if None in bytes_ or lacking:
            lacks = f"the merge of {lacking[0]!r}" if lacking else f"byte {bytes_.index(None)}"
            raise ValueError(f"A vocabulary of bytes must hold each byte and each merge. Received one without {lacks}.")
        self._width = max(vocab.values(), default=0) + 1
        pairs = np.array([[vocab[a], vocab[b], vocab[a + b]] for a, b in merges], np.int64).reshape(-1, 3)
        pairs = pairs if len(pairs) else np.array([[-1, 0, 0]])  # a table must not be empty
        keys, values = pairs[:, 0] * self._width + pairs[:, 1], np.arange(len(pairs)) * self._width + pairs[:, 2]
        _, first = np.unique(keys, return_index=True)  # of a merge that stands twice the first counts
        with tf.init_scope(), tf.device("CPU:0"):
            self._bytes, self._kinds = tf.constant(bytes_, tf.int32), tf.constant(_classes())
            rows = tf.lookup.KeyValueTensorInitializer(tf.constant(keys[first]), tf.constant(values[first]))
            self._merges = tf.lookup.StaticHashTable(rows, _NEVER)

    def __call__(self, texts):
        """Returns ids, starts, limits: RaggedTensors int32 [n, (tokens)].

        A token came from text[start:limit] in code points, without the blanks at its ends; the tokens of one character
        share its extent.
        """
        chars = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        codes, rows = chars.flat_values, tf.cast(chars.value_rowids(), tf.int32)
        word_of_char = tf.cumsum(tf.cast(self._begins(codes, rows), tf.int32)) - 1
        lengths = utf8_lengths(codes)
        data = tf.io.decode_raw(tf.strings.unicode_encode(codes[tf.newaxis], "UTF-8"), tf.uint8)[0]
        char_of_byte = tf.repeat(tf.range(tf.size(codes)), lengths)
        words = tf.gather(word_of_char, char_of_byte)
        ids = tf.gather(self._bytes, tf.cast(data, tf.int32))
        tokens = self._merged(_BpeTokens(ids, words, tf.range(tf.size(ids))))
        ends = tf.concat([tokens.begins[1:], tf.shape(data)], 0)[: tf.size(tokens.ids)]
        starts, limits = self._extents(codes, tf.gather(char_of_byte, tokens.begins), tf.gather(char_of_byte, ends - 1))
        row = tf.gather(rows, tf.gather(char_of_byte, tokens.begins))
        origin = tf.gather(tf.cast(chars.row_starts(), tf.int32), row)
        row, nrows = tf.cast(row, tf.int64), tf.size(texts, tf.int64)
        ids = tf.RaggedTensor.from_value_rowids(tokens.ids, row, nrows=nrows, validate=False)
        return ids, ids.with_flat_values(starts - origin), ids.with_flat_values(limits - origin)

    def _begins(self, codes, rows):
        """bool [characters]: where a word begins; what GPT-2's regular expression does, one character at a time."""
        kinds = tf.cast(tf.gather(self._kinds, codes), tf.int32)
        first = tf.concat([[True], rows[1:] != rows[:-1]], 0)[: tf.size(codes)]
        before = tf.where(first, -1, shift(kinds, 1))
        after_blank = ~first & (shift(codes, 1) == _BLANK)
        space = kinds == _SPACE
        lonely = space & ~shift(tf.concat([space & ~first, [False]], 0)[: tf.size(codes)], -1)  # none follows it
        short, inside, behind = self._contractions(codes, first, before, after_blank)
        is_last = tf.concat([rows[1:] != rows[:-1], [True]], 0)[: tf.size(rows)]  # of its text
        last_space = lonely & ~is_last & (before == _SPACE)
        begins = first | (kinds != before) & ~(after_blank & ~space) | last_space
        return (begins | short | behind) & ~inside

    def _contractions(self, codes, first, before, after_blank):
        """bool [characters] thrice: an apostrophe that begins 's or the like, the rest of it, and what follows it."""
        can = (codes == _APOSTROPHE) & (first | ((before != _OTHER) & ~after_blank))
        inner = tf.where(first, 0, codes)  # 0: no letter, another text begins
        after = shift(inner, -1), tf.where(shift(inner, -1) == 0, 0, shift(inner, -2))
        lengths = tf.zeros_like(codes)
        for text in reversed(_CONTRACTIONS):
            same = [letters == ord(letter) for letters, letter in zip(after, text[1:], strict=False)]
            lengths = tf.where(functools.reduce(tf.logical_and, same, can), len(text), lengths)
        short = lengths > 0
        inside = shift(short, 1) | shift(lengths == 3, 2)
        behind = shift(lengths == 2, 2) | shift(lengths == 3, 3)
        return short, inside, behind

    def _merged(self, pieces):
        """Merges in every word at once the pair that was learned first, until no word has one."""

        def candidates(pieces):
            same = tf.concat([pieces.words[1:] == pieces.words[:-1], [False]], 0)[: tf.size(pieces.ids)]
            left, right = tf.cast(pieces.ids, tf.int64), tf.cast(shift(pieces.ids, -1), tf.int64)
            return tf.where(same, self._merges.lookup(left * self._width + right), _NEVER)

        def merge(ids, words, begins, ranks):
            best = tf.gather(tf.math.segment_min(ranks, words), words)
            chosen = (ranks == best) & (ranks != _NEVER)
            at = tf.range(tf.size(ids))
            begun = tf.where(chosen & ~shift(chosen, 1), at, 0)  # where three alike meet, the first two merge
            chosen &= (at - _latest(begun)) % 2 == 0
            made = tf.cast(ranks % self._width, ids.dtype)
            kept = tf.where(~shift(chosen, 1))[:, 0]
            merged = _BpeTokens(*(tf.gather(x, kept) for x in (tf.where(chosen, made, ids), words, begins)))
            return *merged, candidates(merged)

        loop = (*pieces, candidates(pieces))
        shapes = (tf.TensorShape([None]),) * 4
        *merged, _ = tf.while_loop(lambda *state: tf.reduce_any(state[3] != _NEVER), merge, loop, shapes)
        return _BpeTokens(*merged)

    def _extents(self, codes, first, last):
        """Returns where tokens begin and end in code points of all texts, without the blanks around them."""
        space = codes == _BLANK
        solid = tf.cumsum(tf.cast(~space, tf.int32))
        at = tf.where(~space)[:, 0]
        before, until = tf.gather(solid, first) - tf.cast(~tf.gather(space, first), tf.int32), tf.gather(solid, last)
        empty = before == until
        at = tf.concat([tf.cast(at, tf.int32), [0]], 0)
        starts = tf.where(empty, last + 1, tf.gather(at, before))
        return starts, tf.where(empty, last + 1, tf.gather(at, until - 1 + tf.cast(empty, tf.int32)) + 1)


def _latest(places):
    """int32 [n]: the last of the positions so far that is not 0; where there is none, 0."""
    there = places > 0
    return tf.gather(tf.concat([[0], tf.boolean_mask(places, there)], 0), tf.cumsum(tf.cast(there, tf.int32)))


def shift(values, by):
    """Returns values moved `by` positions to the right, to the left below zero, with zeros where none comes from."""
    count = tf.minimum(abs(by), tf.size(values))
    fill = tf.zeros([count], values.dtype)
    return tf.concat([fill, values[: tf.size(values) - count]] if by > 0 else [values[count:], fill], 0)


def utf8_lengths(codes):
    """Returns how many bytes each code point takes in UTF-8, int32 like `codes`."""
    return 1 + sum(tf.cast(codes >= longer, tf.int32) for longer in (0x80, 0x800, 0x10000))
