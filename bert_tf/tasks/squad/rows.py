"""Questions and contexts to the rows that BERT reads: a row for each window of a context, and where it came from."""

import dataclasses

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.cut import Cut
from bert_tf.data.dataset import Tokenized
from bert_tf.data.ragged import Ragged
from bert_tf.tasks.squad.files import SquadExamples
from bert_tf.tokenization.questions import check_lengths, windows_of_pieces
from bert_tf.utils.counts import number_of

_CHUNK = 5_000  # texts tokenized at a time: few enough to keep memory small


@dataclasses.dataclass(frozen=True)
class QuestionOrigin:
    """Where w rows `[CLS] question [SEP] window [SEP]` come from, those of one question one after the other.

    Attributes:
        example: int64 [w], the question that each row is of; ascending.
        starts, limits: int32, the code points of the context from and to which each piece of the rows is; -1 where a
            piece is not of the context.
    """

    example: np.ndarray
    starts: Ragged
    limits: Ragged


def question_rows(
    tokenizer,
    examples: SquadExamples,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    with_answers: bool,
) -> Tokenized:
    """Cuts contexts into windows, as google-research/bert's run_squad.py does, and joins each with its question.

        [CLS] who is it ? [SEP] ada wrote the first program [SEP]        max_seq_length 12, doc_stride 2
        [CLS] who is it ? [SEP] the first program .         [SEP]

    Every context is tokenized once, however many questions there are about it.

    Args:
        tokenizer: a `Tokenizer`.
        examples: from `files.read_squad`.
        max_seq_length: pieces in a row at most.
        doc_stride: pieces from one window's start to the next's.
        max_query_length: pieces of a question at most; the end is cut.
        with_answers: make the targets, of the first answer of each question.

    Returns:
        the w rows; `origin` is their `QuestionOrigin`, and the targets are `start_positions` and `end_positions`, int32
        [w], the columns of the answer's first and last piece, 0 where the window does not hold the whole answer.

    Raises:
        ValueError: the lengths leave no room for the context, or gaps in it.
    """
    check_lengths(tokenizer.template, max_seq_length, max_query_length, doc_stride)  # before the long work
    distinct = {context: i for i, context in enumerate(dict.fromkeys(examples.contexts))}
    context_of = np.array([distinct[context] for context in examples.contexts], np.int64)
    contexts = _in_parts(tokenizer.tokenize_with_offsets, list(distinct))
    (questions,) = _in_parts(lambda texts: [tokenizer.tokenize(texts)], examples.questions)
    cuts = windows_of_pieces(
        *(tokenizer, questions, [tf.gather(part, context_of) for part in contexts]),
        *(max_seq_length, doc_stride, max_query_length),
    )
    example, pieces = cuts.windows.rows.numpy(), {name: part.flat_values.numpy() for name, part in cuts.packed.items()}
    pieces["context_mask"] = (cuts.starts.flat_values.numpy() >= 0).astype(np.int32)
    after = len(tokenizer.template.after)
    spans = _answer_pieces(examples, *contexts[1:], context_of)[:, example] if with_answers else None
    targets = {} if spans is None else _targets(spans, cuts, after)
    starts, limits = (Ragged(part.flat_values.numpy(), part.row_splits.numpy()) for part in (cuts.starts, cuts.limits))
    origin = QuestionOrigin(example, starts, limits)
    rows = Tokenized(pieces, starts.splits, targets, tokenizer.pad_id, origin, _cut(questions, max_query_length))
    _log(examples, len(distinct), rows)
    return rows


def _cut(questions, max_query_length):
    """Returns what questions lost; contexts lose nothing."""
    lengths = questions.row_lengths().numpy()
    lost = np.maximum(lengths - max_query_length, 0)
    return Cut("max_query_length", max_query_length, lengths, int(lost.sum()), int(lengths.sum()))


def _in_parts(tokenize, texts):
    """Returns the RaggedTensors that `tokenize` makes of texts, some at a time."""
    parts = [tokenize(texts[i : i + _CHUNK]) for i in range(0, len(texts), _CHUNK)]
    return [tf.concat(kind, axis=0) for kind in zip(*parts, strict=True)]


def _answer_pieces(examples, starts, limits, context_of):
    """Returns int64 [2, n]: the first and the last piece of the context with a character of the first answer.

    Without an answer, or with one that has no piece (a control character, say), the last is before the first.
    """
    text_and_start = [answers[0] if answers else ("", 0) for answers in examples.answers]
    start = np.array([start for _, start in text_and_start], np.int64)
    limit = start + np.array([len(text) for text, _ in text_and_start], np.int64)
    # One search in all contexts at once: the k-th context's code points count from k times more than any has.
    apart = np.int64(max(map(len, examples.contexts)) + 1)
    base = starts.value_rowids().numpy() * apart
    before = np.searchsorted(base + limits.flat_values.numpy(), context_of * apart + start, "right")
    until = np.searchsorted(base + starts.flat_values.numpy(), context_of * apart + limit, "left")
    until = np.where(start == limit, before, until)
    return np.stack([before, until - 1]) - starts.row_splits.numpy()[context_of]


def _targets(spans, cuts, after):
    """Returns the columns of the answers' ends in the rows, 0 where a row does not hold all of its answer."""
    window_starts, lengths = cuts.windows.starts.numpy(), cuts.windows.lengths.numpy()
    before = cuts.starts.row_lengths().numpy() - lengths - after  # what is before the window in its row
    first, last = spans - window_starts
    held = (first >= 0) & (first <= last) & (last < lengths)
    columns = (np.where(held, end + before, 0).astype(np.int32) for end in (first, last))
    return dict(zip(("start_positions", "end_positions"), columns, strict=True))


def _log(examples, contexts, rows):
    counts = number_of(len(examples), "question"), number_of(contexts, "context"), number_of(len(rows), "row")
    logging.info("%s: %s about %s, in %s of %.1f pieces each.", examples.path, *counts, rows.lengths.mean())
    if rows.targets:
        held = np.bincount(rows.origin.example, rows.targets["start_positions"] > 0, len(examples)) > 0
        lost = int(sum(bool(answers) for answers in examples.answers) - held.sum())
        if lost:
            logging.warning("%s: %d answers are in no window whole: they train as none.", examples.path, lost)
