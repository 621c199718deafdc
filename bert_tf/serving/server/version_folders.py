"""Version directories: the numbered directories in a model's base path, one per exported version."""

import errno
import functools
import itertools
import os
import re
import stat

from absl import logging

SAVED_MODEL = "saved_model.pb"
_LARGEST = 2**63 - 1
_MOST_NAMES = 100_000  # names in a base path
_NOT_EXPORTED = ("task.json", "bert_config.json", "config.json", "modules.json")  # of models to train or to convert


def find_versions(base_path: str) -> dict[int, str]:
    """Returns {version: folder} for the children of `base_path` whose names are numbers.

    "00000123" is version 123; of two names for one number the first in alphabetical order counts, with a warning. What
    has another name, or is not a directory, is not a version: an export first uses such a name, and then renames. A
    name whose type cannot be determined, such as a circular link, is a version that cannot be
    loaded, with a reason.

    Raises:
        OSError: `base_path` cannot be listed, or has far too many names.
        ValueError: it is not a path.
    """
    folders = {}
    for name in sorted(_names(base_path)):
        folder = os.path.join(base_path, name)
        if not re.fullmatch("[0-9]+", name) or int(name) > _LARGEST or not _may_be_folder(folder):
            continue
        if int(name) in folders:
            _warn_of_twins(folders[int(name)], folder)
            continue
        folders[int(name)] = folder
    return folders


def explain_no_versions(base_path: str) -> str:
    """Describes a directory without versions and how to serve it, for the end of a message; "" if unknown.

    It may be a version itself, a directory of models such as an output_dir, or a model that was not exported.
    """
    path = os.path.abspath(base_path)
    if os.path.isfile(os.path.join(path, SAVED_MODEL)):
        above, name = os.path.split(path)
        remedy = f"use its parent directory, {above}" if name.isdecimal() else f"move its contents to {path}/1"
        return f"which is a version itself, with a {SAVED_MODEL}; {remedy}"
    names = sorted(_names(path)) if os.access(path, os.R_OK) else []
    models = [os.path.join(path, name) for name in names if _has_version(os.path.join(path, name))]
    if models:
        return f"which has one directory per model; use one of them, {' or '.join(models[:3])}"
    if any(name in _NOT_EXPORTED for name in names):
        return "which is a model that was not exported; export it with `bert-tf export`"
    return ""


def _names(folder):
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, _MOST_NAMES + 1)]
    if len(names) > _MOST_NAMES:
        raise OSError(errno.EFBIG, f"More than {_MOST_NAMES} names in a directory of versions", folder)
    return names


def _may_be_folder(path):
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:  # deleted since the listing, or a broken link
        return False
    except OSError:
        return True


@functools.lru_cache(maxsize=1024)
def _warn_of_twins(first, second):  # once per pair, although a server checks every second
    logging.warning("%s and %s are the same version; the second is ignored.", first, second)


def _has_version(folder):
    if not os.path.isdir(folder) or not os.access(folder, os.R_OK):
        return False
    return any(os.path.isfile(os.path.join(version, SAVED_MODEL)) for version in find_versions(folder).values())
