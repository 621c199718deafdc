"""Files that can be read from their beginning to their end: no pipe, socket or device in a file's place.

To open a named pipe waits for somebody who writes to it, and a device may have no end: a server that opens what a
stranger put into a model's folder would lose a thread, or its memory.
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
_GRAPH = frozenset({"saved_model.pb", "saved_model.pbtxt", "saved_model.cpb"})
_READ = ("variables", "assets", "assets.extra")  # folders of a SavedModel in which files are read
_MOST = 10_000  # files of a SavedModel that are looked at


def check_regular(path: str | os.PathLike):
    """Raises ValueError where the file `path`, or what it links to, is none that is stored, OSError where none is."""
    _check(path, os.stat(path))


def check_files(folder: str):
    """Checks that a SavedModel's folder has stored files alone.

    Raises:
        ValueError: it has something else, or far too many of them.
        OSError: the file system does not say what one is that would be read. One that is not there is the loader's to
            tell.
    """
    read = {os.curdir, *_READ, *_GRAPH}
    for number, (path, found) in enumerate(files_under(folder)):
        if number == _MOST:
            raise ValueError(f"{folder} has more than {_MOST} files, which no SavedModel has")
        if not isinstance(found, OSError):
            _check(path, found)
        elif not isinstance(found, FileNotFoundError) and os.path.relpath(path, folder).split(os.sep)[0] in read:
            raise found


def fingerprint(folder: str) -> frozenset:
    """Returns what changes whenever a file under `folder` appears, vanishes, grows, or is written or replaced.

    Of more files than a SavedModel has, some count.
    """
    return frozenset(
        (path, found.errno) if isinstance(found, OSError) else (path, found.st_size, found.st_mtime_ns, found.st_ino)
        for path, found in itertools.islice(files_under(folder), _MOST)
    )


def files_under(folder: str) -> Iterator[tuple[str, os.stat_result | OSError]]:
    """Yields (path, its stat or why there is none) of the files in `folder`, and in its folders if it has a graph.

    Folders that are links are left out, but for those that a SavedModel is read from.
    """
    failed: list[OSError] = []
    linked = [path for name in _READ if os.path.islink(path := os.path.join(folder, name))]
    for root in [folder, *linked]:
        for parent, folders, names in os.walk(root, onerror=failed.append):
            yield from ((path, _stat(path)) for path in (os.path.join(parent, name) for name in names))
            if parent == folder and not _GRAPH.intersection(names):
                folders.clear()  # it may be anything, such as a process under /proc
    yield from ((error.filename, error) for error in failed)


def _stat(path):
    try:
        return os.stat(path)
    except OSError as error:  # deleted since the listing, a link to nothing or to itself, or not ours to see
        return error


def _check(path, found):
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise ValueError(f"{os.fspath(path)} is {kind}, and only stored files are read")
