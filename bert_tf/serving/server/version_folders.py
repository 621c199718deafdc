"""The numbered folders under a model's base path, one for each exported version."""

import errno
import functools
import itertools
import os
import re
import stat

from absl import logging

SAVED_MODEL = "saved_model.pb"
_LARGEST = 2**63 - 1
_MOST = 100_000  # names in a base path
_NOT_EXPORTED = ("task.json", "bert_config.json", "config.json", "modules.json")  # of models to train or to convert


def find_versions(base_path: str) -> dict[int, str]:
    """Returns {version: folder} for the children of `base_path` whose names are numbers.

    "00000123" is version 123; of two names for one number the first in alphabetical order counts, with a warning. What
    has another name, or is no directory, is not a version: an export writes aside, under such a name, and renames. A
    name of which the file system does not say what it is, such as a link to itself, is a version: one that cannot be
    loaded, of which the reason can be told.

    Raises:
        OSError: `base_path` cannot be listed, or has far too many names.
        ValueError: it is no path.
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
    """Returns what a folder without versions is and how to serve it, to end a sentence that names it; "" for neither.

    It may be a version itself, a folder of models such as a program's output_dir, or a model that was not exported.
    """
    path = os.path.abspath(base_path)
    if os.path.isfile(os.path.join(path, SAVED_MODEL)):
        above, name = os.path.split(path)
        remedy = f"name the folder above, {above}" if name.isdecimal() else f"move what it holds to {path}/1"
        return f"which is a version itself, with a {SAVED_MODEL}; {remedy}"
    names = sorted(_names(path)) if os.access(path, os.R_OK) else []
    models = [os.path.join(path, name) for name in names if _has_version(os.path.join(path, name))]
    if models:
        return f"in which models have a folder each; name one of them, {' or '.join(models[:3])}"
    if any(name in _NOT_EXPORTED for name in names):
        return "which is a model that was not exported; `bert-tf export` makes of it what can be served"
    return ""


def _names(folder):
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, _MOST + 1)]
    if len(names) > _MOST:
        raise OSError(errno.EFBIG, f"More than {_MOST} names in a folder of versions", folder)
    return names


def _may_be_folder(path):
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:  # deleted since the listing, or a link to nothing
        return False
    except OSError:
        return True


@functools.lru_cache(maxsize=1024)
def _warn_of_twins(first, second):  # once for each pair, though a server looks every second
    logging.warning("%s and %s are the same version; the second is ignored.", first, second)


def _has_version(folder):
    if not os.path.isdir(folder) or not os.access(folder, os.R_OK):
        return False
    return any(os.path.isfile(os.path.join(version, SAVED_MODEL)) for version in find_versions(folder).values())
