"""The record of the files that a model was evaluated on, and which results belong to which.

The first file's metrics are in eval_results.txt, its predictions in eval_predictions.tsv etc.; those of another file,
such as test.tsv, are in eval_results_test.txt and eval_predictions_test.tsv. Evaluating a file again replaces its old
results, and metrics from a later training step replace those from an earlier one.
"""

import dataclasses
import itertools
import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from absl import logging

from bert_tf.evaluation.label_results import LabelResult
from bert_tf.evaluation.results import RESULTS_FILE, read_results
from bert_tf.training.run_record import RUN_FILE, fingerprints
from bert_tf.utils.files import brief, file_names, with_suffix, write_text
from bert_tf.utils.json_files import read_object

FILES_FILE = "eval_files.json"  # {suffix of the names: what `ScoredFiles.note` writes}
_PREDICTIONS_FILE = "eval_predictions.tsv"
_REMEDY = "remove it and the results next to it"
_MOST_BYTES = 2**28  # as in `fingerprints`
_FITTED = "fitted"


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """What was evaluated.

    Attributes:
        data: {split: {"file", "rows"}}; splits are as of `TaskData.examples`.
        labels: {suffix of the split: {label: its result}}; {} if the outputs are not labels.
        fitted: names of the metrics, as in eval_results.txt, computed with values that were fitted to these files.
    """

    data: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, Mapping[str, LabelResult]] = dataclasses.field(default_factory=dict)
    fitted: frozenset[str] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values; a label's result is [examples, predicted, correct]."""
        return {"data": self.data, "labels": self.labels, _FITTED: sorted(self.fitted)}


@dataclasses.dataclass(frozen=True)
class ScoredFiles:
    """The files being evaluated.

    Attributes:
        directory: directory of the model.
        suffix: goes before the extension in the names of the result files: "", or for example "_test".
        files: their fingerprints, as `fingerprints` returns them.
        precision: the precision of the evaluation, from `names.PRECISIONS`.
        step: step of the model's training.
    """

    directory: str
    suffix: str
    files: list[dict[str, Any]]
    precision: str
    step: int

    @property
    def is_another(self) -> bool:
        """Whether eval_results.txt contains another file's metrics and is kept."""
        return bool(self.suffix)

    def note(self, evaluated: Evaluated = Evaluated()):
        """Records which files the metrics belong to, and how they were computed; raises OSError if writing fails.

        Values that were fitted to a file remain fitted to it if it is evaluated again.
        """
        known = _known(self.directory)
        before = known.get(self.suffix, {})
        if before.get("step") == self.step:
            fitted = evaluated.fitted.union(before.get(_FITTED, ()))
            evaluated = dataclasses.replace(evaluated, fitted=fitted)
        entry = {"precision": self.precision, "step": self.step, "files": self.files, **evaluated.to_dict()}
        text = json.dumps({**known, self.suffix: entry}, indent=2)
        write_text(os.path.join(self.directory, FILES_FILE), text + "\n")


def scored_files(directory: str | os.PathLike, paths: Sequence[str | os.PathLike], step: int) -> ScoredFiles:
    """Returns the file names for the metrics of some files, and logs them if eval_results.txt contains another file's.

    Two files count as the same if their paths match, whatever has changed in them, or if their contents match.

    Args:
        directory: directory of the model.
        paths: the files, in the order of the splits.
        step: step of the model's training.

    Raises:
        ValueError: the record of earlier metrics, or one of the files, is invalid.
    """
    directory, before = os.fspath(directory), read_results(directory)
    precision = keras.config.dtype_policy().name
    files = fingerprints({"": [os.path.realpath(path) for path in paths]}, _MOST_BYTES)[""]
    if before is None or before.get("global_step", step) != step:
        return ScoredFiles(directory, "", files, precision, step)
    known = _known(directory)
    suffix = next((suffix for suffix, each in known.items() if _are_same(files, each["files"])), None)
    if suffix is None:
        suffix = _free_suffix(pathlib.Path(directory), known, files[0]["file"])
    if suffix:
        others = known.get("", {}).get("files")
        logging.info("%s contains the metrics of %s, so those of %s are written to %s.", RESULTS_FILE, _names(others),
                     _names(files), with_suffix(RESULTS_FILE, suffix))  # fmt: skip
    return ScoredFiles(directory, suffix, files, precision, step)


@dataclasses.dataclass(frozen=True)
class FileScores:
    """The scores of one evaluation, and what was evaluated.

    Attributes:
        suffix: suffix of its files' names; "" for eval_results.txt.
        scores: {name as in eval_results.txt: score}.
        step: step of the evaluated model; None if unknown.
        precision: as of `ScoredFiles`; None if unknown.
        evaluated: as recorded.
    """

    suffix: str
    scores: dict[str, float]
    step: int | None = None
    precision: str | None = None
    evaluated: Evaluated = Evaluated()

    def file_of(self, split_suffix: str = "") -> str:
        """Returns the name of the file of a split, or of all of them; "" if it is unknown."""
        own = [each["file"] for split, each in self.evaluated.data.items()
               if not split_suffix or split.partition("_")[2] == split_suffix[1:]]  # fmt: skip
        return ", ".join(map(file_names, own))

    def rows_of(self, split_suffix: str) -> int:
        """Returns the number of rows in the file of a split, or in all of them; 0 if it is unknown."""
        return sum(each["rows"] for split, each in self.evaluated.data.items()
                   if not split_suffix or split.partition("_")[2] == split_suffix[1:])  # fmt: skip


def read_file_scores(directory: str | os.PathLike) -> list[FileScores]:
    """Returns the scores of all evaluations of a model, in the order in which they were first made.

    Raises:
        ValueError: the record of the evaluations, or a file of results, is invalid.
    """
    known = _known(directory)
    read = ((suffix, read_results(directory, suffix)) for suffix in {"": None, **known})
    return [_file_scores(suffix, scores, known.get(suffix, {})) for suffix, scores in read if scores is not None]


def _file_scores(suffix, scores, entry):
    scores = dict(scores)
    step = scores.pop("global_step", None)
    labels = {split: {label: LabelResult(*counts) for label, counts in each.items()}
              for split, each in entry.get("labels", {}).items()}  # fmt: skip
    evaluated = Evaluated(entry.get("data", {}), labels, frozenset(entry.get(_FITTED, ())))
    return FileScores(suffix, scores, step and int(step), entry.get("precision"), evaluated)


def _known(directory):
    """Returns which files the existing metrics are for; if that was not recorded, the files in run.json."""
    note, run = (os.path.join(directory, name) for name in (FILES_FILE, RUN_FILE))
    if os.path.exists(note):
        known = read_object(note, "the record of the evaluated files", _REMEDY)
        if all(isinstance(each, dict) and isinstance(each.get("files"), list) for each in known.values()):
            return known
        raise ValueError(f"{note} must list the evaluated files; got {brief(known)}. {_REMEDY}.")
    data = read_object(run, "the record of a run", _REMEDY).get("data", {}) if os.path.exists(run) else {}
    files = [each for split, several in data.items() if split.startswith("dev") for each in several]
    return {"": {"files": files}} if files else {}


def _are_same(files, others):
    def is_same(one, other):
        return os.path.realpath(other["file"]) == one["file"] or one.get("sha256", 0) == other.get("sha256")

    return len(files) == len(others) and all(map(is_same, files, others))


def _free_suffix(folder, known, path):
    """Returns a suffix with the file's name that no file in the directory has."""
    stem = re.sub(r"[^\w.-]+", "_", re.sub(r"(\.gz)?$", "", os.path.basename(path)).rsplit(".", 1)[0]) or "file"
    suffixes = itertools.chain([f"_{stem}"], (f"_{stem}_{number}" for number in itertools.count(2)))
    return next(
        suffix
        for suffix in suffixes
        if suffix not in known and not (folder / with_suffix(_PREDICTIONS_FILE, suffix)).exists()
    )


def _names(files):
    return ", ".join(os.path.basename(each["file"]) for each in files) if files else "an unknown file"
