"""The user's own tables, used in addition to GLUE's tasks: what the JSON file of `tables` contains about each."""

import dataclasses
import os
import re
from typing import Any

from bert_tf.data import glue_tasks
from bert_tf.evaluation.significance import METRICS
from bert_tf.utils.json_files import read_object

# What a table's score is made of where it does not say so.
_METRICS = {"single_label": ("accuracy",), "multi_label": ("f1",), "regression": ("pearson", "spearman")}
_FILES = ("train_file", "eval_file")
# Flag of `train classifier` -> what its value must be.
_KEYS = {
    **dict.fromkeys(_FILES, (str, "a path")),
    "header": (bool, "true or false"),
    "text_column": ((str, int, list), "one column, or a list of two"),
    "label_column": ((str, int), "a column"),
    "problem_type": (str, f"one of {', '.join(_METRICS)}"),
    "label_separator": (str, "a text"),
}


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """One table.

    Attributes:
        name: name of its task, and of the folder of its runs.
        flags: flags of `train classifier` that describe it, {name: value}.
        metrics: metrics whose mean is its score.
    """

    name: str
    flags: dict[str, Any]
    metrics: tuple[str, ...]

    @property
    def training_size(self) -> int:
        """Bytes of the training examples."""
        return os.path.getsize(self.flags["train_file"])

    def to_dict(self) -> dict[str, Any]:
        """Returns what runs on it must have alike, as JSON values."""
        return {"flags": self.flags, "metrics": list(self.metrics)}


def read_score_tables(path: str | os.PathLike) -> dict[str, ScoreTable]:
    """Returns name -> table, as the file has them.

        {"reviews": {"train_file": "train.tsv", "eval_file": "dev.tsv", "label_column": "stars"}}

    Paths are seen from the file's own folder.

    Raises:
        ValueError: the file is not like that, or a file of examples is missing.
    """
    tables = read_object(path, "tables", "give an object: each table's name, and its train_file and eval_file")
    if not tables:
        raise ValueError(f"`tables={path}` is an empty object. Add a dataset, or remove the flag.")
    return {name: _parse_table(os.fspath(path), name, values) for name, values in tables.items()}


def _parse_table(path, name, values):
    if not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII) or name in glue_tasks.TASKS:
        raise ValueError(
            f"{path}: a table's name must be of letters, digits, `_`, `-` and `.`, and none of GLUE's tasks; "
            f"got {name!r}; give it another."
        )
    if not isinstance(values, dict) or any(key not in values for key in _FILES):
        raise ValueError(f"{path}: {name!r} requires train_file and eval_file; got {values!r:.200}.")
    flags = {key: _parse_value(path, name, key, value) for key, value in values.items() if key != "metrics"}
    problem = flags.get("problem_type", "single_label")
    return ScoreTable(name, flags, _parse_metrics(path, name, values.get("metrics", list(_METRICS[problem]))))


def _parse_value(path, name, key, value):
    """Returns a flag's value, as `train classifier` takes it."""
    kinds, must = _KEYS.get(key, ((), ""))
    if key not in _KEYS:
        raise ValueError(
            f"{path}: a table may have metrics, {', '.join(_KEYS)}; got {key!r} of {name!r}; what all runs have "
            "in common goes after `--`."
        )
    good = isinstance(value, kinds) and isinstance(value, bool) == (kinds is bool)  # to Python true is a number too
    if not good or (key == "problem_type" and value not in _METRICS):
        raise ValueError(f"{path}: {key} of {name!r} must be {must}; got {value!r:.100}.")
    if key in _FILES:
        value = os.path.join(os.path.dirname(os.path.abspath(path)), value)
        if not os.path.isfile(value):
            raise ValueError(f"{path}: {key} of {name!r} not found: {value}.")
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _parse_metrics(path, name, metrics):
    if not isinstance(metrics, list) or not metrics or any(metric not in METRICS for metric in metrics):
        raise ValueError(
            f"{path}: metrics of a table must be a list of some of {', '.join(METRICS)}. {name!r} has "
            f"{metrics!r:.100}."
        )
    return tuple(metrics)
