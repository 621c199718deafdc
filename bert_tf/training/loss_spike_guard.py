"""Handles steps with a NaN or spiking loss: ends the run, or skips them and rolls back to a checkpoint.

`first_broken` checks in the graph of a step whether its numbers are finite. Without a `Rollback`, the first step whose
numbers are not ends the run (`FiniteSteps`). With one, a `Guard` skips such steps, and those whose loss spikes.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.training.workers import by_chief, check_equal_on_workers

LOSS_OR_NORM = -2  # `first_broken`'s result if no single gradient is the cause
_FINE = -1


def first_broken(loss, squares, norm, can_mend):
    """Returns int32 []: which of a step's numbers is not finite.

    -1: all are finite, or a smaller loss scale may still help. -2: the loss is not, or only the norm of all gradients
    together. Otherwise, the index of the first variable whose gradient is not finite although the loss is.

    Args:
        loss: float32 [], of all replicas.
        squares: float32 [v], half the sum of squares of each variable's gradient.
        norm: float32 [], of all gradients.
        can_mend: bool [], whether a large loss scale may explain gradients that are not finite.
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
        model: the model being trained.
        schedule: step, from 0 -> learning rate.
    """

    def __init__(self, run, model, schedule):
        self._run, self._model, self._schedule = run, model, schedule
        self._unread, self._is_first = [], True

    def note(self, step: int, results: dict):
        """Stores the results of `step`, from 1, and reads them if they are due; raises as `check`."""
        self._unread.append((step, results))
        if self._is_first or step % self._run.report_steps == 0:
            self.check()
        self._is_first = False

    def check(self):
        """Reads the steps stored since the last call.

        Raises:
            ValueError: the loss or gradients of one were not finite.
        """
        steps, self._unread = self._unread, []
        for step, results in steps:
            if int(results["broken"]) != _FINE:
                raise ValueError(self._message(step, results))

    def _message(self, step, results):
        precision, rate = self._model.dtype_policy.name, float(self._schedule(step - 1))
        return (
            "Training diverged: "
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
    """Returns the end of a message on a failed step: whether the learning rate can be the cause, and what to do."""
    narrow = "pass `precision=mixed_bfloat16` or `precision=float32`, whose range reaches 1e38; float16's ends at "
    remedies = [f"{narrow}65,504"] if "float16" in precision and "bfloat16" not in precision else []
    if step == 1:
        remedies.append("check the initial weights, and the labels for numbers too large to be squared")
        return f", before the first update, so the learning rate is not the cause; {', or '.join(remedies)}."
    remedies.append("lower `learning_rate`, use a longer warmup, or check the data")
    return f"; {', or '.join(remedies)}."


@dataclasses.dataclass(frozen=True)
class GuardConfig:
    """Settings of the loss-spike guard: a loss is bad if it or its gradients are not finite, or if it spikes.

    A loss spikes if it is above both `factor` x mean and mean + `margin`, where mean is that of the earlier losses: the
    plain mean of the first `memory` and then exponential. The factor alone would not tolerate any change of a loss near
    0, and the margin alone no noise in a large loss. The defaults are for pretraining, whose loss falls from about 10
    to about 2 and differs by some tenths from batch to batch.

    Attributes:
        factor, margin: as above; `math.inf` for either: only losses and gradients that are not finite are bad.
        memory: steps.
        warmup: steps before a loss can count as a spike.
    """

    factor: float = 2.0
    margin: float = 1.0
    memory: int = 100
    warmup: int = 100

    def __post_init__(self):
        if not (self.factor >= 1 and self.margin >= 0 and self.memory >= 1 and self.warmup >= 1):
            raise ValueError(
                "A guard needs factor >= 1, margin >= 0, memory >= 1 and warmup >= 1; "
                f"got {dataclasses.asdict(self)}."
            )


class Guard:
    """Loss-spike guard: decides in the graph of a step, before any update, whether to skip the step.

    Its inputs are summed over the replicas, so that all replicas decide alike. Create it in the strategy's scope.

    Attributes:
        mean_loss: float32, the mean that spikes are measured against, without skipped steps.
        steps_seen: int64, number of losses in the mean.
        skipped_steps: int64, steps skipped because they were bad, in the whole run.
        skipped_in_a_row: int64, how many of the latest steps were skipped.
        rollbacks: int64, number of rollbacks. It enters the seeds of the data order and of dropout.
        returned_to: int64, the step of the last rollback's checkpoint, or -1.
    """

    def __init__(self, config: GuardConfig):
        self.config = config
        self.mean_loss = tf.Variable(0.0, trainable=False, name="mean_loss")
        for name in ("steps_seen", "skipped_steps", "skipped_in_a_row", "rollbacks", "returned_to"):
            start = -1 if name == "returned_to" else 0
            setattr(self, name, tf.Variable(start, dtype=tf.int64, trainable=False, name=name))

    def variables(self):
        """Returns {name: variable}: the state that a resumed run needs."""
        return {f"guard/{name}": value for name, value in vars(self).items() if name != "config"}

    def is_bad(self, loss, finite):
        """Returns bool []: whether to skip the step.

        Args:
            loss: float32 [], of all replicas.
            finite: bool [], whether the loss and the gradients are finite; see `first_broken`.
        """
        mean, config = self.mean_loss, self.config
        bound = tf.maximum(mean * config.factor, mean + config.margin)
        leaps = (self.steps_seen >= config.warmup) & (loss > bound)
        return ~finite | ~tf.math.is_finite(loss) | leaps

    def note(self, loss, bad, moved):
        """Counts a `bad` step, or adds the loss of a step that `moved` the variables to the mean."""
        seen = self.steps_seen + tf.cast(moved, tf.int64)
        share = 1 / tf.cast(tf.clip_by_value(seen, 1, self.config.memory), tf.float32)
        self.mean_loss.assign(tf.where(moved, self.mean_loss + share * (loss - self.mean_loss), self.mean_loss))
        self.steps_seen.assign(seen)
        self.skipped_steps.assign_add(tf.cast(bad, tf.int64))
        self.skipped_in_a_row.assign(
            tf.where(moved, tf.zeros_like(seen), self.skipped_in_a_row + tf.cast(bad, tf.int64))
        )

    def dropout_seed(self, seed: int):
        """Returns int32 []: `seed`, or a different one after a rollback, so that the steps are not repeated exactly."""
        return tf.constant(seed, tf.int32) + tf.cast(self.rollbacks, tf.int32) * 1_000_003


def order_seed(seed: int, rollbacks: int) -> int:
    """Returns the seed of the data order after this many rollbacks; with 0, the seed itself."""
    return int(np.random.SeedSequence([seed, rollbacks]).generate_state(1)[0]) if rollbacks else seed


@dataclasses.dataclass(frozen=True)
class Rollback:
    """Settings of rollbacks: when a run returns to an earlier checkpoint.

    After `after` skipped steps in a row, the run continues from the newest complete checkpoint before them, or, if it
    has rolled back to that one already, from the one before that. From then on, the data come in another order and
    dropout has other masks, both functions of (seed, rollbacks). Later checkpoints are deleted and the one that the run
    returned to is written again with the counts: a run that is killed at any moment and restarted makes the same steps.

    Attributes:
        after: skipped steps in a row.
        at_most: number of rollbacks allowed; one more ends the run.
    """

    after: int = 20
    at_most: int = 3

    def __post_init__(self):
        if self.after < 1 or self.at_most < 0:
            raise ValueError(f"A rollback needs after >= 1 and at_most >= 0; got {dataclasses.asdict(self)}.")

    def is_due(self, state) -> bool:
        """Returns whether to roll back after the step that `state` (a `TrainingState`) has just made."""
        return int(state.step.guard.skipped_in_a_row.numpy()) >= self.after

    def protect(self, step: int, state, checkpoints, run):
        """Protects the checkpoints for a rollback from deletion, before the checkpoint of `step` is written."""
        bad = int(state.step.guard.skipped_in_a_row.numpy())
        checkpoints.protect = set([*_good(step - bad, checkpoints, run), *([] if bad else [step])][-2:])

    def go_back(self, step: int, results: dict, state, checkpoints, run) -> int:
        """Rolls `state` back to a checkpoint after `step`, which returned `results`; returns the checkpoint's step.

        Raises:
            ValueError: the run was rolled back `at_most` times already, or there is no checkpoint.
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
        state.restore(checkpoints.restore(prefix), prefix, back)
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

    A checkpoint saved because of a signal is left out: an uninterrupted run does not have it.
    """
    return [s for s in checkpoints.steps() if s <= before and (s == 0 or run.saves_at(s))]


def _lost(step, bad, rollbacks, directory, results, model):
    precision = model.dtype_policy.name
    return (
        f"Training diverged: in {bad} steps in a row, up to step {step}, the loss "
        f"was NaN, infinite or far above its mean, after {rollbacks} rollbacks to a checkpoint in {directory}: "
        f"the last step had {_what_broke(results, model.trainable_variables)}, in precision {precision}"
        f"{_cause_and_remedy(step, precision)}"
    )
