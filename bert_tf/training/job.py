"""One model and what a program does with it: train it, bring it back, score it, ask it. Knows no concrete task."""

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Callable
from typing import Any

from absl import logging

from bert_tf.checkpoints import convert, heads, shapes
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.store import Store
from bert_tf.training import cluster
from bert_tf.training.actions import KeepBest, Progress, ScoreCheckpoints
from bert_tf.training.history import History
from bert_tf.training.loop import RunConfig, fit
from bert_tf.training.scoring import Scorer, Scoring
from bert_tf.training.state import END, is_of_model
from bert_tf.utils.folder_lock import alone_in


@dataclasses.dataclass
class Job:
    """A task and its run, on examples from memory or from a stream. To be used in the scope of a strategy.

    Attributes:
        task: see `tasks/task.py`.
        run: the training run; its output_dir is also where a trained model is sought.
        history: of the training, or None; its page is drawn now and then, and at the end, however it comes.
    """

    task: Any
    run: RunConfig
    history: History | None = None

    def __post_init__(self):
        self.checkpoints = Store(self.run.output_dir, keep=self.run.keep_checkpoints)
        self.model = self._scorer = self._average = None
        self.global_step = 0
        self._latest = (None, None, None)  # what was scored last: the `Scoring`, the step, the scores

    def train(
        self,
        batches: Callable,
        on_begin: Callable = lambda model: None,
        held_out: Scoring | None = None,
        keep_best: str | None = None,
        early_stopping: int = 0,
    ):
        """Trains to the end of the run, from wherever the ladder of `state.begin` says.

        Args:
            batches: as `loop.fit` takes it.
            on_begin: called once, with the model, when the weights to start from are found good: before it, nothing is
                written.
            held_out: examples that are scored at every checkpoint; None: none are.
            keep_best: the metric by which the model is chosen on them; None: the last step's model is the result.
            early_stopping: with `keep_best`: the run ends after so many checkpoints in a row that were no better, and
                is then finished: trained again, it makes no step. 0: it goes to its last step.

        Raises:
            ValueError: another run trains in the output directory, or as `state.begin`.
        """
        assert (keep_best or not early_stopping) and (held_out or not keep_best)
        run, evaluation = self.run, None
        if early_stopping:  # they decide where the run ends
            ending = {"early_stopping": early_stopping, "keep_best": keep_best}
            run = dataclasses.replace(run, settings={**run.settings, **ending})
        if held_out:
            evaluation = self._evaluation(held_out, keep_best, early_stopping)
        progress = Progress(run, history=self.history)
        actions = [progress, evaluation, self.history]
        with contextlib.ExitStack() as stack:
            on_begin = functools.partial(self._begin_alone, stack, on_begin)
            begin = functools.partial(self._begin, on_begin, progress, evaluation, [])
            try:
                state = fit(self.task, run, batches, [action for action in actions if action], begin)
            finally:
                if self.history:
                    self.history.write_page()
        self.model, self.global_step = state.model, state.ended_at or run.num_train_steps
        if keep_best:
            self._take_best()
        if not run.keep_optimizer:
            cluster.by_chief(self._drop_optimizer, state.ended_at or run.num_train_steps)
        cluster.by_chief(self.checkpoints.point_to, self.global_step)

    def restore(self):
        """Loads this run's result, or where there is none the initial checkpoint, which must then have the head too.

        Raises:
            ValueError: neither is there, or the head is missing.
        """
        if latest := self.checkpoints.latest():
            best = self.checkpoints.best()
            self.global_step = best.step if best else latest[0]
            own = open_checkpoint(self.checkpoints.prefix(self.global_step))
            shapes.check(own, self.task.config)
            self.model = self.task.build_model()
            self._load(own)
            return
        path = self.run.init_checkpoint
        init = path and open_checkpoint(path, self.task.config.model_type)
        if init:
            shapes.check(init, self.task.config)
            self.model = self.task.build_model()
        if not init or any(v.path not in init.names and not self._is_unused(v.path) for v in self.model.variables):
            raise ValueError(
                f"There must be a trained model. Received {self.run.output_dir}, which holds no checkpoint, and "
                f"{f'{init.path}, which has no head for this task' if init else 'no `init_checkpoint`'}; train one "
                "with `do_train`."
            )
        self._load(init)

    def scores(self, scoring: Scoring) -> dict[str, float]:
        """Returns the task's metrics and, where it knows the losses of examples, the mean loss."""
        examples, step, scores = self._latest
        if examples is scoring and step == self.global_step:
            return scores
        return self._scorer_of(self.model).scores(scoring)

    def outputs(self, scoring: Scoring):
        """Returns what the task keeps of the model's outputs, an array [n, ...] or a dict of them, in order."""
        return self.outputs_and_losses(scoring)[0]

    def outputs_and_losses(self, scoring: Scoring) -> tuple:
        """Returns what `Scorer.outputs` returns."""
        return self._scorer_of(self.model).outputs(scoring)

    def _begin_alone(self, stack, on_begin, model):
        """Locks the directory before anything in it may be removed; one that `on_begin` makes, as soon as it is."""
        lock = functools.partial(alone_in, self.run.output_dir)
        is_there = os.path.isdir(self.run.output_dir)
        if is_there:
            stack.enter_context(lock())
        on_begin(model)
        if not is_there and os.path.isdir(self.run.output_dir):
            stack.enter_context(lock())

    def _begin(self, on_begin, progress, evaluation, earlier, start, state):
        """What `fit` calls before the first step, and again after the run went back: `earlier` holds where it began."""
        self._average = state.step.average
        if not earlier:
            cluster.by_chief(on_begin, state.model)
        earlier.append(start)
        if self.history:
            origin = self.checkpoints.prefix(start) if start else self.run.init_checkpoint
            cluster.by_chief(self.history.start, start, origin)
        progress.resume(start, state)
        if evaluation and start:
            evaluation.resume(start, state)

    def _evaluation(self, held_out, keep_best, patience):
        def score(step, model):
            with self._average.in_place() if self._average else contextlib.nullcontext():
                scores = self._scorer_of(model).scores(held_out)
            self._latest = held_out, step, scores
            return scores

        parts = score, self.run, self.checkpoints, self.history
        if not keep_best:
            return ScoreCheckpoints(*parts)
        return KeepBest(*parts, keep_best, (*self.task.metric_names, "loss"), patience)

    def _take_best(self):
        if best := self.checkpoints.best():
            self._load(self.checkpoints.prefix(best.step))
            self.global_step = best.step
            logging.info("The best by %s is step %d: %.5f", best.metric, best.step, best.value)

    def _drop_optimizer(self, last):
        """Takes what only more steps would need out of the checkpoints of the last step and of the result."""
        for step in {last, self.global_step}:
            try:
                self.checkpoints.shrink(step, is_of_model, END if step == last else {})
            except ValueError as error:  # the disk is full: the run has its result all the same
                logging.warning("%s The checkpoint keeps the optimizer's state.", error)

    def _scorer_of(self, model):
        if self._scorer is None or self._scorer.model is not model:
            self._scorer = Scorer(self.task, model, self.run.step.use_xla)
        return self._scorer

    def _is_unused(self, path):
        """Whether the task makes nothing of this variable, which a checkpoint of its model may then lack."""
        return any(re.fullmatch(pattern, path) for pattern in heads.unused(self.task))

    def _load(self, checkpoint):
        logging.info("%s", convert.load(checkpoint, self.model.variables, heads.unused(self.task)))
