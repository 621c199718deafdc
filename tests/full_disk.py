"""A disk without space, for the code of this process: no file can grow beyond a size."""

import contextlib
import resource
import sys


@contextlib.contextmanager
def full_disk(size: int):
    """While it lasts, no file can grow beyond `size` bytes. Modules that are imported then leave no bytecode: Python
    takes the part that was written for the whole of it, and every later import of the module fails."""
    before, writes = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes
