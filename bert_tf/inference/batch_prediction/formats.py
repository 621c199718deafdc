"""The formats of answers: how a part is written, and how slices of parts become one file."""

import dataclasses
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from bert_tf.data.ragged import Ragged
from bert_tf.serving.client import answers
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text


class Slice(NamedTuple):
    """Some rows of a part.

    Attributes:
        path: of the part.
        first, last: rows, half-open.
    """

    path: str
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Partial:
    """A column in which some rows have no answer.

    Attributes:
        values: a value for each row.
        missing: bool [rows]: whose value does not count.
    """

    values: np.ndarray | list | Ragged
    missing: np.ndarray


class Format(Protocol):
    """One format; objects can be pickled.

    Attributes:
        holds_null: whether it can write a `Partial`.
    """

    holds_null: bool

    def write(self, path: str, columns: Mapping[str, Any]):
        """Writes the columns of a part, `table_job.Columns` or `Partial`: all of them, or nothing and OSError."""

    def join(self, path: str, slices: list[Slice]):
        """Writes the rows of all slices to one file, holding a part at a time."""

    def numbers(self, path: str, name: str) -> np.ndarray:
        """Returns the numbers in a column of a file that `join` wrote; null is NaN."""


class Jsonl:
    """An object a line; null stands for a number that is not finite."""

    holds_null = True

    def write(self, path, columns):
        lists = {name: plain(values) for name, values in columns.items()}
        with atomic_open(path) as file:
            for row in zip(*lists.values(), strict=True):
                file.write(json_text(dict(zip(lists, row, strict=True)), ensure_ascii=False, default=str) + "\n")

    def join(self, path, slices):
        with atomic_open(path, "wb") as target:
            for part, first, last in slices:
                with open(part, "rb") as source:
                    target.writelines(itertools.islice(source, first, last))

    def numbers(self, path, name):
        with open(path, encoding="utf-8") as file:
            return numbers_of(json.loads(line)[name] for line in file)


def numbers_of(values: Iterable) -> np.ndarray:
    """Returns numbers as they were read from a text, float [n]; None is NaN."""
    return np.array([math.nan if value is None else value for value in values])


def plain(values) -> list:
    """Returns the values of a column as JSON has them; a float32 with the digits that it has, not its double's."""
    if isinstance(values, Partial):
        return [None if lacks else value for value, lacks in zip(plain(values.values), values.missing, strict=True)]
    if isinstance(values, Ragged):
        flat, splits = plain(values.flat), values.splits.tolist()
        return [flat[first:last] for first, last in itertools.pairwise(splits)]
    if not isinstance(values, np.ndarray):
        return [value.tolist() if hasattr(value, "tolist") else value for value in values]
    return answers.plain(values)


def format_of(output_file: str, quote_formulas: bool = True) -> Format:
    """Returns the format that the name tells.

    Args:
        output_file: the name.
        quote_formulas: as of `csv_files.Csv`.

    Raises:
        ValueError: it tells none.
    """
    from bert_tf.inference.batch_prediction.csv_files import Csv
    from bert_tf.inference.batch_prediction.npz import Npz
    from bert_tf.inference.batch_prediction.parquet import Parquet

    forms = {".npz": Npz, ".jsonl": Jsonl, ".parquet": Parquet, ".csv": Csv}
    ending = os.path.splitext(output_file.lower())[1]
    if ending not in forms:
        raise ValueError(
            "`output_file` must end in .npz, .jsonl, .parquet or .csv, which tells its format. Received "
            f"{output_file!r}; name it so."
        )
    return Csv(quote_formulas) if ending == ".csv" else forms[ending]()
