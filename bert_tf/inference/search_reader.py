"""Answers questions from documents that a search has found, with a question-answering model."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from bert_tf.inference.predictor import load_predictor
from bert_tf.inference.search import Hit

_INPUTS = ("question", "context")


class FoundAnswer(NamedTuple):
    """An answer to a question, with the document that contains it.

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
    """Reads the documents found by a search and extracts an answer from each.

        reader = SearchReader("models/questions")
        questions = ["Why was the bridge closed?"]
        [answers] = reader(questions, index.search(questions, top_k=5))

    Args:
        path: directory of an exported or trained question-answering model, as in `Predictor`.

    Raises:
        ValueError: there is no such model.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self._predict = load_predictor(path, _INPUTS, "reader", "a question-answering model")

    def __call__(self, questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> list[list[FoundAnswer]]:
        """Returns the answers to each question, the highest score first; documents without an answer are left out.

        Args:
            questions: the queries of the search.
            hits: what it found for each.
        """
        read = [(number, hit) for number, found in enumerate(hits) for hit in found]
        examples = [{"question": questions[number], "context": hit.text} for number, hit in read]
        predictions = self._predict(examples) if examples else []
        answers = [[] for _ in questions]
        for (number, hit), each in zip(read, predictions, strict=True):
            if each["answer"]:
                values = (each[name] for name in ("answer", "score", "start", "end"))
                answers[number].append(FoundAnswer(*values, hit.id))
        return [sorted(each, key=lambda answer: -answer.score) for each in answers]
