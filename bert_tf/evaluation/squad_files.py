"""What SQuAD's scorer reads: the answers that people gave, predictions, and the odds of no answer."""

import math
import os
from typing import NamedTuple

from bert_tf.json_files import read_json


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
    path = os.fspath(path)
    texts, version_2 = {}, False
    try:
        for article in read_json(path)["data"]:
            for question in (each for paragraph in article["paragraphs"] for each in paragraph["qas"]):
                name, answers = question["id"], [answer["text"] for answer in question["answers"]]
                if name in texts or not all(isinstance(text, str) for text in (name, *answers)):
                    raise ValueError(
                        f"{path}: every question must have an id of its own and texts as answers. Received the id "
                        f"{name!r} {'again' if name in texts else f'with the answers {answers}'}; correct the file."
                    )
                texts[name] = answers
                version_2 = version_2 or not answers or "is_impossible" in question
    except (KeyError, TypeError) as error:
        after = f"after the question {list(texts)[-1]!r}" if texts else "before the first question"
        raise ValueError(
            f"{path} must be in SQuAD's format: data, paragraphs, qas, each with id and answers. "
            f"Received one with a fault ({type(error).__name__}: {error}) {after}; correct the file, or name another."
        ) from error
    if not texts:
        raise ValueError(f"{path} must hold questions. Received a file with none; name another.")
    return Golds(texts, version_2, path)


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
