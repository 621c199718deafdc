"""Texts to the rows that a tagger reads, and to their words: which piece speaks for a word, and where the word lies.

Eager and in a SavedModel alike, so that what a program reads from a file is what the exported model reads.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization.characters import PAGE, SPACE, character_table
from bert_tf.tokenization.packing import room_for
from bert_tf.tokenization.windows import Windows, windows_of

# What a word of running text may have at its edges without being part of the name that it stands in.
_EDGES = tuple(map(ord, ".,;:!?\"'()[]{}<>…‘’‚“”„«»‹›¡¿、。，；：！？（）「」『』《》"))
_FULL_STOP = ord(".")


class Words(NamedTuple):
    """The W words of n texts, those of one text one after the other; a word without pieces does not count.

    A word is what stands between white space. Its first piece speaks for it, in the window where that piece has the
    most pieces around it.

    Attributes:
        texts: strings [n], without the bytes that are not UTF-8, which the offsets do not count.
        of_text: int64 [W], the text that each word is of; ascending.
        rows, columns: int64 [W], where the word's first piece stands in the rows.
        starts, limits: int32 [W], the word in its text, half-open, in code points.
        inner_starts, inner_limits: int32 [W], the same without the punctuation at its edges: "Rome," -> "Rome", but
            "U.S." and "..." stay as they are.
    """

    texts: tf.Tensor
    of_text: tf.Tensor
    rows: tf.Tensor
    columns: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor
    inner_starts: tf.Tensor
    inner_limits: tf.Tensor


def word_rows(tokenizer, texts, max_seq_length: int, stride: int) -> tuple[dict[str, tf.RaggedTensor], Words]:
    """Lays texts out in rows, as many as there are windows of their pieces, and says where their words are.

        text        Joan    Baez,       in Rome.
        row         [CLS] joan ba ##ez , in rome . [SEP]
        columns             1   2        5  6               the first pieces of the four words

    Args:
        tokenizer: a `Tokenizer`.
        texts: strings [n].
        max_seq_length: pieces of a row at most.
        stride: pieces from one window's start to the next's.

    Returns:
        "input_ids" and "segment_ids", RaggedTensors of int32 [w, (length)]; and the `Words`.

    Raises:
        ValueError: max_seq_length has no room for a piece, or pieces would fall between two windows.
    """
    room = room_for(1, max_seq_length, tokenizer.template)
    if not 1 <= stride <= room:
        raise ValueError(
            f"`doc_stride` must be from 1 to what a row of `max_seq_length` has room for, {room} pieces here. "
            f"Received: {stride}; with a greater one, pieces would fall between two windows."
        )
    texts = tf.strings.unicode_transcode(tf.convert_to_tensor(texts, tf.string), "UTF-8", "UTF-8", errors="ignore")
    ids, starts, limits = tokenizer.tokenize_with_offsets(texts)
    windows = windows_of(ids.row_lengths(), room, stride)
    packed = tokenizer.pack(windows.take(ids), max_seq_length=max_seq_length)
    chars = tf.strings.unicode_decode(texts, "UTF-8")
    spans = _Spans.of(chars)
    base = tf.gather(chars.row_starts(), ids.value_rowids())
    solid = tf.where(starts.flat_values < limits.flat_values)[:, 0]  # a piece of a space alone is of no word
    word = tf.gather(spans.word_of_char, tf.gather(base + tf.cast(starts.flat_values, tf.int64), solid))
    begins = tf.where(tf.concat([[True], word[1:] != word[:-1]], 0)[: tf.size(word)])[:, 0]
    word, first = tf.gather(word, begins), tf.gather(solid, begins)
    row, place = _best_windows(windows, ids)
    of_text = tf.gather(ids.value_rowids(), first)
    origin = tf.gather(chars.row_starts(), of_text)
    columns = tf.gather(place, first) + len(tokenizer.template.before)
    spans = [tf.cast(tf.gather(part, word) - origin, tf.int32) for part in spans.extents()]
    return packed, Words(texts, of_text, tf.gather(row, first), columns, *spans)


class _Spans(NamedTuple):
    """The words of all texts, by the code points of all texts in one row: int64 [code points], or [words]."""

    word_of_char: tf.Tensor  # of white space: that of the word before it, or -1
    starts: tf.Tensor
    limits: tf.Tensor
    inner_starts: tf.Tensor
    inner_limits: tf.Tensor

    @classmethod
    def of(cls, chars: tf.RaggedTensor) -> "_Spans":
        flat = chars.flat_values
        space = _is_space(flat)
        text = chars.value_rowids()
        begins_text = tf.concat([[True], text[1:] != text[:-1]], 0)[: tf.size(text)]
        begins = ~space & (begins_text | tf.concat([[True], space], 0)[:-1])
        word = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        count, solid = tf.reduce_sum(tf.cast(begins, tf.int64)), tf.where(~space)[:, 0]
        char, of = tf.gather(flat, solid), tf.gather(word, solid)
        stops = tf.math.unsorted_segment_sum(tf.cast(char == _FULL_STOP, tf.int64), of, count)
        edge = tf.reduce_any(char[:, tf.newaxis] == tf.constant(_EDGES), 1)
        edge &= ~((char == _FULL_STOP) & (tf.gather(stops, of) > 1))
        inner, of_inner = tf.boolean_mask(solid, ~edge), tf.boolean_mask(of, ~edge)
        starts, limits = tf.math.segment_min(solid, of), tf.math.segment_max(solid, of) + 1
        first = tf.math.unsorted_segment_min(inner, of_inner, count)
        last = tf.math.unsorted_segment_max(inner, of_inner, count)
        only_edges = last < 0  # what the maximum of nothing is
        return cls(word, starts, limits, tf.where(only_edges, starts, first), tf.where(only_edges, limits, last + 1))

    def extents(self):
        return self.starts, self.limits, self.inner_starts, self.inner_limits


def _is_space(chars):
    """bool [code points]: what separates words, for the tokenizer too."""
    table = character_table()
    places = tf.gather(tf.constant(table.pages), chars // PAGE) * PAGE + chars % PAGE
    return tf.gather(tf.constant(table.flags), places) & SPACE != 0


def _best_windows(windows: Windows, ids):
    """Returns int64 [pieces] twice: the window in which each piece has most around it, and its place in that window.

    As google-research/bert's run_squad.py chooses: the fewer of the pieces to the left and to the right decide, and of
    equal windows the first.
    """
    at = windows.take(ids.with_flat_values(tf.range(tf.size(ids.flat_values, tf.int64))))
    piece, row = at.flat_values, at.value_rowids()
    place = tf.range(tf.size(piece, tf.int64)) - tf.gather(at.row_starts(), row)
    around = tf.minimum(place, tf.gather(windows.lengths, row) - 1 - place)
    count = tf.size(ids.flat_values, tf.int64)
    most = tf.math.unsorted_segment_max(around, piece, count)
    best = tf.where(around == tf.gather(most, piece))[:, 0]
    chosen = tf.math.unsorted_segment_min(best, tf.gather(piece, best), count)
    return tf.gather(row, chosen), tf.gather(place, chosen)
