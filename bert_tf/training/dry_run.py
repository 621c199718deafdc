"""Dry run: estimates memory from the largest step and time from a few real steps, without writing files."""

import dataclasses
import itertools
import time

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.training.batching import BatchSettings
from bert_tf.training.loss_spike_guard import FiniteSteps
from bert_tf.training.memory import StepShape, estimate
from bert_tf.training.memory_budget import available_memory, describe_memory
from bert_tf.training.run_config import RunConfig
from bert_tf.training.schedules import run_schedule
from bert_tf.training.start import first_state
from bert_tf.utils.progress import clock

_STEPS, _SECONDS = 20, 20.0  # steps to time, within this many seconds
_WARM_UP = 2  # untimed steps, in which the graph is built and memory is allocated


@dataclasses.dataclass(frozen=True)
class DryRun:
    """Estimated memory and time of a run.

    Attributes:
        step: the step that needs the most memory.
        start: the step that the run resumes from; 0 for a new run.
        num_train_steps: number of steps of the run.
        warm_up: seconds of the first, slower steps; if None, no step was run, because it would not fit.
        timed: number of timed steps.
        expected: estimated seconds for all remaining steps.
    """

    step: StepShape
    start: int
    num_train_steps: int
    warm_up: float | None = None
    timed: int = 0
    expected: float = 0.0

    def lines(self, available: int) -> str:
        """Returns the memory and time report that `--dry_run` prints; `available` is in bytes per device."""
        left = self.num_train_steps - self.start
        rows = [("steps", f"{left:,}" + (f", after {self.start:,} completed" if self.start else ""))]
        if self.timed:
            rows += [
                ("time per step", f"{self.expected / left:.3g} s on average, over {self.timed} timed steps"),
                ("  first steps", f"{self.warm_up:.3g} s for {_WARM_UP}, including graph construction"),
                ("training time", f"{clock(self.expected)}, excluding evaluation and saving"),
            ]
        elif left:
            rows.append(("training time", "not measured, because a step would not fit" if self.warm_up is None
                         else "too few steps to estimate"))  # fmt: skip
        return "\n".join([describe_memory(self.step, available), *(f"{name:<26}{value}" for name, value in rows)])


def try_training(
    task, run: RunConfig, examples, batching: BatchSettings, precision: str, gradient_checkpointing: bool
) -> DryRun:
    """Runs the first steps of a run, if they fit in memory, and discards the result.

    Call it in the scope of a strategy.

    Args:
        task: see `tasks/base.py`.
        run: the run.
        examples: the training examples, tokenized.
        batching: how they are batched.
        precision, gradient_checkpointing: as in `StepShape`.

    Raises:
        ValueError: as `Trainer.fit`.
    """
    state, start = first_state(task, run)
    rows, widths = batching.sizes(examples, run)
    largest, count = (rows * widths).argmax(), sum(v.shape.num_elements() for v in state.model.trainable_variables)
    step = StepShape(
        task.config,
        state.model.count_params(),
        run.train_batch_size,
        int(widths[largest]),
        0,
        tf.distribute.get_strategy().num_replicas_in_sync,
        run.step.accumulation,
        precision,
        gradient_checkpointing,
        trainable=count,
        rows_per_example=-(-int(rows[largest]) // run.train_batch_size),
    )
    if start >= run.num_train_steps or estimate(step).peak > available_memory():
        return DryRun(step, start, run.num_train_steps)
    finite = FiniteSteps(run, state.model, run_schedule(run))
    warm_up, seconds = _time(state.step, enumerate(batching.training(examples, run)(start), start + 1), finite)
    step = dataclasses.replace(step, accumulation=state.step.config.accumulation)  # larger if memory ran out
    tokens = (rows * widths)[start:]
    made = tokens[_WARM_UP : _WARM_UP + len(seconds)]
    # The median, so that steps that compile a program for another width do not count.
    expected = np.median(np.array(seconds) / made) * tokens.sum() if seconds else 0.0
    return DryRun(step, start, run.num_train_steps, warm_up, len(seconds), float(expected))


def _time(step, numbered, finite):
    """Returns the total seconds of the first steps, and the seconds of each later step.

    Args:
        step: a `TrainStep`.
        numbered: pairs (number of a step, its batch).
        finite: a `FiniteSteps`, which ends the trial where the run itself would end.
    """
    logging.info("Timing %d steps, or as many as fit in %.0f seconds.", _STEPS, _SECONDS)
    numbered, seconds = iter(numbered), []

    def make(number, batch):
        begin = time.perf_counter()
        finite.note(number, step(batch))
        finite.check()  # waits for the device
        return time.perf_counter() - begin

    warm_up = sum(itertools.starmap(make, itertools.islice(numbered, _WARM_UP)))
    for number, batch in itertools.islice(numbered, _STEPS):
        seconds.append(make(number, batch))
        if sum(seconds) > _SECONDS:
            break
    return warm_up, seconds
