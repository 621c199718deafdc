"""Encodes questions and windows of their contexts for a question-answering model; eager and in a SavedModel alike."""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.models.families import InputTemplate
from bert_tf.tokenization.packing import Windows, find_windows


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


def check_lengths(template: InputTemplate, max_seq_length: int, max_query_length: int, doc_stride: int):
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
            f"`doc_stride` must be from 1 to `max_seq_length` - `max_query_length` - {special}, what a row holds of "
            f"the context beside the longest question: {room} here. Received: {doc_stride}; with a greater one, pieces "
            "would fall between two rows."
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
    check_lengths(template, max_seq_length, max_query_length, doc_stride)
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
