"""SQuAD's questions (Rajpurkar et al. 2016, 2018): the paragraphs they are about, and their answers."""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.data.row_errors import excerpt
from bert_tf.evaluation.squad_files import References, field, iterate_questions, question_position
from bert_tf.utils.json_files import json_text


@dataclasses.dataclass(frozen=True)
class SquadExamples:
    """n questions in the order of the file, as parallel lists.

    Attributes:
        ids: the file's unique ids.
        questions: str each.
        contexts: the paragraph of each question; questions about the same paragraph share the object.
        answers: [(text, start)] of each question, start in code points of its context; context[start:] begins with
            text. Empty if there is no answer or answers were not requested.
        is_impossible: whether, according to the file, the context does not contain the answer (SQuAD 2.0).
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
    golds: References | None = None

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
    return dataclasses.replace(examples, golds=References(golds, version_2, examples.path) if whole else None)


def write_squad_rows(path: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Writes questions in SQuAD's format and returns the path of the file, which has one article per row.

    Args:
        path: path of the file, without its extension.
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
            f"{at}: a question must either have an answer, or be marked with is_impossible: true; got {there}."
        )
    return [_answer(answer, context, f"{at}, answers[{i}]") for i, answer in enumerate(answers)]


def _answer(answer, context, at):
    text, start = field(answer, "text", str, at), field(answer, "answer_start", int, at)
    if not text.strip():
        raise ValueError(f"{at}: the answer text must not be blank; got {text!r}.")
    if start < 0 or not context.startswith(text, start):
        there = f"the context has {excerpt(context[start:][: len(text)])}" if start >= 0 else "no context is"
        raise ValueError(
            f"{at}: the context must contain the answer at answer_start, counted in characters (code points) from 0; "
            f"got answer_start {start} for {excerpt(text)}, where {there}; {_remedy(text, context)}."
        )
    return text, start


def _remedy(text, context):
    """Returns a hint where the text is instead."""
    spots = [match.start() for match in re.finditer(re.escape(text), context)]
    if spots:
        return f"it occurs at {', '.join(map(str, spots[:5]))}{', ...' if len(spots) > 5 else ''}: correct answer_start"
    return "it does not occur in the context: correct the text, or remove the question"
