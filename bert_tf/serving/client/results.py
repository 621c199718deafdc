"""Typed predictions: attributes are the keys of the dictionaries."""

import dataclasses
import itertools
import types
import typing
from typing import Any

import numpy as np

from bert_tf.serving.client.requests import clean, join_names
from bert_tf.utils.old_names import find_renamed


@dataclasses.dataclass(frozen=True)
class Classification:
    """The most probable label of a text, every label's probability, the predicted ones of several labels, and whether
    the model is confident; None if unknown."""

    label: str
    probabilities: dict[str, float]
    predicted: tuple[str, ...] | None = None
    confident: bool | None = None


@dataclasses.dataclass(frozen=True)
class Score:
    """The prediction of a regression model."""

    score: float


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to a question: `context[start:end]`, or "" if there is none."""

    answer: str
    start: int
    end: int
    score: float
    null_score: float


@dataclasses.dataclass(frozen=True)
class Entity:
    """A named entity: `text[start:end]` of the whole text."""

    text: str
    type: str
    start: int
    end: int
    score: float


@dataclasses.dataclass(frozen=True)
class Entities:
    """All named entities in a text, in order."""

    entities: tuple[Entity, ...]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The index of the chosen text, from 0 (-1: there was none), the probability of each, and whether the
    model is confident; None if unknown."""

    choice: int
    probabilities: tuple[float, ...]
    confident: bool | None = None


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The score of each document, and the indices of the documents, the best first."""

    scores: tuple[float, ...]
    order: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class MaskPrediction:
    """The predictions for a masked token, the most probable first."""

    token: tuple[str, ...]
    probability: tuple[float, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Embedding:
    """The embedding of a text, float32 [D]."""

    embedding: np.ndarray


@dataclasses.dataclass(frozen=True)
class SparseEmbedding:
    """The sparse embedding of a text: ids of tokens in the vocabulary and their weights, the greatest first."""

    indices: tuple[int, ...]
    weights: tuple[float, ...]


Result = Classification | Score | Answer | Entities | Choice | Ranking | MaskPrediction | Embedding | SparseEmbedding
_KINDS = {}  # names of a row -> its class; those with a default may be missing
for _kind in Result.__args__:
    _needed, _others = (
        [field.name for field in dataclasses.fields(_kind) if (field.default is dataclasses.MISSING) == is_needed]
        for is_needed in (True, False)
    )
    for _count in range(len(_others) + 1):
        _KINDS |= {frozenset((*_needed, *some)): _kind for some in itertools.combinations(_others, _count)}


def to_dataclass(row: dict[str, Any], result: type | None = None) -> Any:
    """Converts a row to the class whose attributes are its keys.

    Args:
        row: {output: value}.
        result: a dataclass, for models of a task that this package does not know. If None, one of `Result`.

    Raises:
        ValueError: the class does not have these keys, or none has, or their types differ.
    """
    kind = result or _KINDS.get(frozenset(row))
    if result:
        _check_keys(result, row)
    elif kind is None:
        known = "; ".join(", ".join(sorted(keys)) for keys in _KINDS)
        raise ValueError(
            f"`typed` requires a model of a known kind, with one of these sets of outputs: {known}; got "
            f"{join_names(sorted(row))}. Without `typed`, you get dictionaries."
        )
    made, hints = kind(**{name: _converted(name, value) for name, value in row.items()}), typing.get_type_hints(kind)
    if wrong := [name for name in row if not _fits(getattr(made, name), hints[name])]:
        raise ValueError(
            f"`typed` requires a model whose `{wrong[0]}` is as in {kind.__name__}; got "
            f"{clean(repr(row[wrong[0]]), 100)}. Without `typed`, you get dictionaries."
        )
    return made


def _check_keys(result, row):
    """Raises ValueError unless a class can be created from a row."""
    if not (isinstance(result, type) and dataclasses.is_dataclass(result)):
        raise ValueError(f"`typed` must be a bool or a dataclass; got {result!r:.100}.")
    fields = {field.name: field.default is dataclasses.MISSING for field in dataclasses.fields(result)}
    needed = {name for name, is_needed in fields.items() if is_needed}
    if not needed <= row.keys() <= fields.keys():
        raise ValueError(
            f"`typed` must be a dataclass whose fields are the outputs of the model: {join_names(sorted(row))}; "
            f"{result.__name__} has {join_names(fields)}. Change its fields. Without `typed`, you get dictionaries."
        )


def _fits(value, kind):
    """Returns whether a value has the type of a field of these classes."""
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


def __getattr__(name):
    return find_renamed(__name__, {"Blank": "MaskPrediction"}, name)
