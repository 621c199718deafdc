"""The learning rate of `learning_rate=auto`: a range test, after Smith 2017 (arXiv 1506.01186, section 3.3).

Starting from the run's initial weights, some steps are run on its first batches with its optimizer, at a learning rate
that grows by a constant factor per step. The model is then discarded: the run is bit-identical to one that is started
with that learning rate.
"""

import contextlib
import dataclasses
import gc
import hashlib
import json
import math
import os
import random
from collections.abc import Callable

import numpy as np
from absl import logging

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.training import history
from bert_tf.training.learning_rate_range import RangeTest
from bert_tf.training.run_config import RunConfig
from bert_tf.training.schedules import ExponentialRise
from bert_tf.training.start import first_state
from bert_tf.training.workers import is_chief, total
from bert_tf.utils.progress import Countdown

NUM_STEPS = 80  # of a range test

LOWEST, HIGHEST = 1e-6, 1e-1
_LOST = 2.0  # the test ends early if the mean of the last losses exceeds the lowest one by this factor
_LAST = 5  # losses


def check_range_test(do_train: bool, steps: int):
    """Raises ValueError if a range test cannot be used for the run."""
    reasons = {
        "requires `do_train`; remove it": not do_train,
        f"requires at least {NUM_STEPS} steps, the length of its range test; this run has {steps}. Pass a number, such "
        "as `learning_rate=5e-5`": steps < NUM_STEPS,
    }
    for reason, applies in reasons.items():
        if applies:
            raise ValueError(f"`learning_rate=auto` {reason}.")


def with_tested_rate(task, run: RunConfig, batches: Callable) -> tuple[RunConfig, dict]:
    """Returns the run with a learning rate, and the range test's data for its history.

    A resumed run keeps the learning rate that it started with, without a new test. Call it in the scope of a
    strategy.

    Args:
        task: see `tasks/base.py`.
        run: a run whose `learning_rate` is None.
        batches: takes a step and returns the batches from it on, as in `Trainer.fit`.

    Raises:
        ValueError: the run to resume started with an explicit learning rate, or as `measure_lr_range`.
    """
    made_for = _digest(run)
    kept = None if run.overwrite else _kept(run, made_for)
    (is_kept,) = total([is_chief() and kept is not None])  # only the chief has the history
    if not is_kept:
        kept = {**measure_lr_range(task, run, batches).to_dict(), "made_for": made_for}
    (rate,) = total([kept["learning_rate"] if is_chief() else 0.0])
    logging.info("`learning_rate=auto`: %.1e%s", rate, ", as at the start of this run" if is_kept else "")
    return dataclasses.replace(run, learning_rate=rate), kept or {}


def measure_lr_range(task, run: RunConfig, batches: Callable) -> RangeTest:
    """Runs the test. It has no side effects on files, weights or random numbers.

    Args:
        task, run, batches: as in `with_tested_rate`.

    Raises:
        ValueError: the loss is NaN or infinite at the lowest rates, or as `Trainer.fit` before its first step.
    """
    with _kept_random_state():
        test = RangeTest(*_steps(task, run, batches))
    gc.collect()  # frees the model's memory for the run
    logging.info(
        "Learning-rate range test: %d steps from %.1e to %.1e; the loss, %.4f at its lowest, kept rising above "
        "%.1e.", len(test.losses), test.rates[0], test.rates[-1], test.smoothed.min(), test.edge,
    )  # fmt: skip
    return test


def _steps(task, run, batches):
    """Returns the learning rates and losses of the steps."""
    anew = dataclasses.replace(run, overwrite=True, average_weights=0.0)
    state, _ = first_state(task, anew, ExponentialRise(LOWEST, HIGHEST, NUM_STEPS))
    rates, losses = [], []
    with Countdown("Range test of the learning rate", "steps", NUM_STEPS) as countdown:
        for _, batch in zip(range(NUM_STEPS), batches(0), strict=False):
            rate, loss = float(state.optimizer.learning_rate), float(state.step(batch)["loss"])
            if not math.isfinite(loss):
                break
            rates.append(rate)
            losses.append(loss)
            countdown.advance()
            if _is_lost(losses):
                break
    return rates, losses


def _is_lost(losses):
    means = np.convolve(losses, np.full(_LAST, 1 / _LAST), "valid") if len(losses) >= _LAST else [0.0]
    return means[-1] > _LOST * min(means)


@contextlib.contextmanager
def _kept_random_state():
    """Restores Python's random state after a `with` block, because Keras seeds new weights from it."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _kept(run, made_for):
    """Returns the range test in the run's history; None if the run has not started or is a different one."""
    lines = history.read_history(os.path.join(run.output_dir, history.HISTORY_FILE))
    tests = [line[history.RANGE_TEST] for line in lines if line.get(history.RANGE_TEST)]
    if CheckpointManager(run.output_dir).steps():  # the checkpoint detects all other changes
        if not tests:
            raise ValueError(
                "A run resumes only with the learning rate that it started with: `learning_rate=auto` was given, but "
                f"the run in {run.output_dir} started with a number. Pass that number, or `overwrite_output_dir`."
            )
        return tests[-1]
    return tests[-1] if tests and tests[-1]["made_for"] == made_for else None


def _digest(run):
    """Returns a short hash of all settings that affect the result, except the learning rate."""
    return hashlib.sha256(json.dumps(run.identity(), sort_keys=True, default=str).encode()).hexdigest()[:16]
