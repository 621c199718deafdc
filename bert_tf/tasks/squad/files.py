"""SQuAD's files (Rajpurkar et al. 2016, 2018): questions, the paragraphs they are about, and the answers."""

import dataclasses
import os
import re

from bert_tf.data.rows import excerpt
from bert_tf.evaluation.squad_files import Golds, field, iterate_questions, where


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
        return where(self.path, self.places[i], self.ids[i])


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
