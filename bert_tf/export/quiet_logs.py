"""Suppression of the dozen lines that TensorFlow logs per export."""

import contextlib

from absl import logging


@contextlib.contextmanager
def quiet():
    """Suppresses log messages below warnings."""
    logger = logging.get_absl_logger()
    before = logger.level  # unlike the verbosity, it tells a level that was never set from warnings
    logger.setLevel("WARNING")
    try:
        yield
    finally:
        logger.setLevel(before)
