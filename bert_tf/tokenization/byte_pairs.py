"""Byte pair encoding in graph ops: text to byte-level BPE ids, independent of file formats.

A text is split into words, as by GPT-2's regular expression. The bytes of each word are merged by SentencePiece's op,
whose time is nearly proportional to the length of a word; the bytes are passed as the characters that represent them in
vocabulary files.
"""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.tokenization import sentencepiece_model as models
from bert_tf.tokenization.byte_pair_merges import byte_symbols, effective_merges
from bert_tf.tokenization.characters import CODE_POINTS, WHITE, assigned
from bert_tf.tokenization.flat_ops import shift, utf8_lengths

_LETTER, _NUMBER, _SPACE, _OTHER = range(4)
BLANK, _APOSTROPHE = 0x20, 0x27
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_NEVER = "\u2400"  # the unknown token, which SentencePiece requires; it represents no byte


@functools.cache
def _classes() -> np.ndarray:
    """uint8 [code points]: letter, number, whitespace or something else."""
    classes = np.full(CODE_POINTS, _OTHER, np.uint8)
    for code, _, category in assigned():
        classes[code] = {"L": _LETTER, "N": _NUMBER}.get(category[0], _OTHER)
    classes[list(WHITE)] = _SPACE
    return classes


class BytePairs(tf.Module):
    """Converts texts to byte-level BPE token ids.

    Args:
        vocab: token -> id, in the characters of `byte_symbols`; complete, as by `check_merges`.
        merges: pairs of tokens, in the order they were learned.
    """

    def __init__(self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]]):
        super().__init__()
        symbols = byte_symbols()
        made = effective_merges(merges)
        pieces = [(_NEVER, 0.0, models.UNKNOWN), *((symbol, 0.0, models.NORMAL) for symbol in symbols)]
        pieces += [(token, -float(number), models.NORMAL) for token, number in made.items()]
        with tf.init_scope(), tf.device("CPU:0"):
            self._kinds = tf.constant(_classes())
            self._symbols = tf.constant([ord(symbol) for symbol in symbols], tf.int32)
            self._ids = tf.constant([0, *(vocab[token] for token in (*symbols, *made))], tf.int32)
            self._lengths = tf.constant([len(token) for token, _, _ in pieces], tf.int32)  # in bytes
            self._merger = tf_text.SentencepieceTokenizer(models.merging_model(pieces), out_type=tf.int32)

    def __call__(self, texts):
        """Returns ids, starts, ends: RaggedTensors int32 [n, (tokens)].

        A token came from text[start:end] in code points, without surrounding whitespace; the tokens of one character
        share its span.
        """
        chars = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        codes, rows = chars.flat_values, tf.cast(chars.value_rowids(), tf.int32)
        lengths = utf8_lengths(codes)
        data = tf.io.decode_raw(tf.strings.unicode_encode(codes[tf.newaxis], "UTF-8"), tf.uint8)[0]
        char_of_byte = tf.repeat(tf.range(tf.size(codes)), lengths)
        first_byte = tf.cumsum(lengths, exclusive=True)
        pieces = self._merged(data, tf.gather(first_byte, tf.where(self._begins(codes, rows))[:, 0]))
        begins = tf.cumsum(tf.gather(self._lengths, pieces), exclusive=True)
        lasts = tf.concat([begins[1:], tf.shape(data)], 0)[: tf.size(begins)] - 1
        first = tf.gather(char_of_byte, begins)
        starts, ends = solid_spans(codes, first, tf.gather(char_of_byte, lasts))
        row = tf.gather(rows, first)
        origin = tf.gather(tf.cast(chars.row_starts(), tf.int32), row)
        row, nrows = tf.cast(row, tf.int64), tf.size(texts, tf.int64)
        ids = tf.RaggedTensor.from_value_rowids(tf.gather(self._ids, pieces), row, nrows=nrows, validate=False)
        return ids, ids.with_flat_values(starts - origin), ids.with_flat_values(ends - origin)

    def _merged(self, data, begins):
        """Returns the tokens of all words, int32 [tokens], from their bytes and where each word begins."""
        splits = tf.concat([tf.cast(begins, tf.int64), tf.shape(data, tf.int64)], 0)
        symbols = tf.gather(self._symbols, tf.cast(data, tf.int32))
        words = tf.RaggedTensor.from_row_splits(symbols, splits, validate=False)
        return self._merger.tokenize(tf.strings.unicode_encode(words, "UTF-8")).flat_values

    def _begins(self, codes, rows):
        """Returns bool [characters], where a word begins, equivalent to GPT-2's regular expression."""
        kinds = tf.cast(tf.gather(self._kinds, codes), tf.int32)
        first = tf.concat([[True], rows[1:] != rows[:-1]], 0)[: tf.size(codes)]
        before = tf.where(first, -1, shift(kinds, 1))
        after_blank = ~first & (shift(codes, 1) == BLANK)
        space = kinds == _SPACE
        lonely = space & ~shift(tf.concat([space & ~first, [False]], 0)[: tf.size(codes)], -1)  # none follows it
        short, inside, behind = self._contractions(codes, first, before, after_blank)
        is_last = tf.concat([rows[1:] != rows[:-1], [True]], 0)[: tf.size(rows)]  # of its text
        last_space = lonely & ~is_last & (before == _SPACE)
        begins = first | (kinds != before) & ~(after_blank & ~space) | last_space
        return (begins | short | behind) & ~inside

    def _contractions(self, codes, first, before, after_blank):
        """Returns apostrophes that begin 's or the like, their rest, and what follows: bool [characters] each."""
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


def solid_spans(codes, first, last):
    """Returns the spans of tokens in code points of all texts, without the spaces around them: int32 [tokens] twice.

    Args:
        codes: int32 [characters], those of all texts.
        first, last: int32 [tokens], the first and the last character of each token. One of spaces alone has an empty
            span, which is at its end.
    """
    space = codes == BLANK
    solid = tf.cumsum(tf.cast(~space, tf.int32))
    at = tf.where(~space)[:, 0]
    before, until = tf.gather(solid, first) - tf.cast(~tf.gather(space, first), tf.int32), tf.gather(solid, last)
    empty = before == until
    at = tf.concat([tf.cast(at, tf.int32), [0]], 0)
    starts = tf.where(empty, last + 1, tf.gather(at, before))
    return starts, tf.where(empty, last + 1, tf.gather(at, until - 1 + tf.cast(empty, tf.int32)) + 1)
