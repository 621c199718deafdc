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
        self._predict = _load_model(os.fspath(path))

    def __call__(self, questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> list[list[FoundAnswer]]:
        """Returns the answers to each question, the highest score first; documents without an answer are left out.

        Args:
            questions: the queries of the search.
            hits: what it found for each.
        """
        read = [(number, hit) for number, found in enumerate(hits) for hit in found]
        predictions = self._predict([{"question": questions[number], "context": hit.text} for number, hit in read])
        answers = [[] for _ in questions]
        for (number, hit), each in zip(read, predictions, strict=True):
            if each["answer"]:
                values = (each[name] for name in ("answer", "score", "start", "end"))
                answers[number].append(FoundAnswer(*values, hit.id))
        return [sorted(each, key=lambda answer: -answer.score) for each in answers]


def _load_model(path):
    """Returns the function from examples, {input: text} each, to the predictions, {output: value} each."""
    try:
        model = find_model(path)
    except ValueError as error:
        raise ValueError(str(error).replace("`model`", "`reader`")) from error
    names = [each.name for each in model.inputs]
    if names != _INPUTS:
        raise ValueError(
            f"`reader` must be an exported question-answering model, with the inputs {', '.join(_INPUTS)}. {path} has "
            f"{', '.join(names)}."
        )
    predict = model()

    def predictions(examples):
        if not examples:
            return []
        texts = tuple([example[name] for example in examples] for name in _INPUTS)
        columns = predict(TableRows([str(number) for number in range(len(examples))], texts))
        outputs = {name: values.tolist() for name, values in columns.items() if name != "id"}
        return [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]

    return predictions
