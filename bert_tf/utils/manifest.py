"""Manifests of interruptible work: JSON files of the settings that determine the result.

A manifest is written first. The same command then resumes; one that would give another result is rejected.
"""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.utils.files import content_of, files_below, write_text
from bert_tf.utils.json_files import read_object

_LONG = 600  # characters of a value in a message: a command line fits


def read_manifest(path: str | os.PathLike, remedy: str = "choose another `output_dir`") -> dict[str, Any]:
    """Returns a manifest's JSON values by name, or {} if there is no file; raises ValueError if it is not an object."""
    return read_object(path, "a record of the run's settings", remedy) if os.path.exists(path) else {}


def check_manifest(path: str | os.PathLike, now: Mapping[str, Any], remedy: str):
    """Writes a manifest, or compares an existing one with `check_same`. New names are added to it."""
    then = read_manifest(path)
    check_same(path, then, {name: now.get(name, value) for name, value in then.items()}, remedy)
    if now.keys() - then.keys():
        write_text(path, json.dumps({**then, **now}, indent=2) + "\n")


def check_same(
    path: str | os.PathLike, then: Mapping[str, Any], now: Mapping[str, Any], remedy: str, what: str = "settings"
):
    """Raises ValueError, listing all differences, if work would resume with other values than it began with.

    Args:
        path: path of the manifest.
        then, now: values by name, JSON values or values that can be converted to JSON.
        remedy: advice for the message; `what`: a noun for the values.
    """
    if differences := list_differences(then, json.loads(json.dumps(now))):
        raise ValueError(
            f"A run can only resume with the {what} that it began with ({os.fspath(path)}). Changed: "
            f"{'; '.join(differences)}. {remedy}"
        )


def list_differences(then: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[str]:
    """Returns "seed: 0 before, 1 now" for each value that differs; missing ones count as None.

    Args:
        then, now: JSON values by name. Objects are compared name by name: "input_file rows: 3 before, 4 now".
        within: prefix of each name.
    """
    differences = []
    for name in sorted({**then, **now}):
        before, after = then.get(name), now.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            differences += list_differences(before, after, f"{within}{name} ")
        elif before != after:
            differences.append(f"{within}{name}: {before!r:.{_LONG}} before, {after!r:.{_LONG}} now")
    return differences


def contents(paths: Iterable[str | os.PathLike]) -> dict[str, str]:
    """Returns {path: description of its content} for files, and for all files in directories."""
    found = {path for given in paths for path in ([given] if os.path.isfile(given) else files_below(given))}
    return {os.path.realpath(path): content_of(path) for path in sorted(map(os.fspath, found))}
