"""Joins the ids of one or two texts into model inputs: truncation, special tokens, padding, windows, questions."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_tf.models.families import InputTemplate
from bert_tf.tokenization.flat_ops import ragged, take

# === Windows ===
# A text that is too long for one sequence is cut into several that overlap.


class Windows(NamedTuple):
    """The windows of n texts, those of one text one after the other.

    Attributes:
        rows: int64 [w], the text that each window is of; ascending.
        starts: int64 [w], its first token, counted from the text's first.
        lengths: int64 [w], its tokens.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor

    def take(self, values: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the windows' values, ragged [w, (length)], of values per token of the texts, ragged [n, (tokens)]."""
        first = tf.gather(values.row_starts(), self.rows) + self.starts
        at = tf.ragged.range(first, first + self.lengths)
        return at.with_flat_values(tf.gather(values.flat_values, at.flat_values))


def find_windows(lengths, room, stride: int) -> Windows:
    """Cuts texts as google-research/bert's run_squad.py cuts paragraphs: the last window ends where the text ends.

        8 tokens, room 4, stride 2      0 1 2 3,  2 3 4 5,  4 5 6 7

    Args:
        lengths: int [n], tokens of each text; an empty text has one empty window.
        room: int [] or [n], tokens of a window at most; 0 for empty texts only.
        stride: tokens from one window's start to the next; at most `room`, or tokens would fall between two windows;
            where a text has less room, its stride is its room.

    Returns:
        The `Windows`.
    """
    lengths = tf.cast(lengths, tf.int64)
    room = tf.broadcast_to(tf.cast(room, tf.int64), tf.shape(lengths))
    stride = tf.maximum(tf.minimum(tf.cast(stride, tf.int64), room), 1)
    counts = 1 + tf.maximum(tf.cast(0, tf.int64), -(-(lengths - room) // stride))
    number = tf.ragged.range(counts)
    rows = number.value_rowids()
    starts = number.flat_values * tf.gather(stride, rows)
    return Windows(rows, starts, tf.minimum(tf.gather(room, rows), tf.gather(lengths, rows) - starts))


# === Packing ===


def pack_texts(
    ids_a, ids_b, max_seq_length: int, template: InputTemplate, id_of: Callable[[str], int]
) -> dict[str, tf.RaggedTensor]:
    """Joins one or two texts a sequence with special tokens, truncated to max_seq_length as google-research/bert cuts.

        input_ids    [CLS] a1 a2 a3 [SEP] b1 b2 [SEP]        this is BERT's template
        segment_ids    0   0  0  0    0   1  1    1

    One text loses its end. Of two, the longer loses tokens from its end, one at a time; of equal ones the second.

    Args:
        ids_a, ids_b: RaggedTensors of int32 [n, (tokens)]; ids_b may be None.
        max_seq_length: tokens in a sequence at most, special ones included; also an int32 scalar.
        template: what is around the texts.
        id_of: from a special token to its id.

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
    """One part of each of n sequences: in sequence i, it is ids[starts[i] : starts[i] + counts[i]]."""

    ids: tf.Tensor
    starts: tf.Tensor
    counts: tf.Tensor
    segment: int


def _join(parts: list[_AtOnePlace]) -> dict[str, tf.RaggedTensor]:
    """Returns "input_ids" and "segment_ids" of the sequences that result from joining the parts in order."""
    starts, before = [], tf.zeros([], tf.int64)
    for part in parts:
        starts.append(before + part.starts)
        before += tf.size(part.ids, tf.int64)
    starts = tf.reshape(tf.stack(starts, 1), [-1])
    limits = starts + tf.reshape(tf.stack([tf.cast(part.counts, tf.int64) for part in parts], 1), [-1])
    splits, at = tf.raw_ops.RaggedRange(starts=starts, limits=limits, deltas=tf.ones([], tf.int64))
    splits = splits[:: len(parts)]
    ids = take(tf.concat([part.ids for part in parts], 0), at)
    segments = tf.zeros_like(ids, tf.int32)
    if any(part.segment for part in parts):
        segments = take(tf.concat([tf.fill(tf.shape(part.ids), part.segment) for part in parts], 0), at)
    return {"input_ids": ragged(ids, splits), "segment_ids": ragged(segments, splits)}


def room_for(texts: int, max_seq_length, template: InputTemplate):
    """Returns how many tokens a sequence has for so many texts, 1 or 2, together.

    Args:
        texts: how many.
        max_seq_length: int, or an int32 scalar, which makes the result an int64 scalar.
        template: what is around the texts.

    Raises:
        ValueError: there is no room for the special tokens; tf.errors.InvalidArgumentError where a graph finds it out.
    """
    special = template.special(texts)
    needed = (
        f"max_seq_length must have room for the special tokens, {' '.join(template.pieces(texts))}: at least "
        f"{special} here."
    )
    if tf.is_tensor(max_seq_length):
        said = [f"{needed} Raise it; received:", max_seq_length]
        fits = tf.raw_ops.Assert(condition=max_seq_length >= special, data=said)
        with tf.control_dependencies([] if fits is None else [fits]):  # None: eager, checked already
            return tf.cast(max_seq_length, tf.int64) - special
    if max_seq_length < special:
        raise ValueError(f"{needed} Received: {max_seq_length}; raise `max_seq_length`.")
    return max_seq_length - special


def pad(packed: Mapping[str, tf.RaggedTensor], seq_length: int | None, pad_id: int) -> dict[str, tf.Tensor]:
    """Fills the sequences of `pack_texts` up to one length.

        input_ids    [CLS] a1 [SEP] [PAD] [PAD]
        input_mask     1   1    1     0     0
        segment_ids    0   0    0     0     0

    Args:
        packed: "input_ids" and "segment_ids", RaggedTensors of int32 [n, (length)].
        seq_length: tokens in every sequence, int or int32 scalar; None: as many as the longest sequence has.
        pad_id: id of [PAD].

    Returns:
        "input_ids", "input_mask" and "segment_ids", int32 [n, seq_length].

    Raises:
        tf.errors.InvalidArgumentError: a sequence is longer than seq_length (padding never cuts).
    """
    ids, segments = packed["input_ids"], packed["segment_ids"]
    longest = tf.reduce_max(tf.concat([[0], ids.row_lengths()], 0))
    width = longest if seq_length is None else tf.cast(seq_length, tf.int64)
    if seq_length is not None:
        message = f"seq_length must hold the longest sequence. Received: {seq_length}; pack with that max_seq_length."
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
    """Returns how much of each text of a pair is kept: what popping the longer one's last token (equal: the second's)
    until both fit leaves.

    The first one gets the odd token when both are cut; a text under its half gives the rest of its half away.

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


# === Questions ===
# Questions with windows of their contexts, for a question-answering model; eager and in a SavedModel.


class QuestionWindows(NamedTuple):
    """The sequences of n questions, those of one question in succession; every question has one at least.

    With BERT's template:

        input_ids    [CLS] q1 q2 [SEP] c3 c4 c5 [SEP]
        segment_ids    0   0  0   0    1  1  1   1
        starts        -1  -1 -1  -1    9 12 14  -1

    Attributes:
        packed: "input_ids" and "segment_ids", RaggedTensors of int32 [w, (length)].
        windows: of the contexts; `windows.rows`, int64 [w], is the question that each sequence is of, ascending.
        starts, limits: RaggedTensors of int32 [w, (length)]: a token came from context[start:limit], counted in code
            points as `Tokenizer.tokenize_with_offsets` does; -1 where it is not of the context.
    """

    packed: dict[str, tf.RaggedTensor]
    windows: Windows
    starts: tf.RaggedTensor
    limits: tf.RaggedTensor


def check_question_lengths(template: InputTemplate, max_seq_length: int, max_query_length: int, doc_stride: int):
    """Raises ValueError where a sequence has no room for the context, or tokens would fall between two windows."""
    special = template.special(2)
    room = max_seq_length - max_query_length - special
    if room < 1:
        raise ValueError(
            f"`max_seq_length` must be greater than `max_query_length` + {special}, for the question, "
            f"{' '.join(template.pieces(2))} and some of the context. Received {max_seq_length} and "
            f"{max_query_length}; raise the first or lower the second."
        )
    if not 1 <= doc_stride <= room:
        raise ValueError(
            f"`doc_stride` must be from 1 to `max_seq_length` - `max_query_length` - {special}, what a sequence holds "
            f"of the context with the longest question: {room} here. Received: {doc_stride}; with a greater one, "
            "tokens would fall between two windows."
        )


def encode_questions(
    tokenizer, questions, contexts, max_seq_length: int, doc_stride: int, max_query_length: int
) -> QuestionWindows:
    """Encodes questions with windows of their contexts, as google-research/bert's run_squad.py does.

    Args:
        tokenizer: a `Tokenizer`.
        questions: strings [n]; tokens behind the first max_query_length are cut.
        contexts: strings [n].
        max_seq_length: tokens of a sequence at most.
        doc_stride: tokens of the context from one sequence's first to the next sequence's.
        max_query_length: tokens of a question at most.

    Returns:
        The `QuestionWindows`.

    Raises:
        ValueError: the lengths leave no room for the context, or gaps in it.
    """
    tokens = tokenizer.tokenize(questions), tokenizer.tokenize_with_offsets(contexts)
    return encode_tokenized_questions(tokenizer, *tokens, max_seq_length, doc_stride, max_query_length)


def encode_tokenized_questions(
    tokenizer, question, context, max_seq_length: int, doc_stride: int, max_query_length: int
) -> QuestionWindows:
    """As `encode_questions`, of texts that are tokens already.

    Args:
        question: RaggedTensor of int32 [n, (tokens)], as from `Tokenizer.tokenize`.
        context: three of them, as from `Tokenizer.tokenize_with_offsets`.
        tokenizer, max_seq_length, doc_stride, max_query_length, errors: see `encode_questions`.
    """
    template = tokenizer.template
    check_question_lengths(template, max_seq_length, max_query_length, doc_stride)
    ids, starts, limits = context
    question = question[:, :max_query_length]
    room = max_seq_length - template.special(2) - question.row_lengths()
    windows = find_windows(ids.row_lengths(), room, doc_stride)
    question = tf.gather(question, windows.rows)
    packed = tokenizer.pack(question, windows.take(ids), max_seq_length)

    count, elsewhere = tf.size(windows.rows), len(template.before) + len(template.between)
    before = tf.concat([question, tf.zeros([count, elsewhere], tf.int32)], axis=1)  # as long as what is before it
    before = before.with_flat_values(-tf.ones_like(before.flat_values))
    after = tf.fill([count, len(template.after)], -1)

    def aligned(offsets):
        return tf.concat([before, windows.take(offsets), after], axis=1)

    return QuestionWindows(packed, windows, aligned(starts), aligned(limits))
