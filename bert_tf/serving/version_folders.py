"""The numbered folders under a model's base path, one for each exported version."""

import os
import re

from absl import logging

_LARGEST = 2**63 - 1


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
