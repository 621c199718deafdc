"""SQuAD's files (Rajpurkar et al. 2016, 2018): questions, the paragraphs they are about, and the answers."""

import dataclasses
import os
import re

from bert_tf.data.rows import excerpt
from bert_tf.json_files import read_json

_SURROGATES = re.compile("[\ud800-\udfff]")  # half an emoji, as in "\\ud83d": legal JSON but no Unicode text


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
    """

    ids: list[str]
    questions: list[str]
    contexts: list[str]
    answers: list[list[tuple[str, int]]]
    is_impossible: list[bool]
    path: str
    places: list[tuple[int, int, int]]

    def __len__(self):
        return len(self.ids)

    def where(self, i: int) -> str:
        """Returns file, place and id of question i, with which every error about it begins."""
        return f"{_place(self.path, *self.places[i])} (id {self.ids[i]!r})"


def read_squad(path: str | os.PathLike, with_answers: bool) -> SquadExamples:
    """Reads a file in SQuAD's format, 1.1 or 2.0; ".gz" is unpacked.

    Lone surrogates, which no UTF-8 holds, become U+FFFD: offsets stay what they are.

    Args:
        path: the file.
        with_answers: every question must have an answer or be marked impossible; False: answers need not be there
            and are not looked at.

    Raises:
        ValueError: not the format; two questions of one id; no question; with_answers: a question without an answer
            that is not impossible or the other way round, or a context that does not hold an answer where
            answer_start says (google-research/bert leaves such questions out with a warning).
    """
    path = os.fspath(path)
    examples = SquadExamples([], [], [], [], [], path, [])
    seen = {}
    for a, article in enumerate(_get(read_json(path, "JSON in SQuAD's format"), "data", list, path)):
        for p, paragraph in enumerate(_get(article, "paragraphs", list, _place(path, a))):
            context = _get(paragraph, "context", str, _place(path, a, p))
            for q, question in enumerate(_get(paragraph, "qas", list, _place(path, a, p))):
                _append(examples, question, context, (a, p, q), seen, with_answers)
    if not examples.ids:
        raise ValueError(f"{path} must hold questions. Received a file with none; name another.")
    return examples


def _append(examples, question, context, place, seen, with_answers):
    """Checks one question and puts it at the end of the lists; `seen` is {id: place}."""
    at = _place(examples.path, *place)
    name = _get(question, "id", str, at)
    at = f"{at} (id {name!r})"
    if name in seen:
        raise ValueError(
            f"{at}: every question must have an id of its own. Received the id of {_place('', *seen[name])} again; "
            "change one of them, or take it out."
        )
    seen[name] = place
    examples.ids.append(name)
    examples.questions.append(_get(question, "question", str, at))
    examples.contexts.append(context)
    examples.is_impossible.append(with_answers and _is_impossible(question, at))
    examples.answers.append(_answers(question, context, examples.is_impossible[-1], at) if with_answers else [])
    examples.places.append(place)


def _answers(question, context, is_impossible, at):
    """Returns [(text, start)], each of which is where it says."""
    answers = question.get("answers", []) if is_impossible else _get(question, "answers", list, at)
    if is_impossible == bool(answers):
        there = f"{len(answers)} answers and is_impossible: {str(is_impossible).lower()}"
        raise ValueError(
            f"{at}: a question must have an answer, or be marked with is_impossible: true and have none. "
            f"Received {there}; correct the question, or take it out."
        )
    return [_answer(answer, context, f"{at}, answers[{i}]") for i, answer in enumerate(answers)]


def _answer(answer, context, at):
    text, start = _get(answer, "text", str, at), _get(answer, "answer_start", int, at)
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


def _is_impossible(question, at):
    return _get(question, "is_impossible", bool, at) if "is_impossible" in question else False


_KINDS = {list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


def _get(value, key, kind, at):
    """Returns value[key], which must be of `kind`."""
    item = value.get(key) if isinstance(value, dict) else None
    if type(item) is kind:  # not isinstance: True is an int
        return _SURROGATES.sub("\ufffd", item) if kind is str else item
    if not isinstance(value, dict):
        received = excerpt(value)
    else:
        received = f"{key!r}: {excerpt(item)}" if key in value else f"the keys {excerpt(sorted(value), 200)}"
    raise ValueError(
        f"{at}: there must be an object in SQuAD's format, in which {key!r} is {_KINDS[kind]}. Received {received}; "
        "correct the file, or name another."
    )


def _place(path, *indexes):
    """Returns "file: data[0].paragraphs[1].qas[2]"."""
    names = zip(("data", "paragraphs", "qas"), indexes, strict=False)
    return f"{path}: ".removeprefix(": ") + ".".join(f"{name}[{index}]" for name, index in names)
