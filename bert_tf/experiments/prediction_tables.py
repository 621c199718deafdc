"""The predictions of an evaluated run, from the files eval_predictions*.tsv in its directory."""

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
from bert_tf.utils.names import HAVE_SEVERAL_LABELS

_NAME = "eval_predictions"
_RUN_FILE, _LABELS_FILE = "run.json", "labels.txt"
LABEL_COLUMNS = ("label", "prediction")  # of a file whose examples have labels or numbers


@dataclasses.dataclass(frozen=True)
class PredictionTable:
    """The predictions of a run for one file of examples, from its predictions file.

    Attributes:
        path: the file.
        columns: {name: n cells}, in the order of the file.
        scores: {metric: score} of this file, from eval_results.txt.
        labels: names of the model's outputs; () if they have none.
        separator: separator between the labels of a multi-label example.
        has_several: whether the task is multi-label; None if unknown.
        scored_labels: labels that classes are scored on; None for all.
    """

    path: pathlib.Path
    columns: Mapping[str, Sequence[str]]
    scores: Mapping[str, float]
    labels: tuple[str, ...] = ()
    separator: str = ","
    has_several: bool | None = None
    scored_labels: tuple[str, ...] | None = None

    def labels_in(self, cell: str) -> set[str] | None:
        """Returns the labels of a multi-label example; None if a cell contains something else.

        A label's name may contain the separator.

        Raises:
            ValueError: a cell is ambiguous.
        """
        first, second = itertools.islice(itertools.chain(_readings(cell, self.labels, self.separator), (None, None)), 2)
        if second is not None and set(first) != set(second):
            raise ValueError(
                f"{self.path}: the labels of an example are ambiguous: {cell!r} may be "
                f"{' and '.join(map(repr, first))}, or {' and '.join(map(repr, second))}; evaluate the run again with "
                "another `label_separator`."
            )
        return None if first is None else set(first)

    def numbers(self, name: str) -> np.ndarray:
        """Returns a column as float64 [n]; raises ValueError if it contains something else."""
        try:
            return np.array(self.columns[name], np.float64)
        except ValueError as error:
            raise ValueError(
                f"{self.path}: the column {name!r} must contain numbers: {error}. Evaluate the run again."
            ) from error

    def take(self, indices: Sequence[int]) -> "PredictionTable":
        """Returns the table with its lines in another order."""
        taken = {name: [cells[i] for i in indices] for name, cells in self.columns.items()}
        return dataclasses.replace(self, columns=taken)


def read_prediction_tables(directory: str) -> dict[str, PredictionTable]:
    """Returns {"" or "_mismatched", ...: the predictions for that file} of an evaluated run.

    Raises:
        ValueError: the directory is not that of an evaluated run, or a file in it is damaged.
    """
    folder = pathlib.Path(directory)
    paths = sorted(folder.glob(f"{_NAME}*.tsv")) if folder.is_dir() else []
    if not paths:
        what = f"which has no {_NAME}.tsv" if folder.is_dir() else "where no directory is"
        raise ValueError(
            f"Not the `output_dir` of an evaluated run: {directory}, {what}. Evaluate it with `do_eval`, or pass the "
            "`output_dir` of an evaluated run."
        )
    path = folder / _LABELS_FILE
    labels = tuple(read_text(path).split("\n")[:-1]) if path.exists() else ()
    separator = read_run_record(folder).get("settings", {}).get("label_separator")
    has_several, tables = HAVE_SEVERAL_LABELS.get((task_in(directory) or {}).get("problem")), {}
    for path in paths:
        suffix = path.stem.removeprefix(_NAME)
        own = read_results(folder, suffix) if suffix else None  # otherwise, they are in eval_results.txt with others
        scores = _scores_ending(own, "") if own else _scores_ending(read_results(folder) or {}, suffix)
        tables[suffix] = PredictionTable(path, _columns(path), scores, labels, separator or ",", has_several)
    return tables


def describe_run(directory: str) -> dict[str, Any]:
    """Returns the facts in a run's files: `task`, its name, and `file`, the last file evaluated during training.

    Either is None if it is not recorded.
    """
    files = read_run_record(pathlib.Path(directory)).get("data", {}).get("dev") or [{}]
    return {"task": (task_in(directory) or {}).get("task"), "file": files[0].get("file")}


def _readings(cell, labels, separator):
    """Yields the different ways to split a cell into labels at the separator."""
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
                f"{path}:{number}: a predictions file needs a header with `id`, and the same number of columns in each "
                f"line; got {row[:5]}. Evaluate the run again with `do_eval`."
            )
    if len(rows) < 2:
        raise ValueError(f"{path} contains no predictions. Evaluate the run again with `do_eval`.")
    return dict(zip(header, map(list, zip(*rows[1:], strict=True)), strict=True))


def _scores_ending(scores, suffix):
    """Returns the metrics with the file's suffix, without this suffix and without "eval_"."""
    own = {name.removeprefix("eval_"): value for name, value in scores.items() if name.startswith("eval_")}
    return {name.removesuffix(suffix): value for name, value in own.items() if name.endswith(suffix)}


def read_run_record(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the run.json of a run's directory; {} if there is none."""
    path = folder / _RUN_FILE
    return read_object(path, "the record of a run", "evaluate the run again") if path.exists() else {}
