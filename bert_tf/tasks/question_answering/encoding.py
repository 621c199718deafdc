"""Encodes questions and contexts: one sequence per window of a context, with its origin."""

import dataclasses

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.ragged import Ragged
from bert_tf.data.truncation import Truncation
from bert_tf.tasks.question_answering.data import SquadExamples
from bert_tf.tokenization.question_windows import encode_tokenized_questions
from bert_tf.tokenization.window_sizes import check_question_lengths
from bert_tf.utils.counts import number_of

_CHUNK = 5_000  # texts tokenized at a time: few enough to keep memory small


@dataclasses.dataclass(frozen=True)
class QuestionOrigin:
    """The origin of w sequences `[CLS] question [SEP] window [SEP]`, grouped by question.

    Attributes:
        example: int64 [w], the question index of each sequence; ascending.
        starts, ends: int32, the span in the context of each token of the sequences, in code points; -1 for tokens
            outside the context.
    """

    example: np.ndarray
    starts: Ragged
    ends: Ragged


def encode_squad(
    tokenizer,
    examples: SquadExamples,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    with_answers: bool,
) -> EncodedDataset:
    """Splits contexts into windows, like google-research/bert's run_squad.py, and joins each with its question.

        [CLS] who is it ? [SEP] ada wrote the first program [SEP]        max_seq_length 12, doc_stride 2
        [CLS] who is it ? [SEP] the first program .         [SEP]

    Every context is tokenized only once.

    Args:
        tokenizer: a `BaseTokenizer`.
        examples: examples from `read_squad`.
        max_seq_length: maximum tokens per sequence.
        doc_stride: tokens from one window's start to the next one's.
        max_query_length: maximum tokens per question; longer ones are truncated.
        with_answers: whether to create targets, from the first answer of each question.

    Returns:
        The w sequences; `origin` is their `QuestionOrigin`, and the targets are `start_positions` and `end_positions`,
        int32 [w], the positions of the answer's first and last token, 0 if a window does not contain the whole answer.

    Raises:
        ValueError: the lengths leave no room for the context, or leave gaps in it.
    """
    check_question_lengths(tokenizer.template, max_seq_length, max_query_length, doc_stride)  # before the long work
    distinct = {context: i for i, context in enumerate(dict.fromkeys(examples.contexts))}
    context_of = np.array([distinct[context] for context in examples.contexts], np.int64)
    contexts = _in_parts(tokenizer.tokenize_with_offsets, list(distinct))
    (questions,) = _in_parts(lambda texts: [tokenizer.tokenize(texts)], examples.questions)
    cuts = encode_tokenized_questions(
        *(tokenizer, questions, [tf.gather(part, context_of) for part in contexts]),
        *(max_seq_length, doc_stride, max_query_length),
    )
    example, features = cuts.windows.rows.numpy(), {n: part.flat_values.numpy() for n, part in cuts.packed.items()}
    features["context_mask"] = (cuts.starts.flat_values.numpy() >= 0).astype(np.int32)
    after = len(tokenizer.template.after)
    spans = _answer_tokens(examples, *contexts[1:], context_of)[:, example] if with_answers else None
    targets = {} if spans is None else _targets(spans, cuts, after)
    starts, ends = (Ragged(part.flat_values.numpy(), part.row_splits.numpy()) for part in (cuts.starts, cuts.ends))
    origin = QuestionOrigin(example, starts, ends)
    cut = _cut(questions, max_query_length)
    encoded = EncodedDataset(features, starts.splits, targets, tokenizer.pad_id, origin, cut)
    _log(examples, len(distinct), encoded)
    return encoded


def _cut(questions, max_query_length):
    """Returns the truncation of the questions; contexts are not truncated."""
    lengths = questions.row_lengths().numpy()
    lost = np.maximum(lengths - max_query_length, 0)
    return Truncation("max_query_length", max_query_length, lengths, int(lost.sum()), int(lengths.sum()))


def _in_parts(tokenize, texts):
    """Tokenizes texts in chunks; returns the RaggedTensors of `tokenize`."""
    parts = [tokenize(texts[i : i + _CHUNK]) for i in range(0, len(texts), _CHUNK)]
    return [tf.concat(kind, axis=0) for kind in zip(*parts, strict=True)]


def _answer_tokens(examples, starts, ends, context_of):
    """Returns int64 [2, n]: the first and the last token of the context with a character of the first answer.

    Without an answer, or with one that has no token (a control character, say), the last is before the first.
    """
    text_and_start = [answers[0] if answers else ("", 0) for answers in examples.answers]
    start = np.array([start for _, start in text_and_start], np.int64)
    end = start + np.array([len(text) for text, _ in text_and_start], np.int64)
    # One search in all contexts at once: the k-th context's code points count from k times more than any has.
    apart = np.int64(max(map(len, examples.contexts)) + 1)
    base = starts.value_rowids().numpy() * apart
    before = np.searchsorted(base + ends.flat_values.numpy(), context_of * apart + start, "right")
    until = np.searchsorted(base + starts.flat_values.numpy(), context_of * apart + end, "left")
    until = np.where(start == end, before, until)
    return np.stack([before, until - 1]) - starts.row_splits.numpy()[context_of]


def _targets(spans, cuts, after):
    """Returns the positions of the answers' ends in the sequences, 0 where one does not contain all of its answer."""
    window_starts, lengths = cuts.windows.starts.numpy(), cuts.windows.lengths.numpy()
    before = cuts.starts.row_lengths().numpy() - lengths - after  # what is before the window in its sequence
    first, last = spans - window_starts
    held = (first >= 0) & (first <= last) & (last < lengths)
    positions = (np.where(held, end + before, 0).astype(np.int32) for end in (first, last))
    return dict(zip(("start_positions", "end_positions"), positions, strict=True))


def _log(examples, contexts, encoded):
    counts = number_of(len(examples), "question"), number_of(contexts, "context"), number_of(len(encoded), "sequence")
    logging.info("%s: %s about %s, in %s of %.1f tokens each.", examples.path, *counts, encoded.lengths.mean())
    if encoded.targets:
        held = np.bincount(encoded.origin.example, encoded.targets["start_positions"] > 0, len(examples)) > 0
        lost = int(sum(bool(answers) for answers in examples.answers) - held.sum())
        if lost:
            logging.warning("%s: %d answers fit into no window: they are trained as no answer.", examples.path, lost)
