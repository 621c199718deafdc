"""Files in SQuAD's format, as training, checking and scoring all read them; and predictions, and the odds of no answer.

    {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ..., "answers": [{"text": ...,
        "answer_start": ...}], "is_impossible": true or false}]}]}]}

An id may be a whole number, which stands for its digits. A question that `is_impossible` may do without `answers`.
"""

import math
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_json

_SURROGATES = re.compile("[\ud800-\udfff]")  # half an emoji, as in "\\ud83d": legal JSON but no Unicode text
_KINDS = {list: "a list", str: "a text", int: "a whole number", bool: "true or false"}
_LEVELS = ("data", "paragraphs", "qas")


class Question(NamedTuple):
    """One question as the file has it.

    Attributes:
        path: of the file.
        id: different from those of all others.
        place: (article, paragraph, question), from 0.
        paragraph, question: the objects of the file.
    """

    path: str
    id: str
    place: tuple[int, int, int]
    paragraph: dict[str, Any]
    question: dict[str, Any]

    @property
    def at(self) -> str:
        """File, place and id, with which every error about it begins."""
        return where(self.path, self.place, self.id)

    @property
    def context(self) -> str:
        """The text of the paragraph.

        Raises:
            ValueError: there is none.
        """
        return field(self.paragraph, "context", str, _at(self.path, *self.place[:2]))

    @property
    def is_impossible(self) -> bool:
        """Whether the file says that the context does not hold the answer (SQuAD 2.0).

        Raises:
            ValueError: it says neither true nor false.
        """
        return field(self.question, "is_impossible", bool, self.at) if "is_impossible" in self.question else False

    @property
    def answers(self) -> list[Any]:
        """The answers that people gave, objects of the file; where it is_impossible none need be there.

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
        """Whether it shows that the file is of SQuAD 2.0: it has no answer, or is marked with is_impossible."""
        return "is_impossible" in self.question or not self.answers


def iterate_questions(path: str | os.PathLike) -> Iterator[Question]:
    """Yields the questions of a file in SQuAD's format, 1.1 or 2.0; ".gz" is unpacked.

    Raises:
        ValueError: not the format, two questions of one id, or no question.
    """
    path = os.fspath(path)
    places = {}  # of the ids
    for a, article in enumerate(field(read_json(path, "JSON in SQuAD's format"), "data", list, path)):
        for p, paragraph in enumerate(field(article, "paragraphs", list, _at(path, a))):
            for q, question in enumerate(field(paragraph, "qas", list, _at(path, a, p))):
                place = a, p, q
                name = _id(question, _at(path, *place))
                if name in places:
                    raise ValueError(
                        f"{where(path, place, name)}: every question must have an id of its own. Received the id of "
                        f"{_at('', *places[name])} again; change one of them, or take it out."
                    )
                places[name] = place
                yield Question(path, name, place, paragraph, question)
    if not places:
        raise ValueError(f"{path} must hold questions. Received a file with none; name another.")


def where(path: str, place: tuple[int, int, int], name: str) -> str:
    """Returns file, place and id of a question, with which every error about it begins."""
    return f"{_at(path, *place)} (id {name!r})"


def field(value: Any, key: str, kind: type, at: str) -> Any:
    """Returns value[key], which must be of `kind`; lone surrogates, which no UTF-8 holds, become U+FFFD.

    Raises:
        ValueError: value is no object, or has no such field; the message begins with `at`.
    """
    item = value.get(key) if isinstance(value, dict) else None
    if type(item) is kind:  # not isinstance: True is an int
        return _SURROGATES.sub("\ufffd", item) if kind is str else item
    if not isinstance(value, dict):
        received = brief(value)
    else:
        received = f"{key!r}: {brief(item)}" if key in value else f"the keys {brief(sorted(value))}"
    raise ValueError(
        f"{at}: there must be an object in SQuAD's format, in which {key!r} is {_KINDS[kind]}. Received {received}; "
        "correct the file, or name another."
    )


def _id(question, at):
    is_number = isinstance(question, dict) and type(question.get("id")) is int
    return str(question["id"]) if is_number else field(question, "id", str, at)


def _at(path, *indexes):
    """Returns "file: data[0].paragraphs[1].qas[2]"."""
    parts = ".".join(f"{name}[{index}]" for name, index in zip(_LEVELS, indexes, strict=False))
    return f"{path}: {parts}" if path else parts


class Golds(NamedTuple):
    """The answers that people gave.

    Attributes:
        texts: {question id: texts of the answers}; none where the context does not hold the answer.
        version_2: score as SQuAD 2.0 does: some question has no answer or is marked with is_impossible.
        path: the file.
    """

    texts: dict[str, list[str]]
    version_2: bool
    path: str


def read_golds(path: str | os.PathLike) -> Golds:
    """Reads the answers of a file in SQuAD's format; where in the context they are does not matter here.

    Raises:
        ValueError: not the format, two questions of one id, or no question.
    """
    texts, version_2 = {}, False
    for question in iterate_questions(path):
        texts[question.id] = question.gold_texts
        version_2 = version_2 or question.is_of_version_2
    return Golds(texts, version_2, os.fspath(path))


def read_predictions(path: str | os.PathLike) -> dict[str, str]:
    """Reads {question id: text}.

    Raises:
        ValueError: not that.
    """
    return _read_values(path, lambda value: isinstance(value, str), "a text")


def read_null_odds(path: str | os.PathLike) -> dict[str, float]:
    """Reads {question id: number, the greater the likelier that there is no answer}, in the order of the file.

    Raises:
        ValueError: not that.
    """
    numbers = (int, float)
    return _read_values(path, lambda value: type(value) in numbers and math.isfinite(value), "a finite number")


def _read_values(path, is_right, kind):
    path = os.fspath(path)
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} must be one JSON object by question id. Received {type(values).__name__}; name another file."
        )
    for name, value in values.items():
        if not is_right(value):
            raise ValueError(
                f"{path}: every value must be {kind}. Received {repr(value)[:80]} for {name!r}; correct it, or "
                "name the right file, such as predictions.json."
            )
    return values
