"""Joins the ids of one or two texts into model inputs: truncation, special tokens, padding."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.flat_ops import ragged, take


def add_special_tokens(
    ids_a, ids_b, max_seq_length: int, template: InputTemplate, id_of: Callable[[str], int]
) -> dict[str, tf.RaggedTensor]:
    """Joins one or two texts per sequence with special tokens, truncated to max_seq_length as in google-research/bert.

        input_ids    [CLS] a1 a2 a3 [SEP] b1 b2 [SEP]        this is BERT's template
        segment_ids    0   0  0  0    0   1  1    1

    A single text loses its end. Of a pair, the longer text loses its last token, one at a time; on a tie, the second.

    Args:
        ids_a, ids_b: RaggedTensors of int32 [n, (tokens)]; ids_b may be None.
        max_seq_length: maximum tokens per sequence, including special ones; an int or an int32 scalar tensor.
        template: the special tokens around the texts.
        id_of: maps a special token to its id.

    Returns:
        "input_ids" and "segment_ids", RaggedTensors of int32 [n, (length)].

    Raises:
        ValueError: max_seq_length has no room for the special tokens, or the model has no segment for a second text.
    """
    texts = 1 if ids_b is None else 2
    template.check(texts)
    room = room_for(texts, max_seq_length, template)
    length_a = ids_a.row_lengths()
    if ids_b is None:
        keep_a, keep_b = tf.minimum(length_a, room), None
    else:
        keep_a, keep_b = pair_lengths(length_a, ids_b.row_lengths(), room)

    def special(tokens, segment):
        ids = tf.constant([id_of(token) for token in tokens], ids_a.dtype)
        return _AtOnePlace(ids, tf.zeros_like(keep_a), tf.fill(tf.shape(keep_a), len(tokens)), segment)

    parts = [special(template.before, 0), _AtOnePlace(ids_a.flat_values, ids_a.row_starts(), keep_a, 0)]
    segment = 0
    if ids_b is not None:
        segment = template.second_segment
        parts += [special(template.between, 0), _AtOnePlace(ids_b.flat_values, ids_b.row_starts(), keep_b, segment)]
    return _join([*parts, special(template.after, segment)])


class _AtOnePlace(NamedTuple):
    """One component of each of n sequences: in sequence i, it is ids[starts[i] : starts[i] + counts[i]]."""

    ids: tf.Tensor
    starts: tf.Tensor
    counts: tf.Tensor
    segment: int


def _join(parts: list[_AtOnePlace]) -> dict[str, tf.RaggedTensor]:
    """Returns "input_ids" and "segment_ids" of the sequences made by joining the components in order."""
    starts, before = [], tf.zeros([], tf.int64)
    for part in parts:
        starts.append(before + part.starts)
        before += tf.size(part.ids, tf.int64)
    starts = tf.reshape(tf.stack(starts, 1), [-1])
    ends = starts + tf.reshape(tf.stack([tf.cast(part.counts, tf.int64) for part in parts], 1), [-1])
    splits, at = tf.raw_ops.RaggedRange(starts=starts, limits=ends, deltas=tf.ones([], tf.int64))
    splits = splits[:: len(parts)]
    ids = take(tf.concat([part.ids for part in parts], 0), at)
    segments = tf.zeros_like(ids, tf.int32)
    if any(part.segment for part in parts):
        segments = take(tf.concat([tf.fill(tf.shape(part.ids), part.segment) for part in parts], 0), at)
    return {"input_ids": ragged(ids, splits), "segment_ids": ragged(segments, splits)}


def room_for(texts: int, max_seq_length, template: InputTemplate):
    """Returns the number of tokens that a sequence has for its text or two texts together.

    Args:
        texts: number of texts, 1 or 2.
        max_seq_length: int, or an int32 scalar tensor, which makes the result an int64 scalar.
        template: the special tokens around the texts.

    Raises:
        ValueError: there is no room for the special tokens; in a graph, tf.errors.InvalidArgumentError.
    """
    if not tf.is_tensor(max_seq_length):
        return template.room_for(texts, max_seq_length)
    special = template.special(texts)
    said = [f"{template.needed_length(texts)}; got", max_seq_length]
    fits = tf.raw_ops.Assert(condition=max_seq_length >= special, data=said)
    with tf.control_dependencies([] if fits is None else [fits]):  # None: eager, checked already
        return tf.cast(max_seq_length, tf.int64) - special


def pad(packed: Mapping[str, tf.RaggedTensor], seq_length: int | None, pad_id: int) -> dict[str, tf.Tensor]:
    """Pads the sequences of `add_special_tokens` to one length.

        input_ids    [CLS] a1 [SEP] [PAD] [PAD]
        input_mask     1   1    1     0     0
        segment_ids    0   0    0     0     0

    Args:
        packed: "input_ids" and "segment_ids", RaggedTensors of int32 [n, (length)].
        seq_length: length of every sequence, an int or an int32 scalar tensor. If None, that of the longest.
        pad_id: id of [PAD].

    Returns:
        "input_ids", "input_mask" and "segment_ids", int32 [n, seq_length].

    Raises:
        tf.errors.InvalidArgumentError: a sequence is longer than seq_length (padding never truncates).
    """
    ids, segments = packed["input_ids"], packed["segment_ids"]
    longest = tf.reduce_max(tf.concat([[0], ids.row_lengths()], 0))
    width = longest if seq_length is None else tf.cast(seq_length, tf.int64)
    if seq_length is not None:
        message = f"seq_length must fit the longest sequence; got {seq_length}; pack with that max_seq_length."
        fits = tf.raw_ops.Assert(condition=longest <= width, data=[message, longest, width])
        with tf.control_dependencies([] if fits is None else [fits]):  # None: eager, checked already
            width = tf.identity(width)
    shape = tf.stack([-1, width])

    def dense(values, fill):
        padded = tf.raw_ops.RaggedTensorToTensor(
            shape=shape, values=values, default_value=fill, row_partition_tensors=[ids.row_splits],
            row_partition_types=["ROW_SPLITS"],
        )  # fmt: skip
        return tf.ensure_shape(padded, [ids.shape[0], None if tf.is_tensor(seq_length) else seq_length])

    mask = tf.ones_like(ids.flat_values)
    return {
        "input_ids": dense(ids.flat_values, pad_id),
        "input_mask": dense(mask, 0),
        "segment_ids": dense(segments.flat_values, 0),
    }


def pair_lengths(length_a, length_b, room):
    """Returns the number of tokens kept of each text of a pair, popping the last token of the longer one (on a tie, the
    second) until both fit.

    If both are truncated, the first keeps the odd token; a text shorter than half leaves its unused room to the other.

    Args:
        length_a, length_b: int64 [n].
        room: tokens for both together, int or int64 [].

    Returns:
        int64 [n] twice.
    """
    keep_b = tf.minimum(length_b, tf.maximum(tf.cast(room // 2, tf.int64), room - length_a))
    return tf.minimum(length_a, room - keep_b), keep_b


def first_of_each(ids, lengths):
    """Returns the first `lengths` (a number, or int64 [n]) tokens of each sequence of ids."""
    lengths = tf.minimum(ids.row_lengths(), tf.cast(lengths, tf.int64))
    at = tf.ragged.range(ids.row_starts(), ids.row_starts() + lengths)
    return at.with_flat_values(tf.gather(ids.flat_values, at.flat_values))
