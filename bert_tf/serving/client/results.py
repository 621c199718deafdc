"""Answers with types: the rows of `answers.py`, whose keys are the attributes here."""

import dataclasses
import types
import typing
from typing import Any

import numpy as np

from bert_tf.serving.client.requests import clean, listed


@dataclasses.dataclass(frozen=True)
class Classification:
    """The label of a text, every label's probability, and whether the model is confident; None: it does not say."""

    label: str
    probabilities: dict[str, float]
    confident: bool | None = None


@dataclasses.dataclass(frozen=True)
class Score:
    """The number that a regression gives."""

    score: float


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to a question: `context[start:end]`, or "" where there is none."""

    answer: str
    start: int
    end: int
    score: float
    null_score: float


@dataclasses.dataclass(frozen=True)
class Entity:
    """A name in a text: `text[start:end]` of the whole."""

    text: str
    type: str
    start: int
    end: int
    score: float


@dataclasses.dataclass(frozen=True)
class Entities:
    """All names in a text, in its order."""

    entities: tuple[Entity, ...]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The number of the text that was chosen, from 0 (-1: there was none), the probability of each, and whether the
    model is confident; None: it does not say."""

    choice: int
    probabilities: tuple[float, ...]
    confident: bool | None = None


@dataclasses.dataclass(frozen=True)
class Blank:
    """What may stand in a blank, the most probable first."""

    token: tuple[str, ...]
    probability: tuple[float, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Embedding:
    """The vector of a text, float32 [D]."""

    embedding: np.ndarray


Result = Classification | Score | Answer | Entities | Choice | Blank | Embedding
_KINDS = {}  # names of a row -> its class; what has a default may be missing
for _kind in Result.__args__:
    _fields = dataclasses.fields(_kind)
    _KINDS[frozenset(field.name for field in _fields if field.default is dataclasses.MISSING)] = _kind
    _KINDS[frozenset(field.name for field in _fields)] = _kind


def typed(row: dict[str, Any]) -> Result:
    """Returns a row as the class whose attributes are its keys.

    Raises:
        ValueError: no class has these, or they are of other types.
    """
    kind = _KINDS.get(frozenset(row))
    if kind is None:
        known = "; ".join(", ".join(sorted(keys)) for keys in _KINDS)
        raise ValueError(
            f"`typed` must go with a model of a known kind, whose outputs are one of: {known}. Received "
            f"{listed(sorted(row))}; ask without `typed` for dictionaries."
        )
    made = kind(**{name: _converted(name, value) for name, value in row.items()})
    if wrong := [field.name for field in dataclasses.fields(made) if not _fits(getattr(made, field.name), field.type)]:
        raise ValueError(
            f"`typed` must go with a model whose `{wrong[0]}` is as {kind.__name__} has it. Received: "
            f"{clean(repr(row[wrong[0]]), 100)}; ask without `typed` for dictionaries."
        )
    return made


def _fits(value, kind):
    """Returns whether a value is of a type that a field of the classes here has."""
    if isinstance(kind, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(kind))
    if typing.get_origin(kind) is dict:
        return isinstance(value, dict) and all(_fits(each, typing.get_args(kind)[1]) for each in value.values())
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(each, typing.get_args(kind)[0]) for each in value)
    if dataclasses.is_dataclass(kind):
        return all(_fits(getattr(value, field.name), field.type) for field in dataclasses.fields(kind))
    if kind is np.ndarray:
        return isinstance(value, kind) and value.ndim == 1 and value.dtype == np.float32
    return isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))


def _converted(name, value):
    if name == "entities":
        return tuple(Entity(**each) for each in value)
    if name == "embedding":
        vector = np.array(value)
        return vector.astype(np.float32) if vector.dtype.kind in "fiu" else vector
    return tuple(value) if isinstance(value, list) else value
