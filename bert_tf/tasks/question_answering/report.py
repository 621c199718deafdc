"""The official scores of answers, and the report of each question."""

import numpy as np
from absl import logging

from bert_tf.evaluation import squad
from bert_tf.evaluation.error_reports.answers import QuestionReport
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.tasks.question_answering.data import SquadExamples
from bert_tf.tasks.question_answering.outputs import QuestionAnswers


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
