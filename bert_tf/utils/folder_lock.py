"""One process at a time in a folder: others are refused or wait, and one that is killed leaves no lock behind."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from absl import logging

_FILE = "lock"
_NOT_THERE = {errno.ENOLCK, errno.ENOTSUP, errno.EBADF, errno.EINVAL}  # a file system that cannot lock


@contextlib.contextmanager
def alone_in(folder: str | os.PathLike, parameter: str = "output_dir", wait: bool = False) -> Iterator[int]:
    """Holds the lock of a folder for the length of the block; the system frees it however the process ends.

    The folder itself is locked, so that nothing appears in it; to `wait`, a file in it: over a network file system all
    machines see a file's lock, and a folder's only the one that holds it. So those that wait and those that do not are
    not kept apart. Where the file system has no locks, a warning says so.

    Args:
        folder: a directory that exists.
        parameter: what named it, for the message.
        wait: for the end of the other one, in place of an error.

    Yields:
        a descriptor: a process that inherits it holds the lock too, until it ends.

    Raises:
        ValueError: another process holds it.
    """
    folder = os.fspath(folder)
    path, mode = (os.path.join(folder, _FILE), os.O_RDWR | os.O_CREAT) if wait else (folder, os.O_DIRECTORY)
    descriptor = os.open(path, mode, 0o666)
    try:
        _lock(descriptor, folder, parameter, wait)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor, folder, parameter, wait):
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        if not wait:
            raise ValueError(
                f"Another run is already writing to {folder} (`{parameter}`). Wait until it ends, or choose another "
                "directory."
            ) from error
        logging.warning("A process of an earlier command is still working in %s: waiting for it to end.", folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        logging.warning("%s cannot be locked (%s): make sure that no other run writes there.", folder, error.strerror)
