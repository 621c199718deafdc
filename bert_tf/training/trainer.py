"""Trains a task: what is saved, scored, kept and reported on the way."""

import contextlib
import dataclasses
import functools
import glob
import math
import os
import re
import shutil
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights, check_shapes
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.store import CheckpointManager
from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.training import cluster
from bert_tf.training.history import History
from bert_tf.training.loop import RunConfig, fit
from bert_tf.training.scoring import Scorer, Scoring
from bert_tf.training.state import END, is_of_model
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.progress import ProgressBar, clock

# === Output directory ===
# The output directory of a run: which files in it are the run's own.


# What every run writes, whatever its task. Anything else in the directory is somebody else's and stays.
_OWN = (
    "model.ckpt-*.index",
    "model.ckpt-*.data-*",
    "checkpoint",
    "best_checkpoint.json",
    "eval_results*.txt",
    "eval_files.json",
    "eval_predictions*.tsv",
    "labels.txt",
    "task.json",
    "history.jsonl",
    "run.json",
    "tracking.json",
    "report.html",
    "train/events.out.tfevents.*",
    "eval/events.out.tfevents.*",
    "adapter",
)


def prepare_directory(directory: str, overwrite: bool = False, others: tuple[str, ...] = ()):
    """Makes the directory, and with `overwrite` removes what an earlier run left there, the files `others` too.

    Raises:
        OSError: it cannot be made.
    """
    os.makedirs(directory, exist_ok=True)
    paths = [path for pattern in (*_OWN, *others) for path in glob.glob(os.path.join(glob.escape(directory), pattern))]
    if overwrite and paths:
        logging.info("`overwrite_output_dir`: removing %d files of an earlier run from %s", len(paths), directory)
        for path in paths:
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


# === Actions ===
# What happens after a step: small callables, action(step, results, state), that the loop knows nothing of.


# Results of a step that are no curves of their own.
_COUNTS = {"skipped", "skipped_in_a_row", "examples", "tokens", "broken"}
_RATES = ("examples_per_second", "tokens_per_second")
_NO_PARTS = {"loss", "gradient_norm"}  # curves that are not a part of the loss
_KEPT = 0.98  # of what the lines before say of the pace; a line's steps may be all of short rows, or all of long ones


class Events:
    """Scalars for TensorBoard in `output_dir`/`name`, written by the chief; nothing is made there before the first."""

    def __init__(self, output_dir, name):
        self.directory = os.path.join(output_dir, name)
        self.writer = None

    def write(self, step, values: dict[str, float]):
        if not cluster.is_chief():
            return
        self.writer = self.writer or tf.summary.create_file_writer(self.directory)
        with self.writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self.writer.flush()


class ProgressLog:
    """Logs loss, rate and time left, and writes them for TensorBoard to `output_dir`/train.

    On a terminal they stand next to a bar, and only the last line is logged.

    Args:
        run: a `RunConfig`.
        every: steps between two lines; by default some fifty lines a run.
        history: the run's `History`, which gets the same values, or None.

    `state.unreported` holds the results of the steps since the last line, those before an interruption too: wherever a
    run was interrupted, its lines are the same but for rates and times. Of a step's results `loss`, its parts and
    `gradient_norm` are means over these steps, those left out that were skipped; NaN where all were. `skipped` (0 or
    1), `examples` and `tokens` (of the batch, without padding) are added up. Rates are of the time in which steps were
    made, that of saving and scoring left out. The time left has it in, and is of the mean pace since the start of this
    process, in which what is long past counts less.
    """

    def __init__(self, run, every: int | None = None, history=None):
        self.run, self.history = run, history
        self.every = every or run.report_steps
        self.events = Events(run.output_dir, "train")
        self.bar, self.line = ProgressBar(), ""
        self.why_skipped = "bad steps skipped" if run.step.guard else "steps skipped (gradients overflowed)"
        self.since = None  # seconds on the watch at the last line; the first step is not timed, for it builds the graph
        self.untimed = 0  # of the steps since the last line, how many
        self.pace_seconds = self.pace_steps = 0.0  # sums over the lines so far, in which the older ones fade
        self.saves = self.skipped = 0  # checkpoints, and steps skipped, since this process began

    def __call__(self, step, results, state):
        self.saves += self.run.saves_at(step)
        if self.since is None:
            float(results["loss"])  # waits for the device
            self.since, self.untimed = state.watch.seconds(), len(state.unreported)
        if self._is_due(step):
            self._report(step, state)
        if step < self.run.num_train_steps:
            self.bar.draw(step / self.run.num_train_steps, f"step {step}/{self.run.num_train_steps}  {self.line}")

    def resume(self, step, state):
        """Takes the run up after `step`, whose line is written now where the run was stopped before it was."""
        if self._is_due(step) and state.unreported:
            if self.history is None or self.history.has("train", step):
                state.unreported = []
            else:
                self.untimed = len(state.unreported)
                self._report(step, state)
        self.since = None

    def _is_due(self, step):
        return step > 1 and (step % self.every == 0 or step == self.run.num_train_steps)

    def _report(self, step, state):
        steps, state.unreported = state.unreported, []
        means, skipped = _means(steps), sum(int(results["skipped"]) for results in steps)
        rates, pace = self._pace(step, steps[self.untimed :], state.watch)
        self.untimed, self.skipped = 0, self.skipped + skipped
        of_skipped = f"  {self.skipped} {self.why_skipped}" if self.skipped else ""
        self.line = f"loss {means['loss']:.4f}{_parts(means)}{pace}{of_skipped}"
        if not self.bar.is_shown or step == self.run.num_train_steps:
            logging.info("step %d/%d  %s", step, self.run.num_train_steps, self.line)
        values = means | rates | {"learning_rate": float(state.optimizer.learning_rate)}
        self.events.write(step, values)
        if self.history:
            self.history.trained(step, {**dict.fromkeys(_RATES, math.nan), **values, "skipped": skipped})

    def _pace(self, step, timed, watch):
        """Returns the rates of the steps that were timed, and what the log says of them; nothing where none was."""
        if not timed:
            return {}, ""
        now = watch.seconds()
        seconds, self.since = now - self.since, now
        rates = [sum(int(results[name]) for results in timed) / seconds for name in ("examples", "tokens")]
        self.pace_seconds = _KEPT * self.pace_seconds + seconds
        self.pace_steps = _KEPT * self.pace_steps + len(timed)
        pauses = watch.paused / self.saves * self.run.saves_after(step) if self.saves else 0.0
        left = clock(self.pace_seconds / self.pace_steps * (self.run.num_train_steps - step) + pauses)
        text = "  {:.1f} examples/s  {:.0f} tokens/s  {} left".format(*rates, left)
        return dict(zip(_RATES, rates, strict=True)), text


def _means(steps):
    """Returns {curve: mean over the steps that were not skipped}."""
    made = [results for results in steps if not float(results["skipped"])]
    names = [name for name in steps[0] if name not in _COUNTS]
    return {name: sum(float(results[name]) for results in made) / len(made) if made else math.nan for name in names}


def _parts(means):
    """Returns the parts of the loss for the log; nothing where there is but one, which is the loss."""
    parts = [f"{name} {value:.4f}" for name, value in means.items() if name not in _NO_PARTS]
    return f" ({', '.join(parts)})" if len(parts) > 1 else ""


class ScoreCheckpoints:
    """Scores every checkpoint on held-out examples, for the log, the run's page and TensorBoard (`output_dir`/eval).

    Args:
        score: takes (step, model) and returns {metric: value}.
        run: a `RunConfig`.
        checkpoints: the run's `CheckpointManager`.
        history: the run's `History`, which gets the scores too, or None.
    """

    def __init__(self, score, run, checkpoints, history=None):
        self.score, self.run, self.checkpoints, self.history = score, run, checkpoints, history
        self.events = Events(run.output_dir, "eval")

    def __call__(self, step, results, state):
        if self.run.saves_at(step):
            with state.watch.pause(after=results["loss"]):
                self._score(step, state)

    def resume(self, step, state):
        """Scores the checkpoint that the run goes on from, where it was stopped before the history had its scores."""
        has_scores = self.history is not None and self.history.has("eval", step)
        (missing,) = cluster.total([cluster.is_chief() and not has_scores])  # as the chief, whose the history is, says
        if missing and self.run.saves_at(step):
            self._score(step, state)

    def _score(self, step, state):
        scores = self.score(step, state.model)
        self.take(step, scores, state)
        self.events.write(step, scores)
        if self.history:
            self.history.evaluated(step, scores)

    def take(self, step, scores, state):
        """Processes the scores; here, writes a line to the log."""
        logging.info("step %d  held out: %s", step, "  ".join(f"{name} {value:.4f}" for name, value in scores.items()))


class KeepBest(ScoreCheckpoints):
    """Notes the best of the checkpoints that it scores, which is then kept from deletion.

    A score that is NaN or infinite is never the best. With `patience` it ends the run, by `state.ended_at`: as a
    function of the step and of the best one that is noted on the disk, so that a run that has ended so has ended for
    good.

    Args:
        score, run, checkpoints, history: as of `ScoreCheckpoints`.
        metric: "accuracy", "loss", ..., with or without "eval_".
        names: the metrics that `score` returns.
        patience: the run ends after so many checkpoints in a row that were no better; 0: at its last step only.

    Raises:
        ValueError: there is no such metric.
    """

    def __init__(self, score, run, checkpoints, history, metric, names, patience=0):
        super().__init__(score, run, checkpoints, history)
        self.metric = metric.removeprefix("eval_")
        if self.metric not in names:
            raise ValueError(f"`keep_best` must name one of {sorted(names)}. Received: {metric!r}.")
        self.higher = higher_is_better(self.metric)
        self.patience = patience

    def resume(self, step, state):
        super().resume(step, state)
        if state.ended_at is None:  # else it has just been scored
            self._end_if_due(step, state)

    def take(self, step, scores, state):
        value, best = scores[self.metric], self.checkpoints.best()
        better = best is None or (value > best.value if self.higher else value < best.value)
        better = better and math.isfinite(value)
        cluster.by_chief(self._note, step, value, better)  # all must call it, though one may find it noted already
        logging.info("step %d  eval_%s = %.5f%s", step, self.metric, value, "  (best so far)" if better else "")
        self._end_if_due(step, state)

    def _end_if_due(self, step, state):
        best = self.checkpoints.best()
        since = best.step if best else 0
        in_vain = sum(self.run.saves_at(later) for later in range(since + 1, step + 1))
        if self.patience and in_vain >= self.patience and step < self.run.num_train_steps:
            state.ended_at = step
            logging.info("Stopped early after step %d: eval_%s was no better in %d checkpoints in a row, since step "
                         "%d.", step, self.metric, in_vain, since)  # fmt: skip

    def _note(self, step, value, better):
        if better:
            self.checkpoints.mark_best(step, self.metric, value)


# === Job ===
# One model and what a program does with it: train it, bring it back, score it, ask it. Knows no concrete task.


@dataclasses.dataclass
class Trainer:
    """A task and its run, on examples from memory or from a stream. To be used in the scope of a strategy.

    Attributes:
        task: see `tasks/base.py`.
        run: the training run; its output_dir is also where a trained model is sought.
        history: of the training, or None; its page is drawn now and then, and at the end, however it comes.
    """

    task: Any
    run: RunConfig
    history: History | None = None

    def __post_init__(self):
        self.checkpoints = CheckpointManager(self.run.output_dir, keep=self.run.keep_checkpoints)
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
        """Trains to the end of the run, from the starting point that `state.begin` finds.

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
        progress = ProgressLog(run, history=self.history)
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
            check_shapes(own, self.task.config)
            self.model = self.task.build_model()
            self._load(own)
            return
        path = self.run.init_checkpoint
        init = path and open_checkpoint(path, self.task.config.model_type)
        if init:
            check_shapes(init, self.task.config)
            self.model = self.task.build_model()
        unused = heads.unused(self.task)  # which a checkpoint of its model may lack
        if not init or not all(
            v.path in init.names or any(re.fullmatch(pattern, v.path) for pattern in unused)
            for v in self.model.variables
        ):
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
        """Is called by `fit` before the first step, and again after a rollback: `earlier` holds where it began."""
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

    def _load(self, checkpoint):
        logging.info("%s", assign_weights(checkpoint, self.model.variables, heads.unused(self.task)))
