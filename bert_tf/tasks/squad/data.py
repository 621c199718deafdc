"""What a run on SQuAD reads, and how its answers are scored."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_tf.data.checks.samples import Sample
from bert_tf.evaluation import squad_scores
from bert_tf.evaluation.error_reports.judged import Shown
from bert_tf.evaluation.error_reports.questions import Questions
from bert_tf.tasks.squad.answers import Answers
from bert_tf.tasks.squad.files import SquadExamples, read_squad
from bert_tf.tasks.task import ACTIONS
from bert_tf.utils.settings import Settings


@dataclasses.dataclass(frozen=True)
class SquadData:
    """Questions with answers, or to answer; see `task.TaskData`."""

    examples: dict[str, SquadExamples]
    text_inputs: tuple[str, ...] = ("question", "context")


def read_data(settings: Settings, kinds: Sequence[str]) -> SquadData:
    """Reads the files of a run; the answers of "test" are not looked at.

    Raises:
        ValueError: a split has no file, a file is not as described, or has a question without answer although
            `version_2_with_negative` is not set.
    """
    examples = {}
    for split in kinds:
        action = ACTIONS[split]
        path = settings.get(f"{action}_file")
        if not path:
            raise ValueError(f"`do_{action}` must have questions. Received no `{action}_file`; name one.")
        examples[split] = read_squad(path, with_answers=split != "test")
        if True in examples[split].is_impossible and not settings.version_2_with_negative:
            raise ValueError(
                f"{examples[split].where(examples[split].is_impossible.index(True))}: every question must have an "
                "answer, unless `version_2_with_negative` is given. Received one that is_impossible; give it, or name "
                "a file of SQuAD 1.1."
            )
    return SquadData(examples)


def samples(data: SquadData) -> dict[str, Sample]:
    """Returns what is checked of questions: of two that are the same, one may not be impossible."""

    def sample(examples):
        texts = {"question": examples.questions, "context": examples.contexts}
        return Sample(examples.path, examples.where, texts, examples.is_impossible, target="is_impossible")

    return {split: sample(examples) for split, examples in data.examples.items()}


def score(examples: SquadExamples, answers: list[Answers], threshold: float | None) -> dict[str, float]:
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
    return squad_scores.score(golds, texts, *(() if threshold is None else (odds, threshold)))


def judged(examples: SquadExamples, answers: list[Answers], threshold: float | None) -> Questions:
    """Returns questions with what people and the model answered; arguments as of `score`, which found answers."""
    golds = examples.golds
    given = [each.text(threshold) for each in answers]
    scores = squad_scores.of_questions(golds, dict(zip(examples.ids, given, strict=True)))
    lengths = np.array([len(context.split()) for context in examples.contexts])
    texts = {"question": examples.questions, "context": examples.contexts}
    remarks = {"exact": "percent of the questions", "f1": "percent: the mean over the questions of how far words agree"}
    return Questions(
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
