"""Output formats: how a part is written, and how slices of parts are joined into one file."""

import itertools
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from bert_tf.inference.batch_prediction.column_values import Slice, json_default, numbers_of, to_json_values
from bert_tf.inference.batch_prediction.csv_format import Csv
from bert_tf.inference.batch_prediction.npz_format import Npz
from bert_tf.inference.batch_prediction.parquet_format import Parquet
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text


class Format(Protocol):
    """Base class of output formats; objects can be pickled.

    Attributes:
        holds_null: whether it can write a `Partial`.
    """

    holds_null: bool

    def write(self, path: str, columns: Mapping[str, Any]):
        """Writes the columns of a part, `table_job.Columns` or `Partial`: all or, with OSError, nothing."""

    def join(self, path: str, slices: list[Slice]):
        """Writes the rows of all slices to one file, holding a part at a time."""

    def numbers(self, path: str, name: str) -> np.ndarray:
        """Returns the numbers in a column of a file that `join` wrote; null is NaN."""


class Jsonl:
    """JSON Lines: one object per line; null represents a number that is not finite."""

    holds_null = True

    def write(self, path, columns):
        lists = {name: to_json_values(values) for name, values in columns.items()}
        with atomic_open(path) as file:
            for row in zip(*lists.values(), strict=True):
                values = dict(zip(lists, row, strict=True))
                file.write(json_text(values, ensure_ascii=False, default=json_default) + "\n")

    def join(self, path, slices):
        with atomic_open(path, "wb") as target:
            for part, first, last in slices:
                with open(part, "rb") as source:
                    target.writelines(itertools.islice(source, first, last))

    def numbers(self, path, name):
        with open(path, encoding="utf-8") as file:
            return numbers_of(json.loads(line)[name] for line in file)


def format_of(output_file: str, quote_formulas: bool = True, types: Mapping[str, Any] | None = None) -> Format:
    """Returns the format for a file name.

    Args:
        output_file: the name.
        quote_formulas: as in `Csv`.
        types: as in `Parquet`.

    Raises:
        ValueError: the extension is unknown.
    """

    forms: dict[str, Callable[[], Format]] = {
        ".npz": Npz, ".jsonl": Jsonl, ".parquet": lambda: Parquet(types or {}), ".csv": lambda: Csv(quote_formulas),
    }  # fmt: skip
    ending = os.path.splitext(output_file.lower())[1]
    if ending not in forms:
        raise ValueError(
            "`output_file` must end in .npz, .jsonl, .parquet or .csv, which sets its format; got "
            f"{output_file!r}."
        )
    return forms[ending]()
