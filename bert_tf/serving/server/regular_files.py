"""Regular files, as opposed to pipes, sockets or devices.

Opening a named pipe waits for a writer, and a device may have no end: a server that opens untrusted
files in a model's directory would lose a thread or its memory.
"""

import itertools
import os
import stat
from collections.abc import Iterator

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
