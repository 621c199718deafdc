"""Merges the windows of a context into answers, in the context's own characters, and writes run_squad.py's files.

The outputs are what is kept of each of the w sequences of `encode_squad`; k spans each, the best first:

    score, start_logit, end_logit       float32 [w, k]; score, the sum, is -inf where there are fewer spans
    start, end                          int32 [w, k], the positions of a span's first and last token; 0 where none
    null_start_logit, null_end_logit    float32 [w], at [CLS]: no answer
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bert_tf.tasks.question_answering.data import SquadExamples
from bert_tf.tasks.question_answering.encoding import QuestionOrigin
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

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
        outputs: see the module.
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
