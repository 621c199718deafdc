"""One run at a time in a folder: a second one is refused, and a killed one leaves no lock behind."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from absl import logging

_NOT_THERE = {errno.ENOLCK, errno.ENOTSUP, errno.EBADF, errno.EINVAL}  # a file system that cannot lock


@contextlib.contextmanager
def alone_in(folder: str | os.PathLike, parameter: str = "output_dir") -> Iterator[int]:
    """Holds the lock of a folder for the length of the block; the system frees it however the process ends.

    The folder itself is locked, so that nothing appears in it. Where the file system has no locks, a warning says so.

    Args:
        folder: a directory that exists.
        parameter: what named it, for the message.

    Yields:
        the descriptor of the folder: a process that inherits it holds the lock too, until it ends.

    Raises:
        ValueError: another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise ValueError(
            f"`{parameter}` must be written by one run at a time. Received {os.fspath(folder)}, in which another run "
            "is at work; wait for its end, or name another."
        ) from error
    except OSError as error:
        if error.errno not in _NOT_THERE:
            os.close(descriptor)
            raise
        logging.warning("%s cannot be locked (%s): see to it that no other run writes there.", folder, error.strerror)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
