"""Converts output arrays into one prediction per text: dictionaries of Python values, or typed results."""

import dataclasses
import itertools
import types
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.serving.client.requests import clean, join_names

# === Answers ===
# From output arrays to dictionaries of JSON values.


CLASSES = ("label", "probabilities", "labels")  # the outputs of a classifier
PREDICTED = "predicted"  # of a multi-label classifier, bool [n, k]; exports of bert_tf 0.1 may lack it
COUNT = "entity_count"
ENTITIES = ("entity", "type", "start", "end", "score")  # those of an NER model, [n, E] each
CHOICE = ("choice", "probabilities")  # those of a multiple-choice model, [n] and [n, k]
RANKING = ("scores", "order")  # those of a reranker, [n, k] each
_PER_TEXT = {CHOICE: ("probabilities",), RANKING: RANKING}  # the outputs that have a value for each text of a list
_PART = 2**16  # numbers that are converted to text at a time
_ORDER = ("label", "choice", "probabilities", "answer", "start", "end", "score", "null_score", "token", "probability",
          "predicted", "confident", "scores", "order")  # fmt: skip


def split_answer(outputs: dict[str, np.ndarray], n: int, counts: Sequence[int] | None = None) -> list[dict]:
    """Splits the outputs for n texts into one prediction per text.

    Args:
        outputs: {output: array [n, ...]}, strings as objects of type bytes.
        n: number of rows in each of them.
        counts: number of choices or documents in each row, if rows differ; None: as many as there are
            probabilities or scores.

    Returns:
        n dictionaries {output: value}: numbers, str, or lists of them. Those of a classifier have no
        `labels`, but `probabilities` as {label: float}, and `predicted`, if any, as a list of labels; those of an
        NER model have `entities`, a list of {"text", "type", "start", "end", "score"}; those of a multiple-choice
        model have one probability per choice, those of a reranker one score per document. Outputs have a fixed order,
        independent of that of `outputs`.

    Raises:
        ValueError: an output does not have n rows, or related outputs do not match.
    """
    for name, array in outputs.items():
        if array.shape[:1] != (n,):
            raise ValueError(
                f"Output {name!r} must have one row for each of the {n} texts; got an array of shape "
                f"{list(array.shape)}. Client.predict returns it unchanged."
            )
    _check_fit(outputs, counts)
    columns = {name: to_nested_lists(outputs[name]) for name in sorted(outputs, key=output_order)}
    if set(CLASSES) <= set(columns):
        names = columns.pop("labels")
        pairs = zip(names, columns["probabilities"], strict=True)
        columns["probabilities"] = [dict(zip(*pair, strict=True)) for pair in pairs]
        if PREDICTED in columns:
            pairs = zip(names, columns[PREDICTED], strict=True)
            columns[PREDICTED] = [list(itertools.compress(*pair)) for pair in pairs]
    if {*ENTITIES, COUNT} <= set(columns):
        columns["entities"] = entities(columns.pop(COUNT), [columns.pop(name) for name in ENTITIES])
    for name in () if counts is None else _per_text(columns)[1]:
        columns[name] = [row[:count] for row, count in zip(columns[name], counts, strict=True)]
    return [{name: column[i] for name, column in columns.items()} for i in range(n)]


def _per_text(outputs):
    """Returns the outputs of a model that takes lists, and those of them that have a value for each text of a list."""
    return next((pair for pair in _PER_TEXT.items() if set(pair[0]) <= set(outputs)), ((), ()))


def _check_fit(outputs, counts):
    """Raises ValueError if related outputs, n rows each, do not match."""
    if set(CLASSES) <= set(outputs):
        labels, probabilities = outputs["labels"], outputs["probabilities"]
        good = labels.ndim == 2 and labels.shape == probabilities.shape and probabilities.dtype.kind in "fiu"
        _require(good and labels.dtype.kind not in "fiub", outputs, CLASSES, "labels and probabilities [n, k]")
        marks = outputs.get(PREDICTED)
        good = marks is None or marks.shape == labels.shape and marks.dtype == bool
        _require(good, outputs, (*CLASSES, PREDICTED), "labels [n, k] and booleans of that shape")
    elif counts is not None:
        (kind, names), most = _per_text(outputs), max(counts, default=0)
        for name in names:
            array = outputs[name]
            good = array.ndim == 2 and array.shape[1] >= most and array.dtype.kind in "fiu"
            _require(good, outputs, kind, f"{name} [n, {most}]")
    if {*ENTITIES, COUNT} <= set(outputs):
        count, shape = outputs[COUNT], outputs["entity"].shape
        good = len(shape) == 2 and {outputs[name].shape for name in ENTITIES} == {shape}
        good = good and count.ndim == 1 and count.dtype.kind in "iu" and ((count >= 0) & (count <= shape[1])).all()
        _require(good, outputs, (COUNT, *ENTITIES), f"{', '.join(ENTITIES)} [n, E], and of these {COUNT} [n]")


def _require(good, outputs, names, wanted):
    if not good:
        there = ", ".join(f"{name} {outputs[name].dtype} {list(outputs[name].shape)}" for name in names)
        raise ValueError(f"The response must have {wanted}; got {there}. Client.predict returns them unchanged.")


def entities(counts, columns) -> list[list[dict]]:
    """Returns the entities of each text.

    Args:
        counts: number of entities in each text.
        columns: for each name in ENTITIES, one list per text, which may be padded.
    """
    keys = ("text", *ENTITIES[1:])
    texts = zip(counts, *columns, strict=True)
    return [[dict(zip(keys, each, strict=True)) for each in list(zip(*parts, strict=True))[:n]] for n, *parts in texts]


def output_order(name: str) -> tuple[int, str]:
    """Returns a sort key for outputs: those of bert_tf's models in the documented order, then the others."""
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def to_nested_lists(array: np.ndarray) -> list:
    """Converts an array, also of bytes or text, to nested lists; bytes are decoded as UTF-8."""
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # str writes a float32 with as many digits as needed, in 128 bytes; tolist alone would show those of its double.
        flat = array.ravel()
        exact: np.ndarray = np.empty(array.size)
        for start in range(0, array.size, _PART):
            exact[start : start + _PART] = flat[start : start + _PART].astype(str).astype(np.float64)
        return exact.reshape(array.shape).tolist()
    return _decoded(array.tolist()) if array.dtype == object else array.tolist()


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# === Results ===
# Typed predictions: attributes are the keys of the dictionaries.


@dataclasses.dataclass(frozen=True)
class Classification:
    """The most probable label of a text, every label's probability, the predicted ones of several labels, and whether
    the model is confident; None: unknown."""

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
    model is confident; None: unknown."""

    choice: int
    probabilities: tuple[float, ...]
    confident: bool | None = None


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The score of each document, and the indices of the documents, the best first."""

    scores: tuple[float, ...]
    order: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Blank:
    """The predictions for a masked token, the most probable first."""

    token: tuple[str, ...]
    probability: tuple[float, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Embedding:
    """The embedding of a text, float32 [D]."""

    embedding: np.ndarray


Result = Classification | Score | Answer | Entities | Choice | Ranking | Blank | Embedding
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
        raise ValueError(f"`typed` must be a bool or a dataclass. Received: {result!r:.100}.")
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
