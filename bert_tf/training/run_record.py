"""The record of a run (OUTPUT_DIR/run.json), and of the files that it was scored on.

run.json has everything a reader needs to repeat the run. It describes the latest start; earlier ones are in
history.jsonl, with their flags, versions and commits.
"""

import dataclasses
import datetime
import functools
import itertools
import json
import math
import os
import pathlib
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from absl import logging

import bert_tf
from bert_tf.evaluation.results import RESULTS_FILE, read_results
from bert_tf.models.config import EncoderConfig
from bert_tf.utils.files import brief, sha256, with_suffix, write_text
from bert_tf.utils.json_files import json_text, read_object
from bert_tf.utils.manifest import check_same
from bert_tf.utils.resources import cores, package_versions

RUN_FILE = "run.json"
_KIND, _REMEDY = "the record of a run, in JSON", "take it away, and the run's settings must be given again"

PACKAGES = (
    "tensorflow", "keras", "numpy", "tensorflow-text", "ml-dtypes", "h5py", "protobuf", "pyarrow", "safetensors",
    "scikit-learn", "scipy", "absl-py",
)  # fmt: skip
_MOST_HASHED = 2 * 2**30  # bytes of data that are read to be hashed: seconds


class RunRecord:
    """The record of a run as far as it is known before the start; `write` adds the others.

    Args:
        task: its name.
        settings: {name: value} of all the program's flags.
        given: names of those that the user gave.
        config: the model's configuration as JSON values.
        tokenizer: the model's.
        files: of the data: split -> paths.
        identity: of the `RunConfig`: what a continuation must have alike.
    """

    def __init__(
        self,
        task: str,
        settings: Mapping[str, Any],
        given: Iterable[str],
        config: EncoderConfig,
        tokenizer,
        files: Mapping[str, Iterable[str]],
        identity: Mapping[str, Any],
    ):
        self._known = {
            "task": task,
            "given": sorted(given),
            "settings": dict(sorted(settings.items())),
            "identity": identity,
            "model": config.to_dict(),
        }
        self._tokenizer = tokenizer
        self._files = {split: list(paths) for split, paths in files.items()}

    def check(self, output_dir: str | os.PathLike, step: int):
        """Compares the data files with the record of the previous start, if the run continues after `step`.

        A file may join or leave, as one to be scored on does; one that stays must be as it was, or the steps and scores
        before and after would be of different things. A run that has made all its steps may be scored on anything.

        Raises:
            ValueError: one is not, or the record is no JSON object.
            OSError: a file of the data cannot be read.
        """
        path = os.path.join(output_dir, RUN_FILE)
        if not 0 < step < self._known["identity"].get("num_train_steps", math.inf) or not os.path.isfile(path):
            return
        then, now = _by_file(read_object(path, _KIND, _REMEDY).get("data", {})), _by_file(self._hashes["data"])
        both = [file for file in then if now.get(file, {}).keys() == then[file].keys()]  # hashed in the same way
        remedy = "Bring them back, name another `output_dir`, or pass `overwrite_output_dir` to start over."
        check_same(path, {file: then[file] for file in both}, {file: now[file] for file in both}, remedy, "files")

    def write(self, output_dir: str | os.PathLike, step: int, origin: str | None):
        """Writes run.json atomically.

        Args:
            output_dir: where.
            step: that is done when the run starts.
            origin: the checkpoint that it starts from, or None.

        Raises:
            OSError: it cannot be written, or a file of the data cannot be read.
        """
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = {"time": now, "step": step, "from": origin, **self._known, **self._hashes}
        record |= {"versions": package_versions(PACKAGES), "git": commit(), "machine": _machine()}
        write_text(os.path.join(output_dir, RUN_FILE), json_text(record, indent=2, default=str) + "\n")

    @functools.cached_property
    def _hashes(self):
        return {"vocabulary": _vocabulary(self._tokenizer), "data": fingerprints(self._files)}


def recorded_settings(directory: str | os.PathLike) -> dict[str, Any]:
    """Returns the settings of the run recorded in a directory, JSON values by name; {} if there is no record.

    Raises:
        ValueError: the file is no JSON object.
    """
    path = os.path.join(directory, RUN_FILE)
    settings = read_object(path, _KIND, _REMEDY).get("settings") if os.path.isfile(path) else None
    return settings if isinstance(settings, dict) else {}


def commit(folder: str | os.PathLike | None = None) -> dict[str, Any] | None:
    """Returns {"commit", "dirty": whether files differ from it, or are new}; None outside of a git checkout.

    Args:
        folder: its top; None: the one that holds this package.
    """
    folder = pathlib.Path(bert_tf.__file__).parents[1] if folder is None else pathlib.Path(folder)
    if not (folder / ".git").exists():
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*words):
        command = ["git", "-C", os.fspath(folder), *words]
        options = {"capture_output": True, "text": True, "check": True, "timeout": 30}
        return subprocess.run(command, env={**environment, "GIT_OPTIONAL_LOCKS": "0"}, **options).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):  # no git, a checkout of somebody else's, one without a commit
        return None


def fingerprints(files: Mapping[str, Iterable[str]], most: int = _MOST_HASHED) -> dict[str, list[dict[str, Any]]]:
    """Returns split -> {"file", "bytes" and "sha256"} of each of its files.

    Where all files together have more than `most` bytes, it is "sha256_of_ends" instead, of the first and the last MiB.
    What is no file, such as a pipe, cannot be read twice: only its name is there.

    Raises:
        OSError: a file cannot be read.
    """
    sizes = {path: os.path.getsize(path) for paths in files.values() for path in paths if os.path.isfile(path)}
    only_ends = sum(sizes.values()) > most
    name = "sha256_of_ends" if only_ends else "sha256"
    hashes = {path: sha256(path, only_ends) for path in sizes}
    return {
        split: [
            {"file": os.fspath(path)} | ({"bytes": sizes[path], name: hashes[path]} if path in sizes else {})
            for path in paths
        ]
        for split, paths in files.items()
    }


def _by_file(data):
    """Returns {path: what its content is known by} of what `fingerprints` returned."""
    entries = [entry for several in data.values() for entry in several]
    return {entry["file"]: {name: value for name, value in entry.items() if name != "file"} for entry in entries}


def _vocabulary(tokenizer):
    path = tokenizer.vocab_file
    there = path is not None and os.path.isfile(path)
    return {"pieces": tokenizer.vocab_size, "file": path, "sha256": sha256(path) if there else None}


def _machine():
    strategy = tf.distribute.get_strategy()
    details = tf.config.experimental.get_device_details
    return {
        "platform": platform.platform(),
        "cores": cores(),
        "strategy": type(strategy).__name__,
        "replicas": strategy.num_replicas_in_sync,
        "devices": [{"name": d.name, **details(d)} for d in tf.config.list_physical_devices()],
        "precision": keras.config.dtype_policy().name,
    }


# === Scored files ===
# Which files a model was scored on, and the suffix of each one's results.
#
# The first file's scores are in eval_results.txt, its answers in eval_predictions.tsv and so on; those of another file,
# such as test.tsv, are in eval_results_test.txt and eval_predictions_test.tsv. Scoring a file again replaces its old
# results, and scores from a later training step replace those from an earlier one.


FILES_FILE = "eval_files.json"  # {suffix of the names: {"precision", "files": [{"file", "bytes", "sha256"} ...]}}
_PREDICTIONS_FILE = "eval_predictions.tsv"
_SCORES_REMEDY = "remove it and the results next to it"
_MOST_BYTES_OF_SCORED = 2**28  # bytes, as of `fingerprints`


@dataclasses.dataclass(frozen=True)
class ScoredFiles:
    """The files that are scored now.

    Attributes:
        directory: of the model.
        suffix: goes before the extension in the names of the result files: "", or for example "_test".
        files: their fingerprints, as `fingerprints` returns them.
        precision: the one they are scored in, from `names.PRECISIONS`.
    """

    directory: str
    suffix: str
    files: list[dict[str, Any]]
    precision: str

    @property
    def is_another(self) -> bool:
        """Whether eval_results.txt holds another file's scores, and is kept."""
        return bool(self.suffix)

    def note(self):
        """Writes which files these scores are of, and in which precision; raises OSError if it cannot."""
        known = {**_known(self.directory), self.suffix: {"precision": self.precision, "files": self.files}}
        write_text(os.path.join(self.directory, FILES_FILE), json.dumps(known, indent=2) + "\n")


def scored_files(directory: str | os.PathLike, paths: Sequence[str | os.PathLike], step: int) -> ScoredFiles:
    """Returns what to name the scores of some files, and logs it if eval_results.txt holds another file's scores.

    Two files count as the same if their paths match, whatever has changed in them, or if their contents match.

    Args:
        directory: of the model.
        paths: the files, in the order of the splits.
        step: of the model's training.

    Raises:
        ValueError: the note of earlier scores, or one of them, is not as it was written.
    """
    directory, before = os.fspath(directory), read_results(directory)
    precision = keras.config.dtype_policy().name
    files = fingerprints({"": [os.path.realpath(path) for path in paths]}, _MOST_BYTES_OF_SCORED)[""]
    if before is None or before.get("global_step", step) != step:
        return ScoredFiles(directory, "", files, precision)
    known = _known(directory)
    suffix = next((suffix for suffix, each in known.items() if _are_same(files, each["files"])), None)
    if suffix is None:
        suffix = _free_suffix(pathlib.Path(directory), known, files[0]["file"])
    if suffix:
        others = known.get("", {}).get("files")
        logging.info("%s holds the metrics of %s: those of %s are written to %s.", RESULTS_FILE, _names(others),
                     _names(files), with_suffix(RESULTS_FILE, suffix))  # fmt: skip
    return ScoredFiles(directory, suffix, files, precision)


def precision_of_scores(directory: str | os.PathLike) -> str | None:
    """Returns the precision in which the scores in eval_results.txt were computed; None: unknown.

    Raises:
        ValueError: the note of the scores is not as it was written.
    """
    return _known(directory).get("", {}).get("precision")


def _known(directory):
    """Returns which files the existing scores are for; if that was not recorded, what run.json says about them."""
    note, run = (os.path.join(directory, name) for name in (FILES_FILE, RUN_FILE))
    if os.path.exists(note):
        known = read_object(note, "what says which files were scored", _SCORES_REMEDY)
        if all(isinstance(each, dict) and isinstance(each.get("files"), list) for each in known.values()):
            return known
        raise ValueError(f"{note} must list the evaluated files; got {brief(known)}. {_SCORES_REMEDY}.")
    data = read_object(run, "the record of a run", _SCORES_REMEDY).get("data", {}) if os.path.exists(run) else {}
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
