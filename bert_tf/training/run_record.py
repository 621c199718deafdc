"""The record of a run (OUTPUT_DIR/run.json), and of the files that it was evaluated on.

run.json has everything needed to repeat the run. It describes the latest start; earlier ones are in
history.jsonl, with their flags, versions and commits.
"""

import datetime
import functools
import math
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf

import bert_tf
from bert_tf.models.config import EncoderConfig
from bert_tf.utils.files import sha256, write_text
from bert_tf.utils.json_files import json_text, read_object
from bert_tf.utils.manifest import check_same
from bert_tf.utils.package_versions import package_versions
from bert_tf.utils.resources import cores

RUN_FILE = "run.json"
_KIND, _REMEDY = "the record of a run, in JSON", "remove it, then pass the run's settings again"

PACKAGES = (
    "tensorflow", "keras", "numpy", "tensorflow-text", "ml-dtypes", "h5py", "protobuf", "pyarrow", "safetensors",
    "scikit-learn", "scipy", "absl-py",
)  # fmt: skip
_MOST_HASHED = 2 * 2**30  # bytes of data to hash, which takes seconds


class RunRecord:
    """The part of a run's record that is known before the start; `write` adds the rest.

    Args:
        task: name of the task.
        settings: {name: value} of all flags of the command.
        given: names of the flags that the user set.
        config: the model's configuration as JSON values.
        tokenizer: the model's.
        files: data files: split -> paths.
        identity: identity of the `RunConfig`: the settings that must be equal when the run resumes.
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
        """Compares the data files with the record of the previous start, if the run resumes after `step`.

        Files may be added or removed, such as files to evaluate; the others must be unchanged, or the steps and metrics
        before and after would not be comparable. A finished run may be evaluated on any file.

        Raises:
            ValueError: a file has changed, or the record is not a JSON object.
            OSError: a data file cannot be read.
        """
        path = os.path.join(output_dir, RUN_FILE)
        if not 0 < step < self._known["identity"].get("num_train_steps", math.inf) or not os.path.isfile(path):
            return
        then, now = _by_file(read_object(path, _KIND, _REMEDY).get("data", {})), _by_file(self._hashes["data"])
        both = [file for file in then if now.get(file, {}).keys() == then[file].keys()]  # hashed in the same way
        remedy = "Restore them, use another `output_dir`, or pass `overwrite_output_dir` to start over."
        check_same(path, {file: then[file] for file in both}, {file: now[file] for file in both}, remedy, "files")

    def write(
        self, output_dir: str | os.PathLike, step: int, origin: str | None, retrained_from: dict[str, Any] | None = None
    ):
        """Writes run.json atomically.

        Args:
            output_dir: directory of the run.
            step: the number of steps done when the run starts.
            origin: the checkpoint that it starts from, or None.
            retrained_from: which rows of another model's head the head started from at step 0, JSON values.

        Raises:
            OSError: it cannot be written, or a data file cannot be read.
        """
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        record = {"time": now, "step": step, "from": origin, **self._known, **self._hashes}
        record |= {"retrained_from": retrained_from} if retrained_from else {}
        record |= {"versions": package_versions(PACKAGES), "git": commit(), "machine": _machine()}
        write_text(os.path.join(output_dir, RUN_FILE), json_text(record, indent=2, default=str) + "\n")

    @functools.cached_property
    def _hashes(self):
        return {"vocabulary": _vocabulary(self._tokenizer), "data": fingerprints(self._files)}


def recorded_settings(directory: str | os.PathLike) -> dict[str, Any]:
    """Returns the settings of the run recorded in a directory, JSON values by name; {} if there is no record.

    Raises:
        ValueError: the file is not a JSON object.
    """
    path = os.path.join(directory, RUN_FILE)
    settings = read_object(path, _KIND, _REMEDY).get("settings") if os.path.isfile(path) else None
    return settings if isinstance(settings, dict) else {}


def commit(folder: str | os.PathLike | None = None) -> dict[str, Any] | None:
    """Returns {"commit", "dirty": whether files differ from it or are new}; None outside a git checkout.

    Args:
        folder: its top directory; None for the checkout that contains this package.
    """
    folder = pathlib.Path(bert_tf.__file__).parents[1] if folder is None else pathlib.Path(folder)
    if not (folder / ".git").exists():
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*words):
        command = ["git", "-C", os.fspath(folder), *words]
        environment["GIT_OPTIONAL_LOCKS"] = "0"
        run = subprocess.run(
            command, env=environment, capture_output=True, encoding="utf-8", errors="replace", check=True, timeout=30
        )
        return run.stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):  # no git, another user's checkout, or one without a commit
        return None


def fingerprints(files: Mapping[str, Iterable[str]], most: int = _MOST_HASHED) -> dict[str, list[dict[str, Any]]]:
    """Returns split -> {"file", "bytes" and "sha256"} of each of its files.

    If all files together exceed `most` bytes, it is "sha256_of_ends" instead, of the first and the last MiB.
    A pipe or another non-file cannot be read twice, so only its name is recorded.

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
    """Returns {path: fingerprint of its content} from the result of `fingerprints`."""
    entries = [entry for several in data.values() for entry in several]
    return {entry["file"]: {name: value for name, value in entry.items() if name != "file"} for entry in entries}


def _vocabulary(tokenizer):
    path = tokenizer.vocab_file
    there = path is not None and os.path.isfile(path)
    return {"tokens": tokenizer.vocab_size, "file": path, "sha256": sha256(path) if there else None}


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
