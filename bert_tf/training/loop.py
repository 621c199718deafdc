"""The loop of every training: a run's steps, its checkpoints, and an orderly end where a signal asks for it."""

import contextlib
import dataclasses
import functools
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.store import CheckpointManager
from bert_tf.training import cluster, step
from bert_tf.training.learning_rate import LayerRates, WordRate, run_schedule
from bert_tf.training.loss_spike_guard import FiniteSteps, Rollback
from bert_tf.training.optimizers import AdamConfig, make_optimizer
from bert_tf.training.state import TrainingState, begin, check_model
from bert_tf.training.step import StepConfig, TrainStep, first_step
from bert_tf.utils.signals import ONE_WISH

# === Interruption ===
# An orderly end: after SIGTERM or Ctrl-C the running step is finished, and the loop saves and stops.


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE = 5  # seconds in which a second Ctrl-C must get through to Python, else the process is ended from outside it
_WHAT_FOLLOWS = (
    "the step in hand is finished and its checkpoint saved, then the run ends; the same command goes on from there. "
    "Ctrl-C again ends now, and loses what was done since the last checkpoint."
)


def _cause(number):
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


class Stopped(SystemExit):
    """A run that was asked to stop: ends the program with status 128 + the signal's number, as shells count.

    Attributes:
        signal: the `signal.Signals`.
        cause: what it is called in the log.
    """

    def __init__(self, number: int):
        super().__init__(128 + number)
        self.signal, self.cause = signal.Signals(number), _cause(number)


class Interruption:
    """While it is entered, SIGTERM and Ctrl-C end the block by `Stopped`, but never in the midst of a `held` part.

    Of several workers none can leave alone, for the others would wait for it: there a signal is only noted, and `check`
    makes all of them stop at one step, whichever got it. A Ctrl-C after the first signal ends the program at once,
    without a save, unless it comes within a second: then both are one wish, as where a terminal and a supervisor send
    a signal each. A second SIGTERM does nothing, since those who send it often send two.

    The first signal is acknowledged in the log at once, by a thread: Python itself hears of a signal only when the step
    is made, and the first step may take minutes to compile.

    In a thread that is not the main one Python knows no signals, and nothing happens.
    """

    def __init__(self):
        self._alone = cluster.num_workers() == 1
        self._noted = self._held = 0
        self._noted_at, self._insisted = 0.0, False
        self._over, self._left = threading.Event(), contextlib.ExitStack()

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._left.callback(signal.signal, number, signal.signal(number, self._note))
            self._listen()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._left.close()

    def _listen(self):
        """Lets a thread hear of signals as they come: Python's C part writes their numbers to a pipe."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        thread = threading.Thread(target=self._acknowledge, args=(reading,), daemon=True)
        self._left.callback(thread.join)
        self._left.callback(os.close, writing)
        self._left.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writing, warn_on_full_buffer=False))
        thread.start()

    def _acknowledge(self, reading):
        first = None
        with open(reading, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                if number[0] not in _SIGNALS:
                    continue
                if first is None:
                    first = time.monotonic()
                    logging.warning("%s: %s", _cause(number[0]), _WHAT_FOLLOWS)
                elif number[0] == signal.SIGINT and time.monotonic() - first >= ONE_WISH:
                    self._insisted = True
                    logging.warning("Ctrl-C again: ending now, without saving.")
                    if not self._over.wait(_PATIENCE):
                        logging.flush()
                        os._exit(128 + signal.SIGINT)

    @contextlib.contextmanager
    def held(self):
        """Holds a signal back to the end of this block: in it the variables or the checkpoint are half changed."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def check(self):
        """Raises `Stopped` where a signal came, here or at any worker; all must call it at the same step."""
        came = cluster.total([self._noted == number for number in _SIGNALS])
        for number, count in zip(_SIGNALS, came, strict=True):
            if count:
                raise Stopped(number)

    def _note(self, number, frame):
        if self._noted:
            if number == signal.SIGINT and (self._insisted or time.monotonic() - self._noted_at >= ONE_WISH):
                raise KeyboardInterrupt
            return
        self._noted, self._noted_at = number, time.monotonic()
        if self._alone and not self._held:
            raise Stopped(number)


# === Weight average ===
# The mean of a model's weights over the last steps, which is a run's result while training goes on from the others.


class WeightAverage:
    """A running mean of the weights in which later steps count more.

        mean += k / (t + k - 1) * (weights - mean)        after step t = 1, 2, ...

    That is polynomial-decay averaging (Shamir and Zhang 2013, arXiv 1212.1824, section 4): the weights after step s
    count as s ** (k - 1), nearly; Karras et al. 2024 (arXiv 2312.02696, section 3.1) describe the same curve. Unlike a
    plain mean over the last steps it need not know where the run ends, so every checkpoint's is good, and unlike an
    exponential mean of fixed length it forgets the random start at any length of the run. On the flat part of a
    trapezoid it gives a part of what the fall will bring (Hägele et al. 2024, arXiv 2405.18392, section 4). To be made
    in the strategy's scope.

    Args:
        variables: Keras variables, float32: those that training moves.
        share: above 0, up to 1: k = 2 / share - 1, with which the mean is as old as a plain one over the last `share`
            of the steps made, share / 2 of them. 1: the plain mean over all.

    Attributes:
        means: a variable for each of the model's.
    """

    def __init__(self, variables, share: float):
        assert 0 < share <= 1
        self.variables = list(variables)
        self.power = 2 / share - 1
        self.means = [tf.Variable(v.numpy(), trainable=False, name="mean") for v in self.variables]

    def begin(self):
        """Lets the means be the weights: of a run that has made no step yet."""
        for variable, mean in zip(self.variables, self.means, strict=True):
            mean.assign(variable.value)

    def update(self, strategy, step, moved):
        """Takes the weights in; to be called outside of the replicas, in the graph of the step.

        Args:
            strategy: the current one.
            step: int [], steps made, this one counted in.
            moved: float32 [], 1; or 0 where this step was skipped, which then does not count.
        """
        share = moved * self.power / (tf.maximum(tf.cast(step, tf.float32), 1.0) + self.power - 1)
        for variable, mean in zip(self.variables, self.means, strict=True):
            strategy.extended.update(mean, _approach, args=(variable.value, share), group=False)

    def exchange(self):
        """Puts the means into the model, and the weights that training goes on from in their place; and back."""
        for variable, mean in zip(self.variables, self.means, strict=True):
            weights = variable.numpy()
            variable.assign(mean.numpy())
            mean.assign(weights)

    @contextlib.contextmanager
    def in_place(self):
        """Inside, the model computes with the means."""
        self.exchange()
        try:
            yield
        finally:
            self.exchange()


def _approach(mean, weights, share):
    mean.assign_add(share * (weights - mean))


# === Loop ===


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A training run.

    Attributes:
        output_dir: where checkpoints and events go.
        train_batch_size: examples a step, over all replicas and micro-batches.
        num_train_steps: steps in all, those before an interruption counted in.
        num_warmup_steps: steps over which the rate rises.
        learning_rate: its peak; None: it is to be found, before `fit`, by `fine_tuning.with_tested_rate`.
        init_checkpoint: weights to start from, or None.
        save_checkpoints_steps: steps between two checkpoints.
        keep_checkpoints: how many of the last ones stay.
        keep_optimizer: once the run has ended, its result still has what only more steps would need.
        overwrite: do not continue the run that lies in output_dir.
        optimizer, schedule: names in `OPTIMIZERS` and `SCHEDULES`.
        adam: the optimizer's numbers.
        step: how a step is made.
        rollback: when the run goes back to a checkpoint; None: never. Needs a guard in `step`.
        layer_rates: which layers move and how fast, or how fast word embeddings do; None: all alike.
        reinit_layers: so many of the top blocks, and the pooler, start from random weights and not from
            `init_checkpoint` (Zhang et al. 2021, arXiv 2006.05987, section 5).
        average_weights: the run's result, in checkpoints too, is the mean of the weights that is as old as a plain mean
            over the last steps, this share of those made; 0: the weights themselves. See `WeightAverage`.
        first_weights: gives {variable path: array} to begin with in place of random weights; asked only where the run
            begins without `init_checkpoint`. None: there are none.
        settings: whatever else decides the result, such as the names and hashes of the data files; JSON values.
    """

    output_dir: str
    train_batch_size: int
    num_train_steps: int
    num_warmup_steps: int = 0
    learning_rate: float | None = 5e-5
    init_checkpoint: str | None = None
    save_checkpoints_steps: int = 1000
    keep_checkpoints: int = 5
    keep_optimizer: bool = False
    overwrite: bool = False
    optimizer: str = "adamw"
    schedule: str = "linear"
    adam: AdamConfig = AdamConfig()
    step: StepConfig = dataclasses.field(default_factory=StepConfig)
    rollback: Rollback | None = None
    layer_rates: LayerRates | WordRate | None = None
    reinit_layers: int = 0
    average_weights: float = 0.0
    first_weights: Callable[[], Mapping[str, np.ndarray]] | None = None
    settings: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        assert self.rollback is None or self.step.guard, "rollback needs a guard"

    @property
    def report_steps(self) -> int:
        """Returns how many steps lie between two at which the numbers of the steps are read: some fifty times a run."""
        return max(1, min(100, self.num_train_steps // 50))

    def saves_at(self, step: int) -> bool:
        """Says whether a checkpoint is written after `step`."""
        return step % self.save_checkpoints_steps == 0 or step == self.num_train_steps

    def saves_after(self, step: int) -> int:
        """Returns how many checkpoints are written after `step`, up to the end of the run."""
        every, last = self.save_checkpoints_steps, self.num_train_steps
        return last // every - step // every + (last % every > 0 and step < last)

    def identity(self) -> dict:
        """Returns what must be equal for a run to be continued: all that changes what a step computes."""
        rates = None if self.layer_rates is None or self.layer_rates.is_default else self.layer_rates
        return {
            "train_batch_size": self.train_batch_size,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "learning_rate": self.learning_rate,
            "schedule": self.schedule,
            "optimizer": self.optimizer,
            **dataclasses.asdict(self.adam),
            "layer_rates": rates and dataclasses.asdict(rates),
            "reinit_layers": self.reinit_layers,
            "average_weights": self.average_weights,
            "seed": self.step.seed,
            "gradient_accumulation_steps": self.step.accumulation,
            "clip_norm": self.step.clip_norm,
            "fixed_shapes": self.step.fixed_shapes,
            "guard": self.step.guard and dataclasses.asdict(self.step.guard),
            "rollback": self.rollback and dataclasses.asdict(self.rollback),
            **self.settings,
        }


def fit(task, run: RunConfig, batches: Callable, actions: Iterable[Callable] = (), on_begin: Callable | None = None):
    """Trains a task's model to the end of the run, and returns the `TrainingState`, whose model is the run's result.

    To be called in the scope of a strategy. Of several workers the chief alone writes checkpoints; all must see them.
    After SIGTERM or Ctrl-C the running step is finished, its checkpoint saved, and `Stopped` raised.
    Without `run.rollback` a step whose loss or gradients are not finite ends the run: it is found at the first step of
    the process, every `run.report_steps` and before every checkpoint, so that none is written after it.

    Args:
        task: see `tasks/base.py`.
        run: the run.
        batches: takes the step at which to begin and returns the batches from there on, dicts of tensors [B, ...].
            With `run.rollback` it also takes how often the run went back: another number must give another order, such
            as by `loss_spike_guard.order_seed`.
        on_begin: called as on_begin(start, state) once the weights to start from and the first batch are loaded and
            found good: before it, nothing is written. Called again where the run goes back.
        actions: each is called as action(step, results, state) after every step; `trainer.py` has some. One of them,
            or on_begin, may end the run before its time, by `state.ended_at`.

    Raises:
        ValueError: something that is given does not fit, or the loss or gradients of a step were not finite.
    """
    step.check_batch_size(run.train_batch_size, run.step.accumulation, "`train_batch_size`")
    checkpoints = CheckpointManager(run.output_dir, keep=run.keep_checkpoints)
    state, start = first_state(task, run, checkpoints)
    average = state.step.average
    cluster.check_equal_on_workers(start, "step to begin at")
    if start == run.num_train_steps:
        logging.info("All %d steps of this run are made: there is nothing to train.", start)
    elif state.ended_at is not None:
        logging.info("This run has ended early, after step %d: there is nothing to train.", start)
    with Interruption() as interruption:
        while start is not None:
            rollbacks = [int(state.step.guard.rollbacks.numpy())] if run.rollback else []
            stream = iter(batches(start, *rollbacks))
            first = list(itertools.islice(stream, 1))  # data that cannot be read shall end the run before it has begun
            if on_begin:
                on_begin(start, state)
            if state.ended_at is not None:
                break
            stream = itertools.chain(first, stream)
            start = _steps(state, run, start, stream, checkpoints, actions, interruption)
    if average:
        average.exchange()
    return state


def first_state(task, run: RunConfig, checkpoints: CheckpointManager) -> tuple[TrainingState, int]:
    """Returns the state that the run begins with, and its step; nothing is written. In the scope of a strategy."""
    check_model(checkpoints, run.init_checkpoint, task, run.overwrite, run.reinit_layers)
    model = task.build_model()
    optimizer = built_optimizer(run, model, run_schedule(run))
    average = WeightAverage(model.trainable_variables, run.average_weights) if run.average_weights else None
    state = TrainingState(model, optimizer, TrainStep(task, model, optimizer, run.step, average), run.identity())
    start = begin(state, checkpoints, run.init_checkpoint, task, run.overwrite, run.reinit_layers)
    if run.first_weights and start == 0 and not run.init_checkpoint:
        weights = run.first_weights()
        for variable in (v for v in model.variables if v.path in weights):
            variable.assign(weights[variable.path])
    if average and start == 0:
        average.begin()
    return state, start


def built_optimizer(run: RunConfig, model, schedule):
    """Returns the run's optimizer, built for what is left of the model's variables once layers are frozen.

    Args:
        run: the run.
        model: its layers are frozen as the run has it.
        schedule: of the rate.
    """
    rules = ()
    if run.layer_rates:
        run.layer_rates.freeze_in(model.variables)
        rules = run.layer_rates.rules()
        logging.info("%s", run.layer_rates.describe(run.num_train_steps))
    optimizer = make_optimizer(run.optimizer, schedule, run.adam, rules)
    optimizer.build(model.trainable_variables)
    return optimizer


def _compile(step, batch):
    """Makes the first step of this process, in which TensorFlow traces and compiles all of them."""
    logging.info("Compiling the first step; the others take a small part of its time.")
    begin = time.perf_counter()
    results = first_step(step, batch)
    logging.info("Compiled, and the first step made, in %.1f s.", time.perf_counter() - begin)
    return results


def _steps(state, run, start, batches, checkpoints, actions, interruption):
    """Makes the steps after `start`. Returns the step to go on from where the run went back, else None."""
    last_step = saved = start
    make = functools.partial(_compile, state.step)
    finite = None if run.rollback else FiniteSteps(run, state.model, run_schedule(run))

    def save(after=None):
        nonlocal saved
        if finite:
            finite.check()
        with state.watch.pause(after):
            if run.rollback:
                run.rollback.protect(last_step, state, checkpoints, run)
            ended = last_step == run.num_train_steps and not run.keep_optimizer
            cluster.by_chief(checkpoints.save, last_step, state.tensors(ended))
        saved = last_step

    if run.rollback and start == 0:
        save()  # there must be one to go back to
    try:
        for step, batch in zip(range(start + 1, run.num_train_steps + 1), batches, strict=False):
            with interruption.held():
                results, last_step = make(batch), step
                make = state.step
                state.unreported.append(results)  # before a save, which keeps them
                if finite:
                    finite.note(step, results)
                    if step == start + 1 or step % run.report_steps == 0:
                        finite.check()
                back = run.rollback is not None and run.rollback.is_due(state)
                if back:
                    last_step = saved = run.rollback.go_back(step, results, state, checkpoints, run)
                elif run.saves_at(step):
                    save(after=results["loss"])
            interruption.check()
            if back:
                return last_step
            for action in actions:
                action(step, results, state)
            if state.ended_at is not None:
                break
    except Stopped as stopped:
        if saved != last_step:
            save()
        cause = stopped.cause
        logging.warning("%s: stopped after step %d. The same command goes on from there.", cause, last_step)
        raise
    return None
