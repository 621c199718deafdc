"""Encodes SQuAD questions (Rajpurkar et al. 2016, 2018), and converts outputs to answers and files."""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.ragged import Ragged
from bert_tf.data.row_errors import excerpt
from bert_tf.data.truncation import Truncation
from bert_tf.evaluation import squad
from bert_tf.evaluation.error_reports.answers import QuestionReport
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.evaluation.squad import Golds, field, iterate_questions, question_position
from bert_tf.tokenization.question_windows import check_question_lengths, encode_tokenized_questions
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text
from bert_tf.utils.names import number_of

# === Examples ===
# The questions of a file, the paragraphs they are about, and their answers.


@dataclasses.dataclass(frozen=True)
class SquadExamples:
    """n questions in the order of the file, as parallel lists.

    Attributes:
        ids: the file's unique ids.
        questions: str each.
        contexts: the paragraph of each question; questions about the same paragraph share the object.
        answers: [(text, start)] of each question, start in code points of its context; context[start:] begins with
            text. Empty if there is no answer or answers were not requested.
        is_impossible: whether the file states that the context does not contain the answer (SQuAD 2.0).
        path: path of the file.
        positions: (article, paragraph, question) of each, from 0.
        golds: reference answers to the same questions. If None, not every question has answers.
    """

    ids: list[str]
    questions: list[str]
    contexts: list[str]
    answers: list[list[tuple[str, int]]]
    is_impossible: list[bool]
    path: str
    positions: list[tuple[int, int, int]]
    golds: Golds | None = None

    def __len__(self):
        return len(self.ids)

    def where(self, i: int) -> str:
        """Returns file, position and id of question i, the beginning of every error about it."""
        return question_position(self.path, self.positions[i], self.ids[i])


def read_squad(path: str | os.PathLike, with_answers: bool) -> SquadExamples:
    """Reads a file in SQuAD's format, 1.1 or 2.0; ".gz" files are decompressed.

    Lone surrogates, which UTF-8 cannot represent, become U+FFFD, so that offsets do not change.

    Args:
        path: the file.
        with_answers: whether every question must have an answer or be marked impossible; if false, answers are optional
            and only used for evaluation.

    Raises:
        ValueError: the format is wrong; two questions share an id; there is no question; with_answers: a question
            without an answer that is not impossible or the other way round, or a context without an answer at
            answer_start (google-research/bert skips such questions with a warning).
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
        examples.positions.append(question.position)
        try:
            golds[question.id] = question.gold_texts
            version_2 = version_2 or question.is_of_version_2
        except ValueError:  # of a question to answer, whose answers are not looked at
            golds[question.id] = None
    whole = None not in golds.values()
    return dataclasses.replace(examples, golds=Golds(golds, version_2, examples.path) if whole else None)


def write_squad_rows(path: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Writes questions in SQuAD's format and returns the path of the file, which has one article per row.

    Args:
        path: of the file, without its extension.
        rows: with `question`, `context` and, if they have answers, `answers`: {"text": texts, "answer_start": offsets},
            as in Hugging Face's datasets, or a list of {"text", "answer_start"}; no answers mark a question as
            impossible. `id` may be missing.
    """
    articles = []
    for number, row in enumerate(rows):
        question = {name: value for name, value in row.items() if name not in ("context", "title")}
        question["id"] = str(number) if row.get("id") is None else str(row["id"])
        if "answers" in row:
            question["answers"] = _listed(row["answers"])
            if not question["answers"]:
                question["is_impossible"] = True
        articles.append({"title": str(number), "paragraphs": [{"context": row.get("context"), "qas": [question]}]})
    with open(f"{path}.json", "w", encoding="utf-8") as file:
        file.write(json_text({"version": "", "data": articles}, ensure_ascii=False))
    return file.name


def _listed(answers):
    """Returns the answers of a question as a list of objects."""
    if not isinstance(answers, Mapping):
        return answers or []
    columns = answers.get("text", ()), answers.get("answer_start", ())
    return [{"text": text, "answer_start": start} for text, start in zip(*columns, strict=True)]


def _answers(question, context, is_impossible):
    """Returns [(text, start)], after checking that each answer is at its position."""
    answers, at = question.answers, question.at
    if is_impossible == bool(answers):
        there = f"{len(answers)} answers and is_impossible: {str(is_impossible).lower()}"
        raise ValueError(
            f"{at}: a question must either have an answer, or be marked with is_impossible: true. "
            f"Received {there}; correct the question, or remove it."
        )
    return [_answer(answer, context, f"{at}, answers[{i}]") for i, answer in enumerate(answers)]


def _answer(answer, context, at):
    text, start = field(answer, "text", str, at), field(answer, "answer_start", int, at)
    if not text.strip():
        raise ValueError(f"{at}: the answer text must not be blank. Received {text!r}; correct it or the question.")
    if start < 0 or not context.startswith(text, start):
        there = f"the context has {excerpt(context[start:][: len(text)])}" if start >= 0 else "no context is"
        raise ValueError(
            f"{at}: the context must contain the answer at answer_start, counted in characters (code points) from 0. "
            f"Received answer_start {start} for {excerpt(text)}, but there {there}; {_remedy(text, context)}."
        )
    return text, start


def _remedy(text, context):
    """Returns a hint where the text is instead."""
    spots = [match.start() for match in re.finditer(re.escape(text), context)]
    if spots:
        return f"it occurs at {', '.join(map(str, spots[:5]))}{', ...' if len(spots) > 5 else ''}: correct answer_start"
    return "it does not occur in the context: correct the text, or remove the question"


# === Encoding ===
# Encodes questions and contexts: one sequence per window of a context, with its origin.


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
        tokenizer: a `Tokenizer`.
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
    """Returns the positions of the answers' ends in the sequences, 0 where one does not hold all of its answer."""
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


# === Answers ===
# Merges the windows of a context into answers, in the context's own characters, and writes run_squad.py's files.
#
# outputs    what is kept of each of the w sequences of `encode_squad`; k spans each, the best first:
#     score, start_logit, end_logit       float32 [w, k]; score, the sum, is -inf where there are fewer spans
#     start, end                          int32 [w, k], the positions of a span's first and last token; 0 where none
#     null_start_logit, null_end_logit    float32 [w], at [CLS]: no answer


PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"
PREDICTIONS_FILES = (PREDICTIONS_FILE, N_BEST_FILE, NULL_ODDS_FILE)


class AnswerSpan(NamedTuple):
    """An answer span of the context; no span if `text` is empty.

    Attributes:
        text: context[start:end], the context's own characters.
        start, end: half-open, in code points of the context; 0 and 0 without a span.
        score: sum of the two logits, in float32 precision.
        start_logit, end_logit: logits of the span's start and end.
        probability: probability among the n-best of the question.
    """

    text: str
    start: int
    end: int
    score: float
    start_logit: float
    end_logit: float
    probability: float = 1.0


class QuestionAnswers(NamedTuple):
    """The answers to one question.

    Attributes:
        n_best: the best first; at least one.
        null_score: no-answer score: the lowest over the windows, any of which may contain the answer.
    """

    n_best: list[AnswerSpan]
    null_score: float

    @property
    def best(self) -> AnswerSpan:
        """The best span; an empty one with score 0 if the context has none."""
        return next((answer for answer in self.n_best if answer.text), _NO_SPAN)

    @property
    def null_odds(self) -> float:
        """The no-answer score minus the best span's (google-research/bert's `score_diff`).

        In float32, as in the exported model, so that a threshold from these odds has the same effect in both.
        """
        return float(np.float32(self.null_score) - np.float32(self.best.score))

    def text(self, threshold: float | None) -> str:
        """Returns the predicted text: empty if `null_odds` exceeds the threshold, if there is one."""
        return self.best.text if threshold is None or self.null_odds <= threshold else ""


_NO_SPAN = AnswerSpan("", 0, 0, 0.0, 0.0, 0.0)


def merge_windows(
    origin: QuestionOrigin,
    examples: SquadExamples,
    outputs: Mapping[str, np.ndarray],
    n_best_size: int,
    with_null: bool = False,
) -> list[QuestionAnswers]:
    """Merges the predictions of each question's windows, like google-research/bert's run_squad.py.

    Spans with equal text count once, with their best score. A context without tokens has no span: its only answer is
    the empty text, for which google-research/bert uses the text "empty".

    Args:
        origin: origin of the w sequences.
        examples: the n questions.
        outputs: see the section.
        n_best_size: maximum spans per question; the probabilities are a softmax over their scores.
        with_null: whether no answer is included (SQuAD 2.0): as one of the n_best_size, or in addition if it scores
            below them or would leave no span.

    Returns:
        The `QuestionAnswers` of the n questions.
    """
    starts, ends = (
        part.flat[part.splits[:-1, None] + outputs[name]]
        for part, name in ((origin.starts, "start"), (origin.ends, "end"))
    )
    spans = [starts, ends, *(outputs[name] for name in ("score", "start_logit", "end_logit"))]
    null_logits = [outputs[f"null_{side}_logit"] for side in ("start", "end")]
    nulls = [sum(null_logits), *null_logits]
    bounds = np.searchsorted(origin.example, np.arange(len(examples) + 1)).tolist()
    merged = []
    for context, first, end in zip(examples.contexts, bounds, bounds[1:], strict=False):
        answers = _distinct(context, [part[first:end].reshape(-1) for part in spans], n_best_size)
        least = first + int(nulls[0][first:end].argmin())
        null = AnswerSpan("", 0, 0, *(part[least].item() for part in nulls))
        answers = _with_null(answers, null, n_best_size) if with_null else answers or [_NO_SPAN]
        merged.append(QuestionAnswers(_with_probabilities(answers), null.score))
    return merged


def write_squad_predictions(
    directory: str | os.PathLike,
    examples: SquadExamples,
    answers: list[QuestionAnswers],
    threshold: float | None = None,
):
    """Writes google-research/bert's prediction files, each an object keyed by question id.

        predictions.json         {id: text}
        nbest_predictions.json   {id: [{"text", "probability", "start_logit", "end_logit"}]}, the best first
        null_odds.json           {id: score of no answer - score of the best span}; with a threshold only

    Args:
        directory: output directory.
        examples: the n questions.
        answers: the result of `merge_windows`.
        threshold: no answer is predicted if the odds exceed it (SQuAD 2.0). If None, every question has an answer.

    Raises:
        OSError: a file cannot be written; an older one is unchanged.
    """
    fields = ("text", "probability", "start_logit", "end_logit")
    contents = {
        PREDICTIONS_FILE: [each.text(threshold) for each in answers],
        N_BEST_FILE: [[{name: getattr(a, name) for name in fields} for a in each.n_best] for each in answers],
    }
    if threshold is not None:
        contents[NULL_ODDS_FILE] = [each.null_odds for each in answers]
    for name, values in contents.items():
        with atomic_open(os.path.join(directory, name)) as file:
            file.write(json_text(dict(zip(examples.ids, values, strict=True)), indent=4) + "\n")


def _distinct(context, spans, n_best_size):
    """Returns the best `AnswerSpan`s with distinct texts; spans: starts, ends, scores and both logits, [all] each."""
    answers = {}
    for i in np.argsort(-spans[2], kind="stable"):
        start, end, score, *logits = (part[i].item() for part in spans)
        if len(answers) == n_best_size or score == -np.inf:
            break
        text = context[start:end]
        answers.setdefault(text, AnswerSpan(text, start, end, score, *logits))
    return list(answers.values())


def _with_null(answers, null, n_best_size):
    """Inserts no answer by its score, or appends it."""
    best = sorted([*answers, null], key=lambda answer: -answer.score)[: max(n_best_size, 2)]
    return best if null in best else [*best, null]


def _with_probabilities(answers):
    scores = np.array([answer.score for answer in answers])
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    return [answer._replace(probability=share) for answer, share in zip(answers, shares.tolist(), strict=True)]


# === Scores ===
# The official scores of answers, and the report of each.


def score_answers(examples: SquadExamples, answers: list[QuestionAnswers], threshold: float | None) -> dict[str, float]:
    """Computes the metrics of `evaluation.squad.score_squad`; {} if the file has no answers.

    Args:
        examples: questions from `read_squad`.
        answers: one per question.
        threshold: no answer is predicted if the odds exceed it. If None, SQuAD 1.1.
    """
    golds = examples.golds
    if golds is None:
        logging.info("Not evaluated: some questions of %s have no answers.", examples.path)
        return {}
    if not any(golds.texts.values()):
        return {}
    texts = {name: each.text(None) for name, each in zip(examples.ids, answers, strict=True)}
    odds = {name: each.null_odds for name, each in zip(examples.ids, answers, strict=True)}
    return squad.score_squad(golds, texts, *(() if threshold is None else (odds, threshold)))


def question_report(examples: SquadExamples, answers: list[QuestionAnswers], threshold: float | None) -> QuestionReport:
    """Returns the report of questions with reference and predicted answers, for a file with answers; arguments as for
    `score_answers`."""
    golds = examples.golds
    given = [each.text(threshold) for each in answers]
    scores = squad.score_questions(golds, dict(zip(examples.ids, given, strict=True)))
    lengths = np.array([len(context.split()) for context in examples.contexts])
    texts = {"question": examples.questions, "context": examples.contexts}
    remarks = {"exact": "percent of the questions", "f1": "percent: the mean over the questions of how far words agree"}
    return QuestionReport(
        examples=DisplayedExamples(
            examples.path, examples.ids, examples.ids, texts, lengths, "words of the context", "id"
        ),
        remarks=remarks,
        gold=[golds.texts[name] for name in examples.ids],
        given=given,
        confidence=np.array([_probability(*pair) for pair in zip(answers, given, strict=True)]),
        exact=np.array([scores[0][name] for name in examples.ids]),
        f1=np.array([scores[1][name] for name in examples.ids]),
        threshold=threshold,
    )


def _probability(answers, text):
    return next((answer.probability for answer in answers.n_best if answer.text == text), 0.0)
