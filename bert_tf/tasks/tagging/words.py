"""Encodes texts for a tagger, and locates their words: the token that represents each word, and its position.

The graph is the same eagerly and in a SavedModel, so that files and requests are encoded identically.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization.characters import SPACE, character_table
from bert_tf.tokenization.flat_ops import places, take, upper_bound, where
from bert_tf.tokenization.special_tokens import room_for
from bert_tf.tokenization.windows import Windows, find_windows
from bert_tf.tokenization.word_boundaries import ALONE, ATTACHED, BLANK, EDGES, class_pages

_EDGES = tuple(map(ord, EDGES))
_FULL_STOP = ord(".")


class TaggedWords(NamedTuple):
    """The W words of n texts, grouped by text; words without tokens are omitted.

    A word is represented by its first token, in the window where that token has the most context. A word in which no
    token begins, such as the second character of a token of two, is represented by the token that it is in.

    Attributes:
        texts: strings [n], without invalid UTF-8 bytes, which the offsets do not count.
        of_text: int64 [W], the text index of each word; ascending.
        sequences, positions: int64 [W], the sequence of the word's first token, and its position in it.
        starts, ends: int32 [W], the span of the word in its text, half-open, in code points.
        inner_starts, inner_ends: int32 [W], the same without punctuation at its edges: "Rome," -> "Rome", but "U.S."
            and "..." are unchanged.
    """

    texts: tf.Tensor
    of_text: tf.Tensor
    sequences: tf.Tensor
    positions: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    inner_starts: tf.Tensor
    inner_ends: tf.Tensor


def encode_words(
    tokenizer, texts, max_seq_length: int, stride: int, boundaries: str = "whitespace"
) -> tuple[dict[str, tf.RaggedTensor], TaggedWords]:
    """Encodes texts with one sequence per window of their tokens, and locates their words.

        text        Joan    Baez,       in Rome.
        sequence    [CLS] joan ba ##ez , in rome . [SEP]
        positions           1   2        5  6               the first tokens of the four words

    Args:
        tokenizer: a `BaseTokenizer`.
        texts: strings [n].
        max_seq_length: maximum tokens per sequence.
        stride: tokens from one window's start to the next one's.
        boundaries: where words end, one of `names.WORD_BOUNDARIES`.

    Returns:
        "input_ids" and "segment_ids", RaggedTensors of int32 [w, (length)]; and the `TaggedWords`.

    Raises:
        ValueError: max_seq_length has no room for a token, or tokens would fall between two windows.
    """
    room = room_for(1, max_seq_length, tokenizer.template)
    if not 1 <= stride <= room:
        raise ValueError(
            f"`doc_stride` must be from 1 to {room}, the number of tokens that fit into a sequence of "
            f"`max_seq_length`; got {stride}; with a larger one, tokens would fall between two windows."
        )
    texts = tf.strings.unicode_transcode(tf.convert_to_tensor(texts, tf.string), "UTF-8", "UTF-8", errors="ignore")
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    windows = find_windows(ids.row_lengths(), room, stride)
    packed = tokenizer.pack(windows.take(ids), max_seq_length=max_seq_length)
    chars = tf.strings.unicode_decode(texts, "UTF-8")
    spans = _Spans.of(chars, boundaries)
    word, first = _first_tokens(spans, chars, ids, starts, ends)
    sequence, position = _best_windows(windows, ids)
    of_text = tf.gather(ids.value_rowids(), first)
    origin = tf.gather(chars.row_starts(), of_text)
    positions = tf.gather(position, first) + len(tokenizer.template.before)
    spans = [tf.cast(tf.gather(part, word) - origin, tf.int32) for part in spans.extents()]
    return packed, TaggedWords(texts, of_text, tf.gather(sequence, first), positions, *spans)


def _first_tokens(spans, chars, ids, starts, ends):
    """Returns int64 [W] twice: the words that have a token, and the first token of each, or the one that it is in."""
    base = tf.gather(chars.row_starts(), ids.value_rowids())
    solid = where(starts.flat_values < ends.flat_values)  # a token of a space alone is of no word
    begins, limits = (tf.gather(base + tf.cast(side.flat_values, tf.int64), solid) for side in (starts, ends))
    words = tf.size(spans.starts, tf.int64)
    own = tf.math.unsorted_segment_min(solid, tf.gather(spans.word_of_char, begins), words)
    around = upper_bound(begins, spans.starts) - 1
    known = tf.concat([[0], limits], 0)  # so that -1, no token before it, is a place too
    inside = tf.where(take(known, around + 1) > spans.starts, take(tf.concat([[-1], solid], 0), around + 1), -1)
    token = tf.where(own < tf.int64.max, own, inside)
    word = where(token >= 0)
    return word, take(token, word)


class _Spans(NamedTuple):
    """The words of all texts, indexed by the code points of the concatenated texts: int64 [code points], or [words]."""

    word_of_char: tf.Tensor  # of white space: that of the word before it, or -1
    starts: tf.Tensor
    ends: tf.Tensor
    inner_starts: tf.Tensor
    inner_ends: tf.Tensor

    @classmethod
    def of(cls, chars: tf.RaggedTensor, boundaries: str) -> "_Spans":
        flat = chars.flat_values
        begins, space = _mark_words(chars, boundaries)
        word = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        count, solid = tf.reduce_sum(tf.cast(begins, tf.int64)), tf.where(~space)[:, 0]
        char, of = tf.gather(flat, solid), tf.gather(word, solid)
        stops = tf.math.unsorted_segment_sum(tf.cast(char == _FULL_STOP, tf.int64), of, count)
        edge = tf.reduce_any(char[:, tf.newaxis] == tf.constant(_EDGES), 1)
        edge &= ~((char == _FULL_STOP) & (tf.gather(stops, of) > 1))
        inner, of_inner = tf.boolean_mask(solid, ~edge), tf.boolean_mask(of, ~edge)
        starts, ends = tf.math.segment_min(solid, of), tf.math.segment_max(solid, of) + 1
        first = tf.math.unsorted_segment_min(inner, of_inner, count)
        last = tf.math.unsorted_segment_max(inner, of_inner, count)
        only_edges = last < 0  # what the maximum of nothing is
        return cls(word, starts, ends, tf.where(only_edges, starts, first), tf.where(only_edges, ends, last + 1))

    def extents(self):
        return self.starts, self.ends, self.inner_starts, self.inner_ends


def _mark_words(chars, boundaries):
    """Returns bool [code points] twice: where words begin, as in `word_spans`, and which characters are whitespace."""
    flat, text = chars.flat_values, chars.value_rowids()
    begins_text = tf.concat([[True], text[1:] != text[:-1]], 0)[: tf.size(text)]
    if boundaries == "whitespace":
        table = character_table(False, False)  # flags are the same in all tables, and this is the smallest
        space = take(tf.constant(table.flags), places(tf.constant(table.pages), flat)) & SPACE != 0
        return ~space & (begins_text | _shifted(space, True)), space
    pages, entries = class_pages(boundaries)
    classes = take(tf.constant(entries), places(tf.constant(pages), flat))
    space = classes == BLANK
    attached = (classes == ATTACHED) & ~begins_text & ~_shifted(space, True)
    known = tf.concat([[BLANK], tf.boolean_mask(classes, ~attached)], 0)
    before = _shifted(take(known, tf.cumsum(tf.cast(~attached, tf.int32))), BLANK)
    begins = begins_text | (before == BLANK) | (before == ALONE) | (classes == ALONE)
    return ~space & ~attached & begins, space


def _shifted(values, first):
    """Returns the value before each one."""
    return tf.concat([[first], values], 0)[:-1]


def _best_windows(windows: Windows, ids):
    """Returns int64 [tokens] twice: the window in which each token has most around it, and its position in that window.

    As google-research/bert's run_squad.py chooses: the fewer of the tokens to the left and to the right decide, and of
    equal windows the first.
    """
    at = windows.take(ids.with_flat_values(tf.range(tf.size(ids.flat_values, tf.int64))))
    token, window = at.flat_values, at.value_rowids()
    position = tf.range(tf.size(token, tf.int64)) - tf.gather(at.row_starts(), window)
    around = tf.minimum(position, tf.gather(windows.lengths, window) - 1 - position)
    count = tf.size(ids.flat_values, tf.int64)
    most = tf.math.unsorted_segment_max(around, token, count)
    best = tf.where(around == tf.gather(most, token))[:, 0]
    chosen = tf.math.unsorted_segment_min(best, tf.gather(token, best), count)
    return tf.gather(window, chosen), tf.gather(position, chosen)
