"""Locks a directory for one process at a time; others fail or wait, and a killed process leaves no lock."""

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
    """Holds the lock of a directory during the block; the system releases it however the process ends.

    The directory itself is locked, so that no file appears in it; with `wait`, a file in it is locked: on network file
    systems, all machines see the lock of a file, but only one that of a directory. Waiting and non-waiting processes
    therefore do not exclude each other. If the file system has no locks, a warning is logged.

    Args:
        folder: an existing directory.
        parameter: the parameter that named it, for the message.
        wait: whether to wait for the other process instead of raising an error.

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
        logging.warning("%s cannot be locked (%s): make sure that no other run writes to it.", folder, error.strerror)
