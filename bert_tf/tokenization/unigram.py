"""Tokenizers of SentencePiece's unigram models in graph ops (Kudo 2018), as in ALBERT and XLM-RoBERTa."""

import os
from collections.abc import Sequence

import tensorflow as tf

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization import sentencepiece_model as models
from bert_tf.tokenization.added_token_matcher import Normalized
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.flat_ops import shift, utf8_lengths
from bert_tf.tokenization.sentencepiece_words import SentencepieceWords
from bert_tf.tokenization.tokenizer_json import METASPACE
from bert_tf.tokenization.unigram_normalizer import Normalizer, Replacements
from bert_tf.tokenization.unigram_tables import USUAL_CLASS, UnigramTables


class UnigramTokenizer(UnigramTables, BaseTokenizer):
    """Converts text to the token ids of a SentencePiece unigram model.

        tokenizer = UnigramTokenizer.from_directory("albert-base-v2")
        tokenizer.tokenize(["Hello world"])             # [[10975, 126]]     ▁hello ▁world

    Text is normalized according to the settings and the model's character map, then split at whitespace. Each word,
    prefixed with "▁", is split into its most probable sequence of tokens.
    """

    def __init__(
        self,
        vocab_file: str | os.PathLike,
        template: InputTemplate,
        do_lower_case: bool = False,
        keep_accents: bool = True,
        straight_quotes: bool = False,
        split_digit_comma: bool = False,
        trailing_space: str = "dropped",
        front: Sequence[str] = (),
        behind: Sequence[str] = (),
        tokenizer_class: str = USUAL_CLASS,
        replaces: int | None = None,
        model_data: bytes | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        """Builds the tables and the operations; arguments and errors are those of `UnigramTables`."""
        super().__init__(
            *(vocab_file, template, do_lower_case, keep_accents, straight_quotes, split_digit_comma, trailing_space),
            *(front, behind, tokenizer_class, replaces, model_data),
        )
        self._normalizer = Normalizer(
            self.model.mapping, self.do_lower_case, self.keep_accents, self.straight_quotes
        )
        # By characters: a number above 0 for those of the pieces that represent text.
        self._known = Replacements({ord(char): char for char in self.model.known})
        with tf.init_scope(), tf.device("CPU:0"):
            self._ids, self._words = tf.constant(self.model.ids), _word_splitter(self.model.message, self.vocab_file)
        self._take_added_tokens(added_tokens)

    def _normalized(self, texts):
        stream, _, splits = self._normalizer(texts)
        made = Normalized.of(*stream, splits)
        blank = made.chars.flat_values == ord(" ")
        if self.trailing_space == "dropped":
            return made.keep(~(blank & shift(blank, 1)))  # which splits words alike; tokens are looked up in it
        # Here it counts where a run of spaces ends, and that XLM-RoBERTa's becomes a marker, which is no white space.
        row = made.chars.value_rowids()  # a carriage return at the end may have taken the mark of the text's end
        begins = ~(blank & shift(blank, 1) & (row == shift(row, 1)))
        first = tf.where(begins)[:, 0]
        last = tf.concat([first, tf.shape(blank, tf.int64)], 0)[1:] - 1
        runs = tf.gather(blank, first) & (last > first) & (self.trailing_space == "kept_inside")
        ends = tf.tensor_scatter_nd_update(made.ends, first[:, None], tf.gather(made.ends, last))
        flat = made.chars.flat_values
        flat = tf.tensor_scatter_nd_update(flat, first[:, None], tf.where(runs, ord(METASPACE), tf.gather(flat, first)))
        return made._replace(chars=made.chars.with_flat_values(flat), ends=ends).keep(begins)

    def _around_added_tokens(self, tokenize, texts, matcher=None):
        matcher = matcher or self._matcher
        if matcher is None or self.trailing_space == "dropped":
            return super()._around_added_tokens(tokenize, texts, matcher)
        sections = matcher(texts)
        kept = tf.fill(tf.shape(sections.tokens), True)
        if self.trailing_space == "kept_inside":
            normalized = matcher.normalized_ids or [-2]  # -1 is a text's end
            kept = tf.reduce_any(sections.tokens[:, None] == tf.constant(normalized), 1)
        return sections.joined(*self._split(sections.strings(), kept))

    def _ids_and_offsets(self, texts):
        if self.trailing_space == "dropped":
            return self._split(texts, None)
        return self._split(texts, tf.fill(tf.shape(texts), self.trailing_space == "kept"))

    def _split(self, texts, kept):
        """Returns ids, starts and ends of texts; `kept`, bool [n]: whether a trailing space is a token."""
        stream, white, splits = self._normalizer(texts)
        row = tf.searchsorted(splits, tf.cast(stream.starts, tf.int64), "right", tf.int64) - 1
        if kept is not None:
            stream, white = _with_spaces_kept(stream, white, row, splits, kept)
        solid = tf.where(~white)[:, 0]
        marker = stream.chars == ord(METASPACE)
        new = shift(white, 1) | (row != shift(row, 1)) | marker | (tf.range(tf.size(row)) == 0)
        stream, new, solid = self._without_unknown_runs(stream.take(solid), tf.gather(new, solid), solid)
        first, total = tf.where(new)[:, 0], tf.size(solid, tf.int64)[None]
        words = tf.RaggedTensor.from_row_splits(stream.chars, tf.concat([first, total], 0), validate=False)
        row = tf.gather(row, tf.gather(solid, first))
        bare = tf.gather(stream.chars, first) != ord(METASPACE)
        strings = tf.strings.join([tf.where(bare, METASPACE, ""), tf.strings.unicode_encode(words, "UTF-8")])
        ids, *offsets = self._words.tokenize_with_offsets(strings)
        word = ids.value_rowids()
        ahead = tf.where(tf.gather(bare, word), len(METASPACE.encode()), 0)
        spans = (tf.cast(each.flat_values, tf.int32) - ahead for each in offsets)
        starts, ends = _to_characters(stream, words, word, *spans)
        origin = tf.cast(tf.gather(splits, tf.gather(row, word)), tf.int32)
        ids, nrows = tf.gather(self._ids, ids.flat_values), tf.size(texts, tf.int64)
        rows = tf.RaggedTensor.from_value_rowids(ids, tf.gather(row, word), nrows=nrows, validate=False)
        return rows, rows.with_flat_values(starts - origin), rows.with_flat_values(ends - origin)


    def _without_unknown_runs(self, stream, new, solid):
        """Keeps the first and the last of several unknown characters in a row, which are one unknown token.

        SentencePiece appends each to the text of this token, so that a long run costs the square of its length.

        Args:
            stream: the characters of words.
            new: bool [characters], where a word begins.
            solid: int64 [characters], where they are in the whole stream.
        """
        unknown = self._known.rows(stream.chars) == 0
        follows = unknown & shift(unknown, 1) & ~new
        kept = tf.where(~(follows & shift(follows, -1)))[:, 0]
        return stream.take(kept), tf.gather(new, kept), tf.gather(solid, kept)


def _with_spaces_kept(stream, white, row, splits, kept):
    """Returns the stream with "▁" for spaces that only Metaspace turns into words, and the remaining separators.

    Such spaces stand before a "▁" or, in texts that are `kept`, at the end; other whitespace is part of a word, and in
    texts that are not `kept` all whitespace at the end is dropped.
    """
    end = tf.gather(splits, row + 1)
    is_end = tf.cast(stream.starts, tf.int64) == end - 1  # the line feed that closes each text
    space = (stream.chars == ord(" ")) & ~is_end
    # A carriage return at the end and that line feed may have been mapped as one.
    at_end = shift(is_end, -1) | (space & (tf.cast(stream.ends, tf.int64) >= end))
    here = tf.gather(kept, row)
    own = space & ((at_end & here) | (~at_end & (shift(stream.chars, -1) == ord(METASPACE))))
    solid_until = tf.math.unsorted_segment_max(
        tf.where(white, -1, tf.range(tf.size(row))), row, tf.size(splits, row.dtype) - 1
    )
    stripped = ~here & (tf.range(tf.size(row)) > tf.gather(solid_until, row))
    chars, ends = tf.where(own, ord(METASPACE), stream.chars), tf.where(own, stream.starts, stream.ends)
    return stream._replace(chars=chars, ends=ends), (space & ~own) | is_end | stripped


def _word_splitter(model, vocab_file):
    """Returns the op that splits a normalized word using the model's scores."""
    words = models.without_normalization(model).SerializeToString()
    try:
        return SentencepieceWords(words)
    except tf.errors.OpError as error:
        raise ValueError(
            f"tensorflow-text cannot read the SentencePiece model {vocab_file}: {error.message:.300}. The file may be "
            "incomplete; download it again."
        ) from error


def _to_characters(stream, words, word, starts, ends):
    """Converts byte offsets in words to code points of all texts: int32 [tokens] each; "▁" gets the next letter's."""
    chars = stream.chars
    byte_of_char = tf.cumsum(utf8_lengths(chars), exclusive=True)
    base = tf.gather(byte_of_char, tf.gather(words.row_starts(), word))

    def char_at(byte):
        return tf.searchsorted(byte_of_char, base + tf.maximum(byte, 0), "right") - 1

    return tf.gather(stream.starts, char_at(starts)), tf.gather(stream.ends, char_at(ends - 1))
