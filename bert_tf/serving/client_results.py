"""Answers with types: the rows of `answers.py`, whose keys are the attributes here."""

import dataclasses
from typing import Any

import numpy as np


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
_CONVERSIONS = {
    "entities": lambda found: tuple(Entity(**each) for each in found),
    "embedding": lambda values: np.array(values, np.float32),
}
_KINDS = {}  # names of a row -> its class; what has a default may be missing
for _kind in Result.__args__:
    _fields = dataclasses.fields(_kind)
    _KINDS[frozenset(field.name for field in _fields if field.default is dataclasses.MISSING)] = _kind
    _KINDS[frozenset(field.name for field in _fields)] = _kind


def typed(row: dict[str, Any]) -> Result:
    """Returns a row as the class whose attributes are its keys.

    Raises:
        ValueError: no class has these.
    """
    kind = _KINDS.get(frozenset(row))
    if kind is None:
        known = "; ".join(", ".join(sorted(keys)) for keys in _KINDS)
        raise ValueError(
            f"`typed` must go with a model of a known kind, whose outputs are one of: {known}. Received "
            f"{', '.join(sorted(row))}; ask without `typed` for dictionaries."
        )
    return kind(**{name: _converted(name, value) for name, value in row.items()})


def _converted(name, value):
    if name in _CONVERSIONS:
        return _CONVERSIONS[name](value)
    return tuple(value) if isinstance(value, list) else value
