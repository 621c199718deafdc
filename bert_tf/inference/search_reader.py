"""Answers questions from documents that a search has found, with an exported question-answering model."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from bert_tf.inference.batch_prediction.exported_model import find_model
from bert_tf.inference.batch_prediction.input_table import TableRows
from bert_tf.inference.search import Hit

_INPUTS = ["question", "context"]


class FoundAnswer(NamedTuple):
    """An answer to a question.

    Attributes:
        answer: text[start:end] of the document.
        score: the model's score of the answer, by which answers are ordered.
        start, end: code points in the document's text, end exclusive.
        id: the document.
    """

    answer: str
    score: float
    start: int
    end: int
    id: str


class SearchReader:
    """Reads the hits of a search, and finds the answer in each.

        reader = SearchReader("models/questions")
        questions = ["Why was the bridge closed?"]
        [answers] = reader(questions, index.search(questions, top_k=5))

    Args:
        path: directory of an exported question-answering model, or of its numbered versions.

    Raises:
        ValueError: there is no such model.
    """

    def __init__(self, path: str | os.PathLike):
        try:
            model = find_model(os.fspath(path))
        except ValueError as error:
            raise ValueError(str(error).replace("`model`", "`reader`")) from error
        names = [each.name for each in model.inputs]
        if names != _INPUTS:
            raise ValueError(
                f"`reader` must be an exported question-answering model, with the inputs {', '.join(_INPUTS)}. "
                f"{os.fspath(path)} has {', '.join(names)}."
            )
        self._predict = model()

    def __call__(self, questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> list[list[FoundAnswer]]:
        """Returns the answers to each question, the highest score first; documents without an answer are left out.

        Args:
            questions: the queries of the search.
            hits: what it found for each.
        """
        pairs = [(number, question, hit) for number, question in enumerate(questions) for hit in hits[number]]
        answers = [[] for _ in questions]
        if not pairs:
            return answers
        numbers, asked, found = zip(*pairs, strict=True)
        rows = TableRows(list(map(str, numbers)), (list(asked), [hit.text for hit in found]))
        predicted = self._predict(rows)
        columns = (predicted[name].tolist() for name in ("answer", "score", "start", "end"))
        for number, hit, *values in zip(numbers, found, *columns, strict=True):
            if values[0]:
                answers[number].append(FoundAnswer(*values, hit.id))
        return [sorted(each, key=lambda answer: -answer.score) for each in answers]
