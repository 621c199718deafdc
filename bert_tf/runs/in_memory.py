"""Examples in memory, as files that tasks read: frames, tables, lists of rows, columns, datasets."""

import contextlib
import datetime
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_tf.tasks.base import FineTuningTask

_KINDS = (
    "a path, several paths, a pandas or Polars DataFrame, a pyarrow Table, a Hugging Face Dataset, a list of "
    "dictionaries, or a dictionary of columns"
)


# Flags that `finetune` does not have: `eval` implies `do_eval`, and is the examples of `eval_file`.
_FLAGS = re.compile(r"`(?:do_(train|eval|predict)|(train|eval|test|predict)_file)`")


class DataFiles:
    """Files of examples in memory.

    Attributes:
        paths: {name of the argument: path of its file, or None}.
    """

    def __init__(self, paths: Mapping[str, str | None], folder: str):
        self.paths = dict(paths)
        self._written = {path: name for name, path in paths.items() if path and path.startswith(folder)}

    def name_arguments(self, message: str) -> str:
        """Returns a message in which arguments take the places of their files, and of the flags that they imply."""
        for path, name in self._written.items():
            message = re.sub(rf"{re.escape(path)}(?::|, line )(\d+)", rf"`{name}`, row \1", message)
            message = message.replace(path, f"`{name}`")
        return _FLAGS.sub(lambda match: f"`{match[1] or match[2]}`", message)


@contextlib.contextmanager
def as_files(kind: "type[FineTuningTask]", **data: Any) -> Iterator[DataFiles]:
    """Context in which examples in memory are files, which are removed afterwards.

    An error that names one of these files names the argument instead.

    Args:
        kind: the task, which decides how rows are written: `FineTuningTask.write_rows`.
        data: name of an argument -> its examples, a path, or None.

    Raises:
        TypeError: examples are of a type that cannot be read.
        ValueError: columns differ in length, or there are no rows.
    """
    with tempfile.TemporaryDirectory(prefix="bert_tf_") as folder:
        files = DataFiles({name: _as_file(kind, folder, name, value) for name, value in data.items()}, folder)
        try:
            yield files
        except ValueError as error:
            if (message := files.name_arguments(str(error))) != str(error):
                raise type(error)(message) from error
            raise


def _as_file(kind, folder, name, value):
    """Returns the path of a file with the examples."""
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    if isinstance(value, Sequence) and value and all(isinstance(each, str | os.PathLike) for each in value):
        return ",".join(map(os.fspath, value))
    rows = [{str(key): plain(each) for key, each in row.items()} for row in _rows(name, value)]
    if not rows:
        raise ValueError(f"`{name}` has no rows.")
    return kind.write_rows(os.path.join(folder, name), rows)


def _rows(name, value):
    """Returns the rows of a table in memory, dictionaries; its library is known by its interface."""
    if isinstance(value, Mapping):
        if any(isinstance(part, str) or not isinstance(part, Iterable) for part in value.values()):
            raise TypeError(f"`{name}` must be {_KINDS}; got a dictionary with the keys {[*value]!r:.80}.")
        if any(hasattr(part, "features") for part in value.values()):
            raise TypeError(f"`{name}` has several splits: {', '.join(value)}. Pass one of them.")
        columns = {key: list(part) for key, part in value.items()}
        if len({*map(len, columns.values())}) > 1:
            sizes = ", ".join(f"{key} {len(part)}" for key, part in columns.items())
            raise ValueError(f"`{name}` must have columns of one length; got {sizes}.")
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if hasattr(value, "to_dicts"):  # Polars
        return value.to_dicts()
    if hasattr(value, "to_pylist"):  # pyarrow
        return value.to_pylist()
    if hasattr(value, "features") and hasattr(value, "column_names"):  # Hugging Face
        return _named_labels(value)
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # pandas
        return value.to_dict("records")
    rows = list(value) if isinstance(value, Iterable) else None
    if rows is None or not all(isinstance(row, Mapping) for row in rows):
        raise TypeError(f"`{name}` must be {_KINDS}; got {type(value).__module__}.{type(value).__qualname__}.")
    return rows


def _named_labels(dataset):
    """Yields the rows of a Dataset, in which numbers of classes are the names that the dataset has for them."""
    names = {column: _class_names(feature) for column, feature in dataset.features.items()}
    for row in dataset:
        yield {column: _named(each, names[column]) for column, each in row.items()}


def _class_names(feature):
    while feature is not None and not hasattr(feature, "names"):
        feature = getattr(feature, "feature", None)  # of a sequence
    return feature and list(feature.names)


def _named(value, names):
    if names is None or value is None:
        return value
    if isinstance(value, Iterable):
        return [_named(each, names) for each in value]
    return names[value] if value >= 0 else None  # -1: unlabeled


def plain(value: Any) -> Any:
    """Returns a value as JSON can represent it: of NumPy, pandas or Python; what is missing is None."""
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        value = value.tolist()
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime.date | datetime.time):
        return None if value != value else str(value)  # NaT is not itself
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return None if type(value).__name__ == "NAType" else str(value)
