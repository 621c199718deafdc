"""The range test by which `learning_rate=auto` finds a rate: Smith 2017 (arXiv 1506.01186, section 3.3).

From the weights that the run starts from, some steps are made on the run's own first batches, with the run's own
optimizer, at a rate that rises by the same factor from step to step. This is done on a model of its own, which is then
thrown away: the run that follows is, to the bit, the one that is given the same rate by hand.
"""

import contextlib
import dataclasses
import functools
import gc
import hashlib
import json
import math
import os
import random
from collections.abc import Callable

import numpy as np
from absl import logging

from bert_tf.checkpoints.store import CheckpointManager
from bert_tf.training import cluster, history
from bert_tf.training.history import RangeTest
from bert_tf.training.learning_rate import ExponentialRise
from bert_tf.training.loop import RunConfig, built_optimizer
from bert_tf.training.state import TrainingState, begin, check_model
from bert_tf.training.step import TrainStep, first_step
from bert_tf.utils.progress import Countdown

NUM_STEPS = 80
LOWEST, HIGHEST = 1e-6, 1e-1
_LOST = 2.0  # the test ends early where the mean of the last losses is so many times the least one
_LAST = 5  # losses


def with_tested_rate(task, run: RunConfig, batches: Callable) -> tuple[RunConfig, dict]:
    """Returns the run with a learning rate, and what its history shall keep of the test.

    A run that goes on has the rate that it began with, whatever a test would say now. To be called in the scope of a
    strategy.

    Args:
        task: see `tasks/base.py`.
        run: one whose `learning_rate` is None.
        batches: takes a step and returns the batches from there on, as `loop.fit` has it.

    Raises:
        ValueError: the run that is to go on began with a rate that was given, or as `measure_lr_range`.
    """
    made_for = _digest(run)
    kept = None if run.anew else _kept(run, made_for)
    (is_kept,) = cluster.total([cluster.is_chief() and kept is not None])  # the history is the chief's
    if not is_kept:
        kept = {**measure_lr_range(task, run, batches).to_dict(), "made_for": made_for}
    (rate,) = cluster.total([kept["learning_rate"] if cluster.is_chief() else 0.0])
    logging.info("`learning_rate=auto`: %.1e%s", rate, ", as the run began" if is_kept else "")
    return dataclasses.replace(run, learning_rate=rate), kept or {}


def measure_lr_range(task, run: RunConfig, batches: Callable) -> RangeTest:
    """Makes the test. Nothing of it stays: no file, no weight, no random number drawn.

    Args:
        task, run, batches: as of `with_tested_rate`.

    Raises:
        ValueError: the loss is no number at the lowest rates, or as `loop.fit` before its first step.
    """
    check_model(CheckpointManager(run.output_dir), run.init_checkpoint, task, True, run.reinit_layers)
    with _kept_random_state():
        test = RangeTest(*_steps(task, run, batches))
    gc.collect()  # the model's memory is wanted for the run's
    logging.info(
        "Range test of the learning rate: %d steps from %.1e to %.1e; the loss, least at %.4f, rose for good beyond "
        "%.1e.", len(test.losses), test.rates[0], test.rates[-1], test.smoothed.min(), test.edge,
    )  # fmt: skip
    return test


def _steps(task, run, batches):
    """Returns the rates and losses of the steps that were made."""
    model = task.build_model()
    optimizer = built_optimizer(run, model, ExponentialRise(LOWEST, HIGHEST, NUM_STEPS))
    step = TrainStep(task, model, optimizer, run.step)
    state = TrainingState(model, optimizer, step, {})
    begin(state, CheckpointManager(run.output_dir), run.init_checkpoint, task, True, run.reinit_layers)
    rates, losses, make = [], [], functools.partial(first_step, step)
    with Countdown("Range test of the learning rate", "steps", NUM_STEPS) as countdown:
        for _, batch in zip(range(NUM_STEPS), batches(0), strict=False):
            rate, loss = float(optimizer.learning_rate), float(make(batch)["loss"])
            if not math.isfinite(loss):
                break
            rates.append(rate)
            losses.append(loss)
            make = step
            countdown.advance()
            if _is_lost(losses):
                break
    return rates, losses


def _is_lost(losses):
    means = np.convolve(losses, np.full(_LAST, 1 / _LAST), "valid") if len(losses) >= _LAST else [0.0]
    return means[-1] > _LOST * min(means)


@contextlib.contextmanager
def _kept_random_state():
    """Lets what is drawn in a `with` block be drawn again behind it: Keras seeds new weights by Python's numbers."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _kept(run, made_for):
    """Returns what the run's history keeps of its test; None: it has not begun, or was another run."""
    lines = history.read_history(os.path.join(run.output_dir, history.HISTORY_FILE))
    tests = [line[history.RANGE_TEST] for line in lines if line.get(history.RANGE_TEST)]
    if CheckpointManager(run.output_dir).steps():  # what else has changed since, the checkpoint says
        if not tests:
            raise ValueError(
                "A run continues only with the learning rate that it began with. Received `learning_rate=auto` for "
                f"one in {run.output_dir} that began with a given rate; give that one, or `overwrite_output_dir`."
            )
        return tests[-1]
    return tests[-1] if tests and tests[-1]["made_for"] == made_for else None


def _digest(run):
    """Returns a short hash of all that decides the result but the rate."""
    return hashlib.sha256(json.dumps(run.identity(), sort_keys=True, default=str).encode()).hexdigest()[:16]
