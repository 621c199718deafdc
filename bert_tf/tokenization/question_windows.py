"""Questions paired with windows of their contexts, for question-answering models; eager and in a SavedModel."""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.tokenization.window_sizes import check_question_lengths
from bert_tf.tokenization.windows import Windows, find_windows


class QuestionWindows(NamedTuple):
    """The sequences of n questions, grouped by question; every question has at least one.

    With BERT's template:

        input_ids    [CLS] q1 q2 [SEP] c3 c4 c5 [SEP]
        segment_ids    0   0  0   0    1  1  1   1
        starts        -1  -1 -1  -1    9 12 14  -1

    Attributes:
        packed: "input_ids" and "segment_ids", RaggedTensors of int32 [w, (length)].
        windows: windows of the contexts; `windows.rows`, int64 [w], is the question index of each sequence, ascending.
        starts, ends: RaggedTensors of int32 [w, (length)]: a token came from context[start:end], counted in code
            points as in `BaseTokenizer.tokenize_with_offsets`; -1 for tokens outside the context.
    """

    packed: dict[str, tf.RaggedTensor]
    windows: Windows
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def encode_questions(
    tokenizer, questions, contexts, max_seq_length: int, doc_stride: int, max_query_length: int
) -> QuestionWindows:
    """Encodes questions with windows of their contexts, as in google-research/bert's run_squad.py.

    Args:
        tokenizer: a `BaseTokenizer`.
        questions: strings [n]; only the first max_query_length tokens are kept.
        contexts: strings [n].
        max_seq_length: maximum tokens per sequence.
        doc_stride: context tokens from one sequence's first to the next sequence's first.
        max_query_length: maximum tokens per question.

    Returns:
        The `QuestionWindows`.

    Raises:
        ValueError: the lengths leave no room for the context, or leave gaps in it.
    """
    tokens = tokenizer.tokenize(questions), tokenizer.tokenize_with_offsets(contexts)
    return encode_tokenized_questions(tokenizer, *tokens, max_seq_length, doc_stride, max_query_length)


def encode_tokenized_questions(
    tokenizer, question, context, max_seq_length: int, doc_stride: int, max_query_length: int
) -> QuestionWindows:
    """Encodes questions and contexts that are tokenized already; see `encode_questions`.

    Args:
        question: RaggedTensor of int32 [n, (tokens)], as from `BaseTokenizer.tokenize`.
        context: three RaggedTensors, as from `BaseTokenizer.tokenize_with_offsets`.
        tokenizer, max_seq_length, doc_stride, max_query_length, errors: see `encode_questions`.
    """
    template = tokenizer.template
    check_question_lengths(template, max_seq_length, max_query_length, doc_stride)
    ids, starts, ends = context
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

    return QuestionWindows(packed, windows, aligned(starts), aligned(ends))
