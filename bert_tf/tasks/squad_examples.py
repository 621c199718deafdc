"""SQuAD's files (Rajpurkar et al. 2016, 2018): questions, the paragraphs they are about, and the answers."""

import dataclasses
import os
import re

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.dataset import Tokenized, Truncation
from bert_tf.data.features import Ragged
from bert_tf.data.table_reader import excerpt
from bert_tf.evaluation.squad import Golds, field, iterate_questions, question_position
from bert_tf.tokenization.packing import check_question_lengths, encode_tokenized_questions
from bert_tf.utils.names import number_of


@dataclasses.dataclass(frozen=True)
class SquadExamples:
    """n questions in the order of the file, as parallel lists.

    Attributes:
        ids: the file's ids, all different.
        questions: str each.
        contexts: the paragraph each question is about; questions about the same paragraph share the object.
        answers: [(text, start)] of each question, start in code points of its context; context[start:] begins with
            text. Empty where there is no answer or none was asked for.
        is_impossible: whether the file says that the context does not hold the answer (SQuAD 2.0).
        path: the file.
        places: (article, paragraph, question) of each, from 0.
        golds: what answers are scored by, the same questions; None: not every question comes with answers.
    """

    ids: list[str]
    questions: list[str]
    contexts: list[str]
    answers: list[list[tuple[str, int]]]
    is_impossible: list[bool]
    path: str
    places: list[tuple[int, int, int]]
    golds: Golds | None = None

    def __len__(self):
        return len(self.ids)

    def where(self, i: int) -> str:
        """Returns file, place and id of question i, with which every error about it begins."""
        return question_position(self.path, self.places[i], self.ids[i])


def read_squad(path: str | os.PathLike, with_answers: bool) -> SquadExamples:
    """Reads a file in SQuAD's format, 1.1 or 2.0; ".gz" is unpacked.

    Lone surrogates, which no UTF-8 holds, become U+FFFD: offsets stay what they are.

    Args:
        path: the file.
        with_answers: every question must have an answer or be marked impossible; False: answers need not be there,
            and where they are, they are only for scoring.

    Raises:
        ValueError: not the format; two questions of one id; no question; with_answers: a question without an answer
            that is not impossible or the other way round, or a context that does not hold an answer where
            answer_start says (google-research/bert leaves such questions out with a warning).
    """
    examples = SquadExamples([], [], [], [], [], os.fspath(path), [])
    golds, version_2 = {}, False
    for question in iterate_questions(path):
        context, is_impossible = question.context, with_answers and question.is_impossible
        examples.ids.append(question.id)
        examples.questions.append(field(question.question, "question", str, question.at))
        examples.contexts.append(context)
        examples.is_impossible.append(is_impossible)
        examples.answers.append(_answers(question, context, is_impossible) if with_answers else [])
        examples.places.append(question.place)
        try:
            golds[question.id] = question.gold_texts
            version_2 = version_2 or question.is_of_version_2
        except ValueError:  # of a question to answer, whose answers are not looked at
            golds[question.id] = None
    whole = None not in golds.values()
    return dataclasses.replace(examples, golds=Golds(golds, version_2, examples.path) if whole else None)


def _answers(question, context, is_impossible):
    """Returns [(text, start)], each of which is where it says."""
    answers, at = question.answers, question.at
    if is_impossible == bool(answers):
        there = f"{len(answers)} answers and is_impossible: {str(is_impossible).lower()}"
        raise ValueError(
            f"{at}: a question must have an answer, or be marked with is_impossible: true and have none. "
            f"Received {there}; correct the question, or take it out."
        )
    return [_answer(answer, context, f"{at}, answers[{i}]") for i, answer in enumerate(answers)]


def _answer(answer, context, at):
    text, start = field(answer, "text", str, at), field(answer, "answer_start", int, at)
    if not text.strip():
        raise ValueError(f"{at}: text must be of the context. Received {text!r}; correct it, or take the question out.")
    if start < 0 or not context.startswith(text, start):
        there = f"the context has {excerpt(context[start:][: len(text)])}" if start >= 0 else "no context is"
        raise ValueError(
            f"{at}: the context must hold the answer at answer_start, counted in characters (code points) from 0. "
            f"Received answer_start {start} of {excerpt(text)}, where {there}; {_remedy(text, context)}."
        )
    return text, start


def _remedy(text, context):
    """Says where the text is instead."""
    spots = [match.start() for match in re.finditer(re.escape(text), context)]
    if spots:
        return f"it occurs at {', '.join(map(str, spots[:5]))}{', ...' if len(spots) > 5 else ''}: correct answer_start"
    return "it occurs nowhere in the context: correct the text, or take the question out"


# === Rows ===
# Questions and contexts to the rows that BERT reads: a row for each window of a context, and where it came from.


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
    check_question_lengths(tokenizer.template, max_seq_length, max_query_length, doc_stride)  # before the long work
    distinct = {context: i for i, context in enumerate(dict.fromkeys(examples.contexts))}
    context_of = np.array([distinct[context] for context in examples.contexts], np.int64)
    contexts = _in_parts(tokenizer.tokenize_with_offsets, list(distinct))
    (questions,) = _in_parts(lambda texts: [tokenizer.tokenize(texts)], examples.questions)
    cuts = encode_tokenized_questions(
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
    return Truncation("max_query_length", max_query_length, lengths, int(lost.sum()), int(lengths.sum()))


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
