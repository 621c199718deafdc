"""The answers of a scored run, as the tables eval_predictions*.tsv in its folder hold them."""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.evaluation.results import read_results
from bert_tf.models.config_files import task_in
from bert_tf.utils.files import read_text
from bert_tf.utils.json_files import read_object

_NAME = "eval_predictions"
_RUN_FILE, _LABELS_FILE = "run.json", "labels.txt"
_HAVE_SEVERAL = {"single_label": False, "multi_label": True, "regression": False}  # problems of task.json


@dataclasses.dataclass(frozen=True)
class Table:
    """What one file of a run holds.

    Attributes:
        path: the file.
        columns: {name: n cells}, in the order of the file.
        scores: {metric: score} of this file, as eval_results.txt has them.
        labels: names of the model's outputs; () where they have none.
        separator: what stands between the labels of an example that has several.
        has_several: whether an example may have several labels, as the task says it; None: it does not.
    """

    path: pathlib.Path
    columns: Mapping[str, Sequence[str]]
    scores: Mapping[str, float]
    labels: tuple[str, ...] = ()
    separator: str = ","
    has_several: bool | None = None

    def labels_in(self, cell: str) -> set[str] | None:
        """Returns the labels of an example that may have several; None where a cell holds something else.

        A label's name may hold what stands between labels.

        Raises:
            ValueError: a cell can be read in two ways.
        """
        first, second = itertools.islice(itertools.chain(_readings(cell, self.labels, self.separator), (None, None)), 2)
        if second is not None and set(first) != set(second):
            raise ValueError(
                f"{self.path}: the labels of an example must be told apart. Received {cell!r}, which may be "
                f"{' and '.join(map(repr, first))}, or {' and '.join(map(repr, second))}; score the run again, with "
                "another `label_separator`."
            )
        return None if first is None else set(first)

    def numbers(self, name: str) -> np.ndarray:
        """Returns a column as float64 [n]; raises ValueError where it holds something else."""
        try:
            return np.array(self.columns[name], np.float64)
        except ValueError as error:
            raise ValueError(
                f"{self.path}: the column {name!r} must hold numbers. Received: {error}; score the run again."
            ) from error

    def take(self, places: Sequence[int]) -> "Table":
        """Returns the table with its lines in another order."""
        taken = {name: [cells[i] for i in places] for name, cells in self.columns.items()}
        return dataclasses.replace(self, columns=taken)


def read_tables(directory: str) -> dict[str, Table]:
    """Returns {"" or "_mismatched", ...: the table of that file of examples} of a scored run.

    Raises:
        ValueError: the directory is none of a scored run, or a file in it is not as it was written.
    """
    folder = pathlib.Path(directory)
    paths = sorted(folder.glob(f"{_NAME}*.tsv")) if folder.is_dir() else []
    if not paths:
        what = f"which has no {_NAME}.tsv" if folder.is_dir() else "where no directory is"
        raise ValueError(
            f"A run to compare must be the `output_dir` of one that was scored. Received {directory}, {what}; score it "
            "with `do_eval`, or name another."
        )
    labels, separator = _labels(folder), _settings(folder).get("label_separator")
    has_several, tables = _HAVE_SEVERAL.get((task_in(directory) or {}).get("problem")), {}
    for path in paths:
        suffix = path.stem.removeprefix(_NAME)
        scores = _scores(folder, suffix)
        tables[suffix] = Table(path, _columns(path), scores, labels, separator or ",", has_several)
    return tables


def told(directory: str) -> dict[str, Any]:
    """Returns what a run says of itself: `task`, its name, and `file`, the last examples that its training scored on.

    Either is None where the folder does not say.
    """
    files = _run(pathlib.Path(directory)).get("data", {}).get("dev") or [{}]
    return {"task": (task_in(directory) or {}).get("task"), "file": files[0].get("file")}


def _readings(cell, labels, separator):
    """Yields the ways to read a cell as labels, each once, with the separator between."""
    if not cell:
        yield ()
    for label in filter(None, labels):
        if cell == label:
            yield (label,)
        elif cell.startswith(label + separator):
            others = [other for other in labels if other != label]
            yield from ((label, *rest) for rest in _readings(cell[len(label + separator) :], others, separator) if rest)


def _columns(path):
    rows = [line.split("\t") for line in read_text(path).split("\n")]
    rows = rows[:-1] if rows[-1] == [""] else rows
    header = rows[0] if rows else []
    for number, row in enumerate(rows, 1):
        if len(row) != len(header) or number == 1 and "id" not in row:
            raise ValueError(
                f"{path}:{number}: a table of answers must have a header with `id`, and as many columns in each line. "
                f"Received: {row[:5]}; score the run again, with `do_eval`."
            )
    if len(rows) < 2:
        raise ValueError(f"{path} must hold answers. Received none; score the run again, with `do_eval`.")
    return dict(zip(header, map(list, zip(*rows[1:], strict=True)), strict=True))


def _scores(folder, suffix):
    """Returns the scores of a file: in eval_results.txt beside others, or in a file of their own."""
    own = read_results(folder, suffix) if suffix else None
    return _of_file(own, "") if own else _of_file(read_results(folder) or {}, suffix)


def _of_file(scores, suffix):
    """Returns the scores whose names end as the file's name does, without that and without "eval_"."""
    own = {name.removeprefix("eval_"): value for name, value in scores.items() if name.startswith("eval_")}
    return {name.removesuffix(suffix): value for name, value in own.items() if name.endswith(suffix)}


def _labels(folder):
    path = folder / _LABELS_FILE
    return tuple(read_text(path).split("\n")[:-1]) if path.exists() else ()


def _settings(folder):
    return _run(folder).get("settings", {})


def _run(folder):
    path = folder / _RUN_FILE
    return read_object(path, "the record of a run", "score the run again") if path.exists() else {}
