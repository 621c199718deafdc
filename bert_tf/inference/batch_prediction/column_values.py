"""Values of an output's columns: slices of parts, columns that are objects, and their forms as numbers and JSON."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.utils.answers import to_nested_lists


class Slice(NamedTuple):
    """Some rows of a part.

    Attributes:
        path: file of the part.
        first, last: rows, half-open.
    """

    path: str
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Partial:
    """A column in which some rows have no prediction.

    Attributes:
        values: one value per row.
        missing: bool [rows]: whether a row's value is missing.
    """

    values: np.ndarray | list | Ragged
    missing: np.ndarray


@dataclasses.dataclass(frozen=True)
class Labeled:
    """A column with one number per label: the labels are keys in text formats, and are stored once in the others.

    Attributes:
        values: one row of L numbers per row, [n, L].
        labels: the L labels.
    """

    values: np.ndarray
    labels: list[str]

    def __len__(self):
        return len(self.values)


class EntityLists(list):
    """A column with a list of entities per row, {"text", "type", "start", "end", "score"}."""


def same_labels(found: Sequence) -> Any:
    """Returns the first of the labels of several rows or parts; raises ValueError if others differ."""
    if different := [each for each in found if each != found[0]]:
        raise ValueError(
            f"The labels must be the same in all rows; got {found[0]} and {different[0]}. Write only the probability "
            "of each prediction with `probabilities=none`, or the most probable labels with `top_k`."
        )
    return found[0]


def numbers_of(values: Iterable) -> np.ndarray:
    """Converts numbers read from text to float [n]; None becomes NaN."""
    return np.array([math.nan if value is None else value for value in values])


def to_json_values(values) -> list:
    """Returns the values of a column for JSON; a float32 has its own digits, not those of a double."""
    if isinstance(values, Partial):
        return [
            None if lacks else value for value, lacks in zip(to_json_values(values.values), values.missing, strict=True)
        ]
    if isinstance(values, Labeled):
        return [dict(zip(values.labels, row, strict=True)) for row in to_nested_lists(values.values)]
    if isinstance(values, Ragged):
        flat, splits = to_json_values(values.flat), values.splits.tolist()
        return [flat[first:last] for first, last in itertools.pairwise(splits)]
    if not isinstance(values, np.ndarray):
        return [value.tolist() if hasattr(value, "tolist") else value for value in values]
    return to_nested_lists(values)


def json_default(value):
    """Returns a copied value that JSON does not have, such as a date, as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
