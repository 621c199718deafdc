"""The numbered folders under a model's base path, one for each exported version."""

import os
import re

from absl import logging

SAVED_MODEL = "saved_model.pb"
_LARGEST = 2**63 - 1
_NOT_EXPORTED = ("task.json", "bert_config.json", "config.json", "modules.json")  # of models to train or to convert


def find_versions(base_path: str) -> dict[int, str]:
    """Returns {version: folder} for the children of `base_path` whose names are numbers.

    "00000123" is version 123; of two names for one number the first in alphabetical order counts, with a warning. What
    has another name, or is no directory, is not a version: an export writes aside, under such a name, and renames.

    Raises:
        OSError: `base_path` cannot be listed.
    """
    folders = {}
    for name in sorted(os.listdir(base_path)):
        folder = os.path.join(base_path, name)
        if not re.fullmatch("[0-9]+", name) or int(name) > _LARGEST or not os.path.isdir(folder):
            continue
        if int(name) in folders:
            logging.warning("%s and %s are the same version; the second is ignored.", folders[int(name)], folder)
            continue
        folders[int(name)] = folder
    return folders


def explain_no_versions(base_path: str) -> str:
    """Returns what a folder without versions is and how to serve it, to end a sentence that names it; "" for neither.

    It may be a version itself, a folder of models such as a program's output_dir, or a model that was not exported.
    """
    path = os.path.abspath(base_path)
    if os.path.isfile(os.path.join(path, SAVED_MODEL)):
        above, name = os.path.split(path)
        remedy = f"name the folder above, {above}" if name.isdecimal() else f"move what it holds to {path}/1"
        return f"which is a version itself, with a {SAVED_MODEL}; {remedy}"
    names = sorted(os.listdir(path)) if os.access(path, os.R_OK) else []
    models = [os.path.join(path, name) for name in names if _has_version(os.path.join(path, name))]
    if models:
        return f"in which models have a folder each; name one of them, {' or '.join(models[:3])}"
    if any(name in _NOT_EXPORTED for name in names):
        return "which is a model that was not exported; `bert-tf export` makes of it what can be served"
    return ""


def fingerprint(folder: str) -> frozenset:
    """Returns what changes whenever a file under `folder` appears, vanishes, grows, or is written or replaced."""
    prints = set()
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                stat = os.stat(path)
            except FileNotFoundError:  # deleted since the listing, or a dangling link
                prints.add((path,))
                continue
            prints.add((path, stat.st_size, stat.st_mtime_ns, stat.st_ino))
    return frozenset(prints)


def _has_version(folder):
    if not os.path.isdir(folder) or not os.access(folder, os.R_OK):
        return False
    return any(os.path.isfile(os.path.join(version, SAVED_MODEL)) for version in find_versions(folder).values())
