"""Version directories: the numbered directories in a model's base path, one per exported version."""

import errno
import functools
import itertools
import os
import re
import stat
from collections.abc import Iterator

from absl import logging

# === Regular files ===
# Regular files, as opposed to pipes, sockets or devices.
#
# Opening a named pipe waits for a writer, and a device may have no end: a server that opens untrusted
# files in a model's directory would lose a thread or its memory.


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
GRAPHS = frozenset({"saved_model.pb", "saved_model.pbtxt", "saved_model.cpb"})
_READ = ("variables", "assets", "assets.extra")  # directories of a SavedModel in which files are read
_MOST_FILES = 10_000  # files of a SavedModel that are checked


def check_regular(path: str | os.PathLike):
    """Raises ValueError if the file `path`, or its link target, is not a regular file, and OSError if it is missing."""
    _check(path, os.stat(path))


def check_stored_files(folder: str):
    """Checks that a SavedModel's directory has only regular files.

    Raises:
        ValueError: it has other files, or far too many.
        OSError: the type of a file cannot be determined. Missing files are reported by
            the loader.
    """
    read = {os.curdir, *_READ, *GRAPHS}
    for number, (path, found) in enumerate(files_under(folder)):
        if number == _MOST_FILES:
            raise ValueError(f"{folder} has more than {_MOST_FILES} files, far more than any SavedModel")
        if not isinstance(found, OSError):
            _check(path, found)
        elif not isinstance(found, FileNotFoundError) and os.path.relpath(path, folder).split(os.sep)[0] in read:
            raise found


def folder_fingerprint(folder: str) -> frozenset:
    """Returns a fingerprint that changes when a file under `folder` is added, removed, written or replaced.

    If there are more files than in any SavedModel, only some count.
    """
    return frozenset(
        (path, found.errno) if isinstance(found, OSError) else (path, found.st_size, found.st_mtime_ns, found.st_ino)
        for path, found in itertools.islice(files_under(folder), _MOST_FILES)
    )


def files_under(folder: str) -> Iterator[tuple[str, os.stat_result | OSError]]:
    """Yields (path, its stat or the error) of the files in `folder`, and in its directories if it has a graph.

    Linked directories are skipped, except those that a SavedModel is read from.
    """
    failed: list[OSError] = []
    linked = [path for name in _READ if os.path.islink(path := os.path.join(folder, name))]
    for root in [folder, *linked]:
        for parent, folders, names in os.walk(root, onerror=failed.append):
            yield from ((path, _stat(path)) for path in (os.path.join(parent, name) for name in names))
            if parent == folder and not GRAPHS.intersection(names):
                folders.clear()  # it may be anything, such as a process under /proc
    yield from ((error.filename, error) for error in failed)


def _stat(path):
    try:
        return os.stat(path)
    except OSError as error:  # deleted since the listing, a broken or circular link, or not accessible
        return error


def _check(path, found):
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise ValueError(f"{os.fspath(path)} is {kind}, and only regular files are read")


# === Version folders ===


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
