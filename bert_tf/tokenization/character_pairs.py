"""Byte pair encoding of characters in graph ops, as SentencePiece does it, independent of file formats.

A text is not split into words: its spaces become "▁", and its characters are merged from one end to the other by
SentencePiece's op. A character that is not in the vocabulary becomes the tokens of its bytes.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.tokenization import sentencepiece_model as models
from bert_tf.tokenization.byte_pair_merges import effective_merges
from bert_tf.tokenization.byte_pairs import BLANK, solid_spans
from bert_tf.tokenization.flat_ops import utf8_lengths
from bert_tf.tokenization.sentencepiece_bpe_tables import BYTE_TOKENS
from bert_tf.tokenization.tokenizer_json import METASPACE


class CharacterPairs(tf.Module):
    """Converts texts to ids of a BPE vocabulary with tokens for bytes.

    Args:
        vocab: token -> id; each byte has a token, or its character has.
        merges: pairs of tokens, in the order they were learned.
    """

    def __init__(self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]]):
        super().__init__()
        symbols = [token for token in vocab if len(token) == 1]
        made = effective_merges(merges, symbols)
        # SentencePiece requires an unknown token. The bytes represent all that is unknown, so this one, longer than any
        # other, never occurs.
        never = "\0" * (1 + max(map(len, vocab)))
        ordinary = [*((symbol, 0.0) for symbol in symbols), *((token, -float(rank)) for token, rank in made.items())]
        pieces = [(never, 0.0, models.UNKNOWN), *((token, 0.0, models.BYTE) for token in BYTE_TOKENS)]
        pieces += [(*each, models.NORMAL) for each in ordinary]
        ids = [vocab.get(token, 0) for token in BYTE_TOKENS]  # without a token, a byte is a character with one
        lengths = [len(token.encode("utf-8")) for token, _ in ordinary]
        with tf.init_scope(), tf.device("CPU:0"):
            self._ids = tf.constant([0, *ids, *(vocab[token] for token, _ in ordinary)], tf.int32)
            self._lengths = tf.constant([1] * (1 + len(ids)) + lengths, tf.int32)  # in bytes
            model = models.merging_model(pieces, byte_fallback=True)
            self._merger = tf_text.SentencepieceTokenizer(model, out_type=tf.int32)

    def __call__(self, texts):
        """Returns ids, starts, ends: RaggedTensors int32 [n, (tokens)].

        A token came from text[start:end] in code points, without surrounding spaces; the tokens of one character share
        its span.
        """
        chars = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        codes = chars.flat_values
        marked = tf.where(codes == BLANK, ord(METASPACE), codes)
        pieces = self._merger.tokenize(tf.strings.unicode_encode(chars.with_flat_values(marked), "UTF-8"))
        char_of_byte = tf.repeat(tf.range(tf.size(codes)), utf8_lengths(marked))
        ends = tf.cumsum(tf.gather(self._lengths, pieces.flat_values))
        first = tf.gather(char_of_byte, ends - tf.gather(self._lengths, pieces.flat_values))
        starts, ends = solid_spans(codes, first, tf.gather(char_of_byte, ends - 1))
        origin = tf.gather(tf.cast(chars.row_starts(), tf.int32), pieces.value_rowids())
        ids = pieces.with_flat_values(tf.gather(self._ids, pieces.flat_values))
        return ids, ids.with_flat_values(starts - origin), ids.with_flat_values(ends - origin)
