"""Answers to questions from the spans of windows, and the files of run_squad.py."""

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from absl import logging

from bert_tf.evaluation import squad
from bert_tf.evaluation.error_reports.answers import QuestionReport
from bert_tf.evaluation.error_reports.common import Shown
from bert_tf.tasks.squad_examples import QuestionOrigin, SquadExamples
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

# === Answers ===
# What the windows of a context say to one answer, in the context's own characters, and the files run_squad.py writes.
#
# collected  what is kept of each of the w rows of `rows.question_rows`; k spans a row, the best first:
#     score, start_logit, end_logit       float32 [w, k]; score, the sum, is -inf where a row has fewer spans
#     start, end                          int32 [w, k], the columns of a span's first and last piece; 0 where none is
#     null_start_logit, null_end_logit    float32 [w], at [CLS]: no answer


PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"
PREDICTIONS_FILES = (PREDICTIONS_FILE, N_BEST_FILE, NULL_ODDS_FILE)


class AnswerSpan(NamedTuple):
    """A span of the context, or none where `text` is empty.

    Attributes:
        text: context[start:end], the context's own characters.
        start, end: half-open, in code points of the context; 0 and 0 of no span.
        score: sum of the two logits, as a float32 has it.
        start_logit, end_logit: of the span's ends.
        probability: among the n-best of the question.
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
        n_best: the best first; one at least.
        null_score: of no answer: the least over the windows, any of which may hold the answer.
    """

    n_best: list[AnswerSpan]
    null_score: float

    @property
    def best(self) -> AnswerSpan:
        """The best span; no span, of score 0, where the context has none."""
        return next((answer for answer in self.n_best if answer.text), _NO_SPAN)

    @property
    def null_odds(self) -> float:
        """By how much no answer scores over the best span (google-research/bert's `score_diff`).

        In float32, as the exported model computes it: a threshold taken from these odds decides alike in both.
        """
        return float(np.float32(self.null_score) - np.float32(self.best.score))

    def text(self, threshold: float | None) -> str:
        """Returns the prediction: empty where `null_odds` is greater than threshold; None: never for that reason."""
        return self.best.text if threshold is None or self.null_odds <= threshold else ""


_NO_SPAN = AnswerSpan("", 0, 0, 0.0, 0.0, 0.0)


def merge_windows(
    origin: QuestionOrigin,
    examples: SquadExamples,
    collected: Mapping[str, np.ndarray],
    n_best_size: int,
    with_null: bool = False,
) -> list[QuestionAnswers]:
    """Joins what the windows of each question say, as google-research/bert's run_squad.py does.

    Spans of equal text count once, by their best score. A context without pieces has no span: its one answer is the
    empty text, where google-research/bert invents the text "empty".

    Args:
        origin: of the w rows.
        examples: the n questions.
        collected: see the module.
        n_best_size: spans of a question at most; the probabilities are a softmax over their scores.
        with_null: no answer takes part too (SQuAD 2.0): one of the n_best_size, or one more if it scores below them
            or would leave no span.

    Returns:
        The `QuestionAnswers` of the n questions.
    """
    starts, limits = (
        part.flat[part.splits[:-1, None] + collected[name]]
        for part, name in ((origin.starts, "start"), (origin.limits, "end"))
    )
    spans = [starts, limits, *(collected[name] for name in ("score", "start_logit", "end_logit"))]
    null_logits = [collected[f"null_{side}_logit"] for side in ("start", "end")]
    nulls = [sum(null_logits), *null_logits]
    bounds = np.searchsorted(origin.example, np.arange(len(examples) + 1)).tolist()
    merged = []
    for context, first, limit in zip(examples.contexts, bounds, bounds[1:], strict=False):
        answers = _distinct(context, [part[first:limit].reshape(-1) for part in spans], n_best_size)
        least = first + int(nulls[0][first:limit].argmin())
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
    """Writes google-research/bert's files, each an object by question id.

        predictions.json         {id: text}
        nbest_predictions.json   {id: [{"text", "probability", "start_logit", "end_logit"}]}, the best first
        null_odds.json           {id: score of no answer - score of the best span}; with a threshold only

    Args:
        directory: where they go.
        examples: the n questions.
        answers: what `merge_windows` returned.
        threshold: no answer is predicted where the odds are greater (SQuAD 2.0); None: every question has an answer.

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
    """Returns the best `AnswerSpan`s of different texts; spans: starts, limits, scores and both logits, [all] each."""
    answers = {}
    for i in np.argsort(-spans[2], kind="stable"):
        start, limit, score, *logits = (part[i].item() for part in spans)
        if len(answers) == n_best_size or score == -np.inf:
            break
        text = context[start:limit]
        answers.setdefault(text, AnswerSpan(text, start, limit, score, *logits))
    return list(answers.values())


def _with_null(answers, null, n_best_size):
    """Puts no answer at its place among them, or behind them."""
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
    """Returns what `squad_scores.score` does; {} where the file has no answers to score by.

    Args:
        examples: questions of a file that `read_squad` took.
        answers: one to each.
        threshold: no answer is predicted where the odds are greater; None: SQuAD 1.1.
    """
    golds = examples.golds
    if golds is None:
        logging.info("Not scored: not every question of %s comes with answers.", examples.path)
        return {}
    if not any(golds.texts.values()):
        return {}
    texts = {name: each.text(None) for name, each in zip(examples.ids, answers, strict=True)}
    odds = {name: each.null_odds for name, each in zip(examples.ids, answers, strict=True)}
    return squad.score_squad(golds, texts, *(() if threshold is None else (odds, threshold)))


def question_report(examples: SquadExamples, answers: list[QuestionAnswers], threshold: float | None) -> QuestionReport:
    """Returns questions with what people and the model answered; arguments as of `score_answers`, which found
    answers."""
    golds = examples.golds
    given = [each.text(threshold) for each in answers]
    scores = squad.score_questions(golds, dict(zip(examples.ids, given, strict=True)))
    lengths = np.array([len(context.split()) for context in examples.contexts])
    texts = {"question": examples.questions, "context": examples.contexts}
    remarks = {"exact": "percent of the questions", "f1": "percent: the mean over the questions of how far words agree"}
    return QuestionReport(
        examples=Shown(examples.path, examples.ids, examples.ids, texts, lengths, "words of the context", "id"),
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
