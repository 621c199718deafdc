"""Records which files a model was scored on, and chooses each one's result suffix (eval_results_test.txt).

The first file's scores are in eval_results.txt, its answers in eval_predictions.tsv and so on; those of another file,
test.tsv, in eval_results_test.txt and eval_predictions_test.tsv. To score a file again replaces what there was of it,
and so does a later step of the training with the scores of an earlier one.
"""

import dataclasses
import itertools
import json
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import keras
from absl import logging

from bert_tf.evaluation.results import RESULTS_FILE, read_results
from bert_tf.training.run_record import RUN_FILE, fingerprints
from bert_tf.utils.files import brief, with_suffix, write_text
from bert_tf.utils.json_files import read_object

FILES_FILE = "eval_files.json"  # {suffix of the names: {"precision", "files": [{"file", "bytes", "sha256"} ...]}}
_PREDICTIONS_FILE = "eval_predictions.tsv"
_REMEDY = "take it away, and the scores next to it"
_MOST_HASHED = 2**28  # bytes, as of `fingerprints`


@dataclasses.dataclass(frozen=True)
class ScoredFiles:
    """The files that are scored now.

    Attributes:
        directory: of the model.
        suffix: of the names of what is written of them, before the extension; "" or "_test".
        files: what they are, as `fingerprints` has them.
        precision: in which they are scored, one of `names.PRECISIONS`.
    """

    directory: str
    suffix: str
    files: list[dict[str, Any]]
    precision: str

    @property
    def is_another(self) -> bool:
        """Whether eval_results.txt is of another file, and stays."""
        return bool(self.suffix)

    def note(self):
        """Writes which files these scores are of, and in which precision; raises OSError if it cannot."""
        known = {**_known(self.directory), self.suffix: {"precision": self.precision, "files": self.files}}
        write_text(os.path.join(self.directory, FILES_FILE), json.dumps(known, indent=2) + "\n")


def scored_files(directory: str | os.PathLike, paths: Sequence[str | os.PathLike], step: int) -> ScoredFiles:
    """Returns how the scores of some files are to be named; where eval_results.txt is of another, the log says so.

    A file is the same where its path is, whatever has been changed in it, or its contents.

    Args:
        directory: of the model.
        paths: the files, in the order of the splits.
        step: of the model's training.

    Raises:
        ValueError: the note of earlier scores, or one of them, is not as it was written.
    """
    directory, before = os.fspath(directory), read_results(directory)
    precision = keras.config.dtype_policy().name
    files = fingerprints({"": [os.path.realpath(path) for path in paths]}, _MOST_HASHED)[""]
    if before is None or before.get("global_step", step) != step:
        return ScoredFiles(directory, "", files, precision)
    known = _known(directory)
    suffix = next((suffix for suffix, each in known.items() if _are_same(files, each["files"])), None)
    if suffix is None:
        suffix = _free_suffix(pathlib.Path(directory), known, files[0]["file"])
    if suffix:
        others = known.get("", {}).get("files")
        logging.info("%s is of %s: the scores of %s go to %s.", RESULTS_FILE, _names(others), _names(files),
                     with_suffix(RESULTS_FILE, suffix))  # fmt: skip
    return ScoredFiles(directory, suffix, files, precision)


def precision_of_scores(directory: str | os.PathLike) -> str | None:
    """Returns the precision in which the scores in eval_results.txt were computed; None: unknown.

    Raises:
        ValueError: the note of the scores is not as it was written.
    """
    return _known(directory).get("", {}).get("precision")


def _known(directory):
    """Returns the note of the scores that are there; of a folder without one what its run.json says of their files."""
    note, run = (os.path.join(directory, name) for name in (FILES_FILE, RUN_FILE))
    if os.path.exists(note):
        known = read_object(note, "what says which files were scored", _REMEDY)
        if all(isinstance(each, dict) and isinstance(each.get("files"), list) for each in known.values()):
            return known
        raise ValueError(f"{note} must say which files were scored. Received: {brief(known)}; {_REMEDY}.")
    data = read_object(run, "the record of a run", _REMEDY).get("data", {}) if os.path.exists(run) else {}
    files = [each for split, several in data.items() if split.startswith("dev") for each in several]
    return {"": {"files": files}} if files else {}


def _are_same(files, others):
    def is_same(one, other):
        return os.path.realpath(other["file"]) == one["file"] or one.get("sha256", 0) == other.get("sha256")

    return len(files) == len(others) and all(map(is_same, files, others))


def _free_suffix(folder, known, path):
    """Returns a suffix with the file's name that nothing in the folder has."""
    stem = re.sub(r"[^\w.-]+", "_", re.sub(r"(\.gz)?$", "", os.path.basename(path)).rsplit(".", 1)[0]) or "file"
    suffixes = itertools.chain([f"_{stem}"], (f"_{stem}_{number}" for number in itertools.count(2)))
    return next(
        suffix
        for suffix in suffixes
        if suffix not in known and not (folder / with_suffix(_PREDICTIONS_FILE, suffix)).exists()
    )


def _names(files):
    return ", ".join(os.path.basename(each["file"]) for each in files) if files else "a file that is not known"
