"""What a run changes in its process, for a block: precision, random states, messages, Ctrl-C."""

import contextlib
import random
import signal
import sys
from collections.abc import Callable, Iterator

import numpy as np
from absl import logging

from bert_tf.export.precision import dtype_policy
from bert_tf.training.interruption import Stopped
from bert_tf.utils import progress


@contextlib.contextmanager
def run_in_process(verbose: bool, wording: Callable[[str], str] = str) -> Iterator[None]:
    """Context of a run inside a program of the user: what the run changes is as before afterwards.

    Args:
        verbose: log the progress of the run to standard error, rather than warnings alone.
        wording: returns a message of the log as it is to be written.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the run, after it saved a checkpoint.
    """
    with unchanged_process(), _messages(verbose, wording):
        yield


@contextlib.contextmanager
def unchanged_process() -> Iterator[None]:
    """Context that restores the precision and the random states of the process after a run.

    Raises:
        KeyboardInterrupt: as `run_in_process`.
    """
    import keras

    python, numpy = random.getstate(), np.random.get_state()
    try:
        with dtype_policy(keras.config.dtype_policy().name):
            yield
    except Stopped as stopped:
        if stopped.signal != signal.SIGINT:
            raise
        raise KeyboardInterrupt from stopped
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextlib.contextmanager
def _messages(verbose, wording):
    """Shows messages, and progress bars where they can be drawn."""
    handler, verbosity = logging.get_absl_handler(), logging.get_verbosity()
    formatter = handler.python_handler.formatter
    logging.use_absl_handler()
    handler.setFormatter(progress.LogFormatter(wording))
    if verbose:
        logging.set_verbosity(logging.INFO)
        progress.use_bars(type(sys.stderr).__module__.startswith("ipykernel"))
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        handler.setFormatter(formatter)
