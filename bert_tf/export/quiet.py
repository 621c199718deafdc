"""What TensorFlow tells of its own doings, a dozen lines for each export, stays out of the log."""

import contextlib

from absl import logging


@contextlib.contextmanager
def quiet():
    """Lets only warnings and errors through."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
