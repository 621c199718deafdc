"""Handles steps with a NaN or spiking loss: ends the run, or skips them and rolls back to a checkpoint.

`first_broken` says in the graph of a step whether its numbers are finite. Without a `Rollback` the first step whose
numbers are not ends the run (`FiniteSteps`). With one, a `Guard` skips such steps, and those whose loss leaps.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.training.distribution import by_chief, check_equal_on_workers

LOSS_OR_NORM = -2  # what `first_broken` gives where no single gradient is to blame
_FINE = -1


def first_broken(loss, squares, norm, can_mend):
    """Returns int32 []: what of a step's numbers is not finite.

    -1: all are, or a smaller loss scale may yet mend it. -2: the loss is not, or only the norm of all gradients
    together. Else the index of the first variable whose gradient is not, though the loss is.

    Args:
        loss: float32 [], of all replicas.
        squares: float32 [v], half the sum of squares of each variable's gradient.
        norm: float32 [], of all gradients.
        can_mend: bool [], whether gradients that are not finite may be so because the loss scale is large.
    """
    loss_is_finite, broken = tf.math.is_finite(loss), ~tf.math.is_finite(squares)
    index = tf.where(tf.reduce_any(broken), tf.argmax(tf.cast(broken, tf.int32), output_type=tf.int32), LOSS_OR_NORM)
    fine = loss_is_finite & (tf.math.is_finite(norm) | can_mend)
    return tf.where(fine, _FINE, tf.where(loss_is_finite, index, LOSS_OR_NORM))


class FiniteSteps:
    """Ends a run at the first step whose loss or gradients are not finite.

    Reading a step's results waits for the device, so they are read only at the first step, every `run.report_steps`,
    and when `check` is called, as it must be before a checkpoint is written.

    Args:
        run: a `RunConfig`.
        model: that is trained.
        schedule: step, from 0 -> learning rate.
    """

    def __init__(self, run, model, schedule):
        self._run, self._model, self._schedule = run, model, schedule
        self._unread, self._is_first = [], True

    def note(self, step: int, results: dict):
        """Keeps what `TrainStep` returned for `step`, from 1, and reads it if it is time; raises as `check`."""
        self._unread.append((step, results))
        if self._is_first or step % self._run.report_steps == 0:
            self.check()
        self._is_first = False

    def check(self):
        """Reads the steps that were noted since the last call.

        Raises:
            ValueError: the numbers of one were not finite.
        """
        steps, self._unread = self._unread, []
        for step, results in steps:
            if int(results["broken"]) != _FINE:
                raise ValueError(self._message(step, results))

    def _message(self, step, results):
        precision, rate = self._model.dtype_policy.name, float(self._schedule(step - 1))
        return (
            "Training must have a finite loss and finite gradients. Received "
            f"{_what_broke(results, self._model.trainable_variables)} in step {step} of {self._run.num_train_steps}, "
            f"with a learning rate of {rate:.3g} and precision {precision}{_cause_and_remedy(step, precision)}"
        )


def _what_broke(results, variables):
    loss, index = float(results["loss"]), int(results["broken"])
    if index >= 0:
        return f"a loss of {loss:.4g} whose gradient for {variables[index].path} is not finite"
    together = " whose gradients are together too large for float32" if np.isfinite(loss) else ""
    return f"a loss of {loss:.4g}{together}"


def _cause_and_remedy(step, precision):
    """Returns the end of a sentence on a step that broke: whether the rate can be the cause, and what to do."""
    narrow = "pass `precision=mixed_bfloat16` or `precision=float32`, whose numbers reach 1e38 where float16's end at "
    remedies = [f"{narrow}65,504"] if "float16" in precision and "bfloat16" not in precision else []
    if step == 1:
        remedies.append("look for labels that are too large a number to be squared, and at the initial weights")
        return f", before any weight had moved, so that the learning rate is not the cause; {', or '.join(remedies)}."
    remedies.append("lower `learning_rate`, let it rise over more steps, or look at the data")
    return f"; {', or '.join(remedies)}."


@dataclasses.dataclass(frozen=True)
class GuardConfig:
    """Which losses are bad: those that are not finite, whose gradients are not, and those that leap.

    A loss leaps if it is above both `factor` x mean and mean + `margin`, where mean is that of the losses before: the
    plain mean of the first `memory` and then exponential. The factor alone would forbid a loss near 0 to move, and the
    margin alone a large one to be noisy. The defaults are for pretraining, whose loss falls from about 10 to about 2
    and differs by some tenths from batch to batch.

    Attributes:
        factor, margin: as above; `math.inf` for either: only losses and gradients that are not finite are bad.
        memory: steps.
        warmup: steps that must have been made before a loss can leap.
    """

    factor: float = 2.0
    margin: float = 1.0
    memory: int = 100
    warmup: int = 100

    def __post_init__(self):
        if not (self.factor >= 1 and self.margin >= 0 and self.memory >= 1 and self.warmup >= 1):
            raise ValueError(
                "A guard needs factor >= 1, margin >= 0, memory >= 1 and warmup >= 1. "
                f"Got {dataclasses.asdict(self)}."
            )


class Guard:
    """Decides within the graph of a step, before anything moves, whether the step is made.

    Its inputs are summed over the replicas, so that all replicas decide alike. To be made in the strategy's scope.

    Attributes:
        mean_loss: float32, the mean that a leap is measured from; steps that are skipped do not count.
        steps_seen: int64, how many losses it is of.
        skipped_steps: int64, steps skipped because they were bad, in the whole run.
        skipped_in_a_row: int64, how many of them were the last ones.
        rollbacks: int64, how often the run went back. It enters the seeds of the data's order and of dropout.
        returned_to: int64, the step to which it went back last, or -1.
    """

    def __init__(self, config: GuardConfig):
        self.config = config
        self.mean_loss = tf.Variable(0.0, trainable=False, name="mean_loss")
        for name in ("steps_seen", "skipped_steps", "skipped_in_a_row", "rollbacks", "returned_to"):
            start = -1 if name == "returned_to" else 0
            setattr(self, name, tf.Variable(start, dtype=tf.int64, trainable=False, name=name))

    def variables(self):
        """Returns {name: variable}: what a resumed run needs."""
        return {f"guard/{name}": value for name, value in vars(self).items() if name != "config"}

    def is_bad(self, loss, finite):
        """Returns bool []: shall the step be skipped?

        Args:
            loss: float32 [], of all replicas.
            finite: bool [], whether the loss and the gradients are; see `first_broken`.
        """
        mean, config = self.mean_loss, self.config
        bound = tf.maximum(mean * config.factor, mean + config.margin)
        leaps = (self.steps_seen >= config.warmup) & (loss > bound)
        return ~finite | ~tf.math.is_finite(loss) | leaps

    def note(self, loss, bad, moved):
        """Counts a step that was `bad`, or lets the loss of one that `moved` the variables into the mean."""
        seen = self.steps_seen + tf.cast(moved, tf.int64)
        share = 1 / tf.cast(tf.clip_by_value(seen, 1, self.config.memory), tf.float32)
        self.mean_loss.assign(tf.where(moved, self.mean_loss + share * (loss - self.mean_loss), self.mean_loss))
        self.steps_seen.assign(seen)
        self.skipped_steps.assign_add(tf.cast(bad, tf.int64))
        self.skipped_in_a_row.assign(
            tf.where(moved, tf.zeros_like(seen), self.skipped_in_a_row + tf.cast(bad, tf.int64))
        )

    def dropout_seed(self, seed: int):
        """Returns int32 []: `seed`, or after a rollback another one, for the same steps shall not go the same way."""
        return tf.constant(seed, tf.int32) + tf.cast(self.rollbacks, tf.int32) * 1_000_003


def order_seed(seed: int, rollbacks: int) -> int:
    """Returns the seed of the data's order in a run that went back `rollbacks` times: 0: the seed itself."""
    return int(np.random.SeedSequence([seed, rollbacks]).generate_state(1)[0]) if rollbacks else seed


@dataclasses.dataclass(frozen=True)
class Rollback:
    """When a run goes back to a checkpoint, and how.

    After `after` skipped steps in a row the run goes on from the newest whole checkpoint before them, or if it has gone
    back to that one already, from the one before that. From there the data come in another order and dropout has other
    masks, both functions of (seed, rollbacks). Later checkpoints are deleted and the one that the run returned to is
    written again with the counts: a run killed at any moment, and started again, makes the same steps.

    Attributes:
        after: skipped steps in a row.
        at_most: times; the next one ends the run.
    """

    after: int = 20
    at_most: int = 3

    def __post_init__(self):
        if self.after < 1 or self.at_most < 0:
            raise ValueError(f"A rollback needs after >= 1 and at_most >= 0. Got {dataclasses.asdict(self)}.")

    def is_due(self, state) -> bool:
        """Returns whether the run must go back after the step that `state` (a `TrainingState`) has just made."""
        return int(state.step.guard.skipped_in_a_row.numpy()) >= self.after

    def protect(self, step: int, state, checkpoints, run):
        """Keeps from deletion what the run may go back to, before the checkpoint of `step` is written."""
        bad = int(state.step.guard.skipped_in_a_row.numpy())
        checkpoints.protect = set([*_good(step - bad, checkpoints, run), *([] if bad else [step])][-2:])

    def go_back(self, step: int, results: dict, state, checkpoints, run) -> int:
        """Brings `state` back to a checkpoint after `step`, which returned `results`; returns the checkpoint's step.

        Raises:
            ValueError: the run has gone back `at_most` times, or there is no checkpoint.
        """
        guard = state.step.guard
        bad, skipped, rollbacks, returned_to = (
            int(v.numpy()) for v in (guard.skipped_in_a_row, guard.skipped_steps, guard.rollbacks, guard.returned_to)
        )
        whole = [s for s in _good(step - bad, checkpoints, run) if checkpoints.latest(up_to=s)[0] == s]
        if rollbacks >= self.at_most or not whole:
            raise ValueError(_lost(step, bad, rollbacks, checkpoints.directory, results, state.model))
        back = whole[-2] if whole[-1] == returned_to and len(whole) > 1 else whole[-1]
        prefix = checkpoints.prefix(back)
        state.restore(checkpoints.restore(prefix), prefix)
        guard.rollbacks.assign(rollbacks + 1)
        guard.returned_to.assign(back)
        guard.skipped_steps.assign(skipped)
        guard.skipped_in_a_row.assign(0)
        # This is also a barrier: no worker is still reading the checkpoint when the chief replaces it.
        check_equal_on_workers(back, "checkpoint to go back to")
        by_chief(_replace, back, state, checkpoints)
        logging.warning(
            "The loss was NaN, infinite or far above its mean for %d steps in a row, up to step %d. Rolling back to "
            "step %d and continuing with the data in another order (rollback %d of at most %d).",
            *(bad, step, back, rollbacks + 1, self.at_most),
        )
        return back


def _replace(step, state, checkpoints):
    checkpoints.delete_after(step)
    checkpoints.save(step, state.tensors())


def _good(before, checkpoints, run):
    """Returns the steps, up to `before`, of the run's regular checkpoints, ascending.

    One that was saved out of turn, because a signal asked the run to end, is left out: a run without one has none.
    """
    return [s for s in checkpoints.steps() if s <= before and (s == 0 or run.saves_at(s))]


def _lost(step, bad, rollbacks, directory, results, model):
    precision = model.dtype_policy.name
    return (
        f"A run must find its way back to a steady loss. Received {bad} steps in a row, up to step {step}, whose loss "
        f"was NaN, infinite or far above its mean, after going back {rollbacks} times to a checkpoint in {directory}: "
        f"the last had {_what_broke(results, model.trainable_variables)}, in precision {precision}"
        f"{_cause_and_remedy(step, precision)}"
    )
