"""Readers of files in SQuAD's format, of predictions and of no-answer odds.

    {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ..., "answers": [{"text": ...,
        "answer_start": ...}], "is_impossible": true or false}]}]}]}

An id may be a whole number, which is read as its digits. A question that `is_impossible` may lack `answers`.
"""

import math
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_json
from bert_tf.utils.old_names import find_renamed

_SURROGATES = re.compile("[\ud800-\udfff]")  # half an emoji, as in "\\ud83d": legal JSON but no Unicode text
_KINDS = {list: "a list", str: "a text", int: "a whole number", bool: "true or false"}
_LEVELS = ("data", "paragraphs", "qas")


class Question(NamedTuple):
    """One question of a SQuAD file.

    Attributes:
        path: path of the file.
        id: unique id.
        position: (article, paragraph, question), from 0.
        paragraph, question: the objects of the file.
    """

    path: str
    id: str
    position: tuple[int, int, int]
    paragraph: dict[str, Any]
    question: dict[str, Any]

    @property
    def at(self) -> str:
        """File, position and id: the beginning of every error about the question."""
        return question_position(self.path, self.position, self.id)

    @property
    def context(self) -> str:
        """The text of the paragraph.

        Raises:
            ValueError: there is none.
        """
        return field(self.paragraph, "context", str, _at(self.path, *self.position[:2]))

    @property
    def is_impossible(self) -> bool:
        """Whether the context does not contain the answer (SQuAD 2.0).

        Raises:
            ValueError: it is neither true nor false.
        """
        return field(self.question, "is_impossible", bool, self.at) if "is_impossible" in self.question else False

    @property
    def answers(self) -> list[Any]:
        """The reference answers, objects of the file; may be missing if is_impossible.

        Raises:
            ValueError: there is no list of them.
        """
        if self.is_impossible and "answers" not in self.question:
            return []
        return field(self.question, "answers", list, self.at)

    @property
    def gold_texts(self) -> list[str]:
        """The texts of `answers`.

        Raises:
            ValueError: there is no list of answers with texts.
        """
        return [field(answer, "text", str, f"{self.at}, answers[{i}]") for i, answer in enumerate(self.answers)]

    @property
    def is_of_version_2(self) -> bool:
        """Whether the question shows that the file is SQuAD 2.0: it has no answer, or is marked with is_impossible."""
        return "is_impossible" in self.question or not self.answers


def iterate_questions(path: str | os.PathLike) -> Iterator[Question]:
    """Yields the questions of a file in SQuAD's format, 1.1 or 2.0; ".gz" files are decompressed.

    Raises:
        ValueError: the format is wrong, two questions share an id, or there is no question.
    """
    path = os.fspath(path)
    indices = {}  # of the ids
    for a, article in enumerate(field(read_json(path, "JSON in SQuAD's format"), "data", list, path)):
        for p, paragraph in enumerate(field(article, "paragraphs", list, _at(path, a))):
            for q, question in enumerate(field(paragraph, "qas", list, _at(path, a, p))):
                index = a, p, q
                is_number = isinstance(question, dict) and type(question.get("id")) is int
                name = str(question["id"]) if is_number else field(question, "id", str, _at(path, *index))
                if name in indices:
                    raise ValueError(
                        f"{question_position(path, index, name)}: every question must have a unique id. The id is "
                        f"that of {_at('', *indices[name])}; change one of them, or remove it."
                    )
                indices[name] = index
                yield Question(path, name, index, paragraph, question)
    if not indices:
        raise ValueError(f"{path} contains no questions.")


def question_position(path: str, index: tuple[int, int, int], name: str) -> str:
    """Returns file, position and id of a question: the beginning of every error about it."""
    return f"{_at(path, *index)} (id {name!r})"


def field(value: Any, key: str, kind: type[Any], at: str) -> Any:
    """Returns value[key], which must be of `kind`; lone surrogates, which UTF-8 cannot represent, become U+FFFD.

    Raises:
        ValueError: value is not an object, or has no such field; the message begins with `at`.
    """
    item = value.get(key) if isinstance(value, dict) else None
    if type(item) is kind:  # not isinstance: True is an int
        return _SURROGATES.sub("\ufffd", item) if kind is str else item
    if not isinstance(value, dict):
        received = brief(value)
    else:
        received = f"{key!r}: {brief(item)}" if key in value else f"the keys {brief(sorted(value))}"
    raise ValueError(
        f"{at}: SQuAD's format requires an object in which {key!r} is {_KINDS[kind]}; got {received}."
    )


def _at(path, *indexes):
    """Returns "file: data[0].paragraphs[1].qas[2]"."""
    parts = ".".join(f"{name}[{index}]" for name, index in zip(_LEVELS, indexes, strict=False))
    return f"{path}: {parts}" if path else parts


class References(NamedTuple):
    """The reference answers of a SQuAD file.

    Attributes:
        texts: {question id: texts of the answers}; empty if the context does not contain the answer.
        version_2: whether to evaluate as in SQuAD 2.0: some question has no answer or is marked with is_impossible.
        path: the file.
    """

    texts: dict[str, list[str]]
    version_2: bool
    path: str


def read_references(path: str | os.PathLike) -> References:
    """Reads the reference answers of a file in SQuAD's format, without their positions.

    Raises:
        ValueError: the format is wrong, two questions share an id, or there is no question.
    """
    texts, version_2 = {}, False
    for question in iterate_questions(path):
        texts[question.id] = question.gold_texts
        version_2 = version_2 or question.is_of_version_2
    return References(texts, version_2, os.fspath(path))


def read_predictions(path: str | os.PathLike) -> dict[str, str]:
    """Reads a predictions file, {question id: text}.

    Raises:
        ValueError: the format is wrong.
    """
    return _read_values(path, lambda value: isinstance(value, str), "a text")


def read_null_odds(path: str | os.PathLike) -> dict[str, float]:
    """Reads a no-answer odds file, {question id: number}, in file order; larger means more likely unanswerable.

    Raises:
        ValueError: the format is wrong.
    """
    numbers = (int, float)
    return _read_values(path, lambda value: type(value) in numbers and math.isfinite(value), "a finite number")


def _read_values(path, is_right, kind):
    path = os.fspath(path)
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} must be one JSON object, keyed by question id; got {type(values).__name__}; pass a file such as "
            "predictions.json."
        )
    for name, value in values.items():
        if not is_right(value):
            raise ValueError(
                f"{path}: every value must be {kind}; got {repr(value)[:80]} for {name!r}; check that this is the "
                "right file, such as predictions.json."
            )
    return values


def __getattr__(name):
    return find_renamed(__name__, {"read_golds": "read_references"}, name)
