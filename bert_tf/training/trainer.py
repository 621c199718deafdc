"""Trainer: the training loop of a task, and evaluation and prediction with its model."""

import contextlib
import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from absl import logging

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.config_shapes import check_shapes
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.training.callbacks import KeepBest, ProgressLog, ScoreCheckpoints
from bert_tf.training.history import History
from bert_tf.training.interruption import Interruption, Stopped
from bert_tf.training.loss_spike_guard import FiniteSteps
from bert_tf.training.run_config import RunConfig
from bert_tf.training.schedules import run_schedule
from bert_tf.training.scoring import EvalBatches, Evaluator
from bert_tf.training.start import first_state
from bert_tf.training.state import END, TrainingState, is_of_model
from bert_tf.training.strategies import check_batch_size
from bert_tf.training.workers import by_chief, check_equal_on_workers
from bert_tf.utils.folder_lock import alone_in


@dataclasses.dataclass
class Trainer:
    """Trains, restores and evaluates a task's model, and predicts with it; independent of any concrete task.

    Use it in the scope of a strategy. With several workers, only the chief writes; all must see its files.

    Attributes:
        task: see `tasks/base.py`.
        run: the training run; its output_dir is also searched for a trained model.
        history: history of the training, or None; its report is updated now and then, and when the run ends for any
            reason.
        model: the trained or restored model.
        global_step: the model's training step.
    """

    task: Any
    run: RunConfig
    history: History | None = None

    def __post_init__(self):
        self.checkpoints = CheckpointManager(self.run.output_dir, keep=self.run.keep_checkpoints)
        self.model = self._scorer = self._average = None
        self.global_step = self._saved = 0  # the step of the result, and of the newest checkpoint
        self._latest = (None, None, None)  # the last evaluation: the `EvalBatches`, the step, the metrics

    def fit(
        self,
        batches: Callable,
        on_begin: Callable = lambda model: None,
        callbacks: Iterable[Callable] = (),
        held_out: EvalBatches | None = None,
        metric_for_best_model: str | None = None,
        early_stopping: int = 0,
    ) -> TrainingState:
        """Trains to the end of the run, starting from what `first_state` finds; returns the final state.

        After SIGTERM or Ctrl-C, the running step is finished, its checkpoint saved, and `Stopped` raised. Without
        `run.rollback`, a step whose loss or gradients are not finite ends the run. This is checked after the first step
        of the process, every `run.report_steps` and before every checkpoint, so that no checkpoint follows such a step.

        Args:
            batches: takes the step to start at and returns the batches from it on, dicts of tensors [B, ...]. With
                `run.rollback`, it also takes the number of rollbacks so far: a different number must give a different
                order, for example with `loss_spike_guard.order_seed`.
            on_begin: called once, with the model, after the initial weights and the first batch have been loaded and
                found valid; nothing is written before that.
            callbacks: each is called as callback(step, results, state) after every step, following those of
                `callbacks.py`; its `resume(step, state)`, if it has one, is called before the first step and after a
                rollback. Both may end the run early by setting `state.ended_at`.
            held_out: examples to evaluate at every checkpoint, or None.
            metric_for_best_model: the metric that selects the best model; if None, the last step's model is the result.
            early_stopping: with `metric_for_best_model`: the run stops after this many checkpoints without improvement
                and counts as finished: training it again does nothing. If 0, it runs to its last step.

        Raises:
            ValueError: another run is training in the output directory, an argument does not fit, the directory's best
                checkpoint was selected by another metric than `metric_for_best_model`, or the loss or gradients of a
                step were not finite.
        """
        assert (metric_for_best_model or not early_stopping) and (held_out or not metric_for_best_model)
        run = self.run
        if not run.overwrite:
            _check_selection(self.checkpoints, metric_for_best_model)
        if early_stopping:  # the weights and data decide where the run ends
            ending = {"early_stopping": early_stopping, "metric_for_best_model": metric_for_best_model}
            run = dataclasses.replace(run, settings={**run.settings, **ending})
        check_batch_size(run.train_batch_size, run.step.accumulation, "`train_batch_size`")
        callbacks = [*self._callbacks(run, held_out, metric_for_best_model, early_stopping), *callbacks]
        with contextlib.ExitStack() as stack:
            state, step = first_state(self.task, run)
            self._average, self._saved = state.step.average, step
            check_equal_on_workers(step, "first step")
            _log_if_over(step, state, run)
            begin = functools.partial(self._begin, stack, on_begin, step, state.model)
            self._take_steps(step, state, batches, callbacks, begin)
        if self._average:
            self._average.exchange()
        self._take_result(state, metric_for_best_model)
        return state

    def restore(self):
        """Loads this run's result, or, if there is none, the initial checkpoint, which must then have the task's head.

        Raises:
            ValueError: neither exists, or the head is missing.
        """
        if latest := self.checkpoints.latest():
            best = self.checkpoints.best()
            self.global_step = best.step if best else latest[0]
            own = open_checkpoint(self.checkpoints.prefix(self.global_step))
            check_shapes(own, self.task.config)
            self.model = self.task.build_model()
            self._load(own)
            return
        path = self.run.init_checkpoint
        init = path and open_checkpoint(path, self.task.config.model_type)
        if init:
            check_shapes(init, self.task.config)
            self.model = self.task.build_model()
        unused = heads.unused(self.task)  # which a checkpoint of the model may lack
        if not init or not all(
            v.path in init.names or any(re.fullmatch(pattern, v.path) for pattern in unused)
            for v in self.model.variables
        ):
            raise ValueError(
                f"No trained model found: {self.run.output_dir} contains no checkpoint, and "
                f"{f'{init.path} has no head for this task' if init else '`init_checkpoint` is not set'}. Train one "
                "with `do_train`."
            )
        self._load(init)

    def scores(self, scoring: EvalBatches) -> dict[str, float]:
        """Returns the task's metrics and, if it computes losses per example, the mean loss."""
        examples, step, scores = self._latest
        if examples is scoring and step == self.global_step:
            return scores
        return self._scorer_of(self.model).scores(scoring)

    def scores_at(self, step: int) -> dict[str, float]:
        """Returns the metrics that were computed after this step of training; {} if none were."""
        _, scored, scores = self._latest
        return scores if scored == step else {}

    def outputs(self, scoring: EvalBatches):
        """Returns the model's outputs as the task reduces them, an array [n, ...] or a dict of arrays, in order."""
        return self.outputs_and_losses(scoring)[0]

    def outputs_and_losses(self, scoring: EvalBatches) -> tuple:
        """Returns outputs and losses, as `Evaluator.outputs`."""
        return self._scorer_of(self.model).outputs(scoring)

    # --- Parts of `fit` ---

    def _take_steps(self, step, state, batches, callbacks, begin):
        """Trains from `step` on to the end of the run, or until it is stopped, and saves the last step."""
        run = self.run
        finite = None if run.rollback else FiniteSteps(run, state.model, run_schedule(run))
        with Interruption() as interruption:
            try:
                stream = self._start(step, state, batches, callbacks, begin)
                if run.rollback and step == 0:
                    self._save(step, state, finite)  # a rollback needs a checkpoint
                while step < run.num_train_steps and state.ended_at is None:
                    batch = next(stream, None)
                    if batch is None:
                        raise _too_few_batches(step, run)
                    with interruption.held():
                        results = state.step(batch)
                        step, went_back = self._finish_step(step + 1, results, state, finite)
                    interruption.check()
                    if went_back:
                        stream = self._start(step, state, batches, callbacks)
                        continue
                    for callback in callbacks:
                        callback(step, results, state)
                if self._saved != step:  # a callback has ended the run between two checkpoints
                    self._save(step, state, finite)
            except Stopped as stopped:
                if self._saved != step:
                    self._save(step, state, finite)
                overwrites = run.overwrite and step > 0
                again = "the same command again" + ", without `overwrite_output_dir`," * overwrites
                logging.warning("%s: stopped after step %d. Run %s to resume.", stopped.cause, step, again)
                raise

    def _callbacks(self, run, held_out, metric_for_best_model, patience):
        """Returns the callbacks of a step, in order; the report is written last, when its data are complete."""

        def score(step, model):
            with self._average.in_place() if self._average else contextlib.nullcontext():
                scores = self._scorer_of(model).scores(held_out)
            self._latest = held_out, step, scores
            return scores

        callbacks, parts = [ProgressLog(run, history=self.history)], (score, run, self.checkpoints, self.history)
        if metric_for_best_model:
            callbacks.append(KeepBest(*parts, metric_for_best_model, (*self.task.metric_names, "loss"), patience))
        elif held_out:
            callbacks.append(ScoreCheckpoints(*parts))
        return [*callbacks, self.history] if self.history else callbacks

    def _start(self, step, state, batches, callbacks, on_begin=None):
        """Returns the batches from `step` on, after reading the first, so that unreadable data does not start a run."""
        rollbacks = [int(state.step.guard.rollbacks.numpy())] if self.run.rollback else []
        stream = iter(batches(step, *rollbacks))
        first = list(itertools.islice(stream, 1))
        if on_begin:
            by_chief(on_begin)
        if self.history:
            origin = self.checkpoints.prefix(step) if step else self.run.init_checkpoint
            by_chief(self.history.start, step, origin, state.label_rows and state.label_rows.to_dict())
        for callback in callbacks:
            if hasattr(callback, "resume"):
                callback.resume(step, state)
        return itertools.chain(first, stream)

    def _begin(self, stack, on_begin, step, model):
        """Locks the directory before anything in it can be removed; if `on_begin` creates it, right after that."""
        directory = self.run.output_dir
        is_there = os.path.isdir(directory)
        if is_there:
            stack.enter_context(alone_in(directory))
            if not self.run.overwrite:
                self._check_newest(step)
        on_begin(model)
        if not is_there and os.path.isdir(directory):
            stack.enter_context(alone_in(directory))
        if self.history:
            stack.callback(self.history.write_page)  # while the directory is still locked

    def _check_newest(self, step):
        """Raises ValueError if another run saved a newer state before this run held the lock."""
        newest, _ = self.checkpoints.latest(warns=False) or (0, "")  # it has warned when the state was read
        if newest != step:
            raise ValueError(
                f"Another run has changed {self.run.output_dir} while this one was starting: the newest checkpoint was "
                f"step {step} and is now step {newest}. Run the same command again to resume from that step, or choose "
                "another `output_dir`."
            )

    def _finish_step(self, step, results, state, finite):
        """Saves a step, or goes back to an earlier one; returns the step to continue from, and whether it went back."""
        state.unreported.append(results)  # before a save, which stores them
        if finite:
            finite.note(step, results)
        rollback = self.run.rollback
        if rollback is not None and rollback.is_due(state):
            self._saved = rollback.go_back(step, results, state, self.checkpoints, self.run)
            return self._saved, True
        if self.run.saves_at(step):
            self._save(step, state, finite, after=results["loss"])
        return step, False

    def _save(self, step, state, finite, after=None):
        if finite:
            finite.check()
        with state.watch.pause(after):
            if self.run.rollback:
                self.run.rollback.protect(step, state, self.checkpoints, self.run)
            ended = step == self.run.num_train_steps and not self.run.keep_optimizer
            by_chief(self.checkpoints.save, step, state.tensors(ended))
        self._saved = step

    def _take_result(self, state, metric_for_best_model):
        """Loads the run's result, its best or last model; the directory's `checkpoint` file points to it."""
        last = state.ended_at or self.run.num_train_steps
        self.model, self.global_step = state.model, last
        if metric_for_best_model and (best := self.checkpoints.best()):
            self._load(self.checkpoints.prefix(best.step))
            self.global_step = best.step
            logging.info("Best %s at step %d: %.5f", best.metric, best.step, best.value)
        if not self.run.keep_optimizer:
            by_chief(self._drop_optimizer, last)
        by_chief(self.checkpoints.point_to, self.global_step)

    def _drop_optimizer(self, last):
        """Removes the state that only further steps need from the checkpoints of the last step and of the result."""
        for step in {last, self.global_step}:
            try:
                self.checkpoints.shrink(step, is_of_model, END if step == last else {})
            except ValueError as error:  # the disk is full: the run still has its result
                logging.warning("%s The checkpoint keeps the optimizer state.", error)

    # --- The model ---

    def _scorer_of(self, model):
        if self._scorer is None or self._scorer.model is not model:
            self._scorer = Evaluator(self.task, model, self.run.step.use_xla)
        return self._scorer

    def _load(self, checkpoint):
        logging.info("%s", assign_weights(checkpoint, self.model.variables, heads.unused(self.task)))


def _check_selection(checkpoints, metric_for_best_model):
    """Refuses another metric than the recorded one: values of two metrics do not compare, and `restore` would load a
    checkpoint that this run did not select."""
    best, metric = checkpoints.best(), metric_for_best_model and metric_for_best_model.removeprefix("eval_")
    if best and best.metric != metric:
        raise ValueError(
            f"{checkpoints.directory} contains a run that keeps its best checkpoint by {best.metric} (step "
            f"{best.step}: {best.value:.5f}), so `metric_for_best_model` must be {best.metric}; got "
            f"{metric or 'none'}. Pass it to resume that run, use another `output_dir`, or pass `overwrite_output_dir` "
            "to start over."
        )


def _too_few_batches(step, run):
    return ValueError(
        f"`batches` ended before step {step + 1} of {run.num_train_steps}: make it yield a batch for "
        "every step, or lower `num_train_steps`."
    )


def _log_if_over(step, state, run):
    if step == run.num_train_steps:
        logging.info("Training is already complete (%d steps); nothing to do.", step)
    elif state.ended_at is not None:
        logging.info("This run stopped early, after step %d; nothing to do.", step)
