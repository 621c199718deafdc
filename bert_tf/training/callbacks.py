"""Training callbacks: progress lines, TensorBoard, evaluation on held-out examples, and keeping the best checkpoint."""

import math
import os

import tensorflow as tf
from absl import logging

from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.training.workers import by_chief, is_chief, total
from bert_tf.utils.progress import ProgressBar, clock

# Step results that are not plotted as curves.
_COUNTS = {"skipped", "skipped_in_a_row", "examples", "tokens", "broken"}
_RATES = ("examples_per_second", "tokens_per_second")
_NO_PARTS = {"loss", "gradient_norm"}  # not loss components
_KEPT = 0.98  # decay per line: the steps of one line may all have short sequences, or all long ones


class Events:
    """Writes TensorBoard scalars to `output_dir`/`name` on the chief; creates no file before the first value."""

    def __init__(self, output_dir, name):
        self.directory = os.path.join(output_dir, name)
        self.writer = None

    def write(self, step, values: dict[str, float]):
        if not is_chief():
            return
        self.writer = self.writer or tf.summary.create_file_writer(self.directory)
        with self.writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self.writer.flush()


class ProgressLog:
    """Logs loss, throughput and time left, and writes them for TensorBoard to `output_dir`/train.

    On a terminal they appear next to a progress bar, and only the last line is logged.

    Args:
        run: a `RunConfig`.
        every: steps between two lines; by default about fifty lines per run.
        history: the run's `History`, which records the same values, or None.

    `state.unreported` contains the results of the steps since the last line, including those before an interruption, so
    an interrupted run logs the same lines, apart from rates and times. `loss`, its components and `gradient_norm` are
    means over these steps, not counting skipped ones; NaN if all were skipped. `skipped` (0 or 1), `examples` and
    `tokens` (of the batch, without padding) are summed. Throughput excludes the time spent saving and evaluating. The
    time left includes it; it is estimated from the mean pace since this process started, in which older lines count
    less.
    """

    def __init__(self, run, every: int | None = None, history=None):
        self.run, self.history = run, history
        self.every = every or run.report_steps
        self.events = Events(run.output_dir, "train")
        self.bar, self.line = ProgressBar(), ""
        self.why_skipped = "bad steps skipped" if run.step.guard else "steps skipped (gradients overflowed)"
        self.since = None  # seconds on the watch at the last line; the untimed first step builds the graph
        self.untimed = 0  # how many of the steps since the last line
        self.pace_seconds = self.pace_steps = 0.0  # sums over the lines so far, in which older lines fade
        self.saves = self.skipped = 0  # checkpoints, and steps skipped, since this process started

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
        """Resumes after `step`, and writes its line now if the run was stopped before it could be written."""
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
        steps = state.unreported
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
        state.unreported = []  # last: if a signal comes before, they are saved, and `resume` reports them

    def _pace(self, step, timed, watch):
        """Returns the throughput of the timed steps and its log text; both are empty if no step was timed."""
        if not timed:
            return {}, ""
        now = watch.seconds()
        seconds, self.since = now - self.since, now
        rates = [sum(int(results[name]) for results in timed) / seconds for name in ("examples", "tokens")]
        self.pace_seconds = _KEPT * self.pace_seconds + seconds
        self.pace_steps = _KEPT * self.pace_steps + len(timed)
        pauses = watch.paused / self.saves * self.run.saves_after(step) if self.saves else 0.0
        left = clock(self.pace_seconds / self.pace_steps * (self.run.num_train_steps - step) + pauses)
        examples, tokens = rates
        text = f"  {examples:.1f} examples/s  {tokens:.0f} tokens/s  {left} left"
        return dict(zip(_RATES, rates, strict=True)), text


def _means(steps):
    """Returns {curve: mean over the steps that were not skipped}."""
    made = [results for results in steps if not float(results["skipped"])]
    names = [name for name in steps[0] if name not in _COUNTS]
    return {name: sum(float(results[name]) for results in made) / len(made) if made else math.nan for name in names}


def _parts(means):
    """Returns the loss components for the log; empty if there is only one, the loss itself."""
    parts = [f"{name} {value:.4f}" for name, value in means.items() if name not in _NO_PARTS]
    return f" ({', '.join(parts)})" if len(parts) > 1 else ""


class ScoreCheckpoints:
    """Evaluates every checkpoint on held-out examples, for the log, the report and TensorBoard (`output_dir`/eval).

    Args:
        score: takes (step, model) and returns {metric: value}.
        run: a `RunConfig`.
        checkpoints: the run's `CheckpointManager`.
        history: the run's `History`, which records the metrics too, or None.
    """

    def __init__(self, score, run, checkpoints, history=None):
        self.score, self.run, self.checkpoints, self.history = score, run, checkpoints, history
        self.events = Events(run.output_dir, "eval")

    def __call__(self, step, results, state):
        if self.run.saves_at(step):
            with state.watch.pause(after=results["loss"]):
                self._score(step, state)

    def resume(self, step, state):
        """Evaluates the checkpoint that the run resumes from, if the run stopped before its metrics were recorded."""
        has_scores = self.history is not None and self.history.has("eval", step)
        (missing,) = total([is_chief() and not has_scores])  # the chief decides: only the chief has the history
        if step and missing and self.run.saves_at(step):
            self._score(step, state)

    def _score(self, step, state):
        scores = self.score(step, state.model)
        self.take(step, scores, state)
        self.events.write(step, scores)
        if self.history:
            self.history.evaluated(step, scores)

    def take(self, step, scores, state):
        """Processes the metrics; this class logs them."""
        line = "  ".join(f"{name} {value:.4f}" for name, value in scores.items())
        logging.info("step %d  evaluation: %s", step, line)


class KeepBest(ScoreCheckpoints):
    """Evaluates every checkpoint, records the best one and protects it from deletion.

    A metric that is NaN or infinite is never the best. With `patience`, it ends the run early by setting
    `state.ended_at`. This depends only on the step and on the best checkpoint recorded on disk, so a run that has
    stopped early stays stopped.

    Args:
        score, run, checkpoints, history: as in `ScoreCheckpoints`.
        metric: "accuracy", "loss", ..., with or without "eval_".
        names: the metrics that `score` returns.
        patience: the run stops after this many checkpoints without improvement; if 0, it never stops early.

    Raises:
        ValueError: `score` does not return this metric.
    """

    def __init__(self, score, run, checkpoints, history, metric, names, patience=0):
        super().__init__(score, run, checkpoints, history)
        self.metric = metric.removeprefix("eval_")
        if self.metric not in names:
            raise ValueError(f"`metric_for_best_model` must be one of {sorted(names)}; got {metric!r}.")
        self.higher = higher_is_better(self.metric)
        self.patience = patience

    def resume(self, step, state):
        super().resume(step, state)
        if state.ended_at is None:  # otherwise it has just been evaluated
            self._end_if_due(step, state)

    def take(self, step, scores, state):
        value, best = scores[self.metric], self.checkpoints.best()
        better = best is None or (value > best.value if self.higher else value < best.value)
        better = better and math.isfinite(value)
        by_chief(self._note, step, value, better)  # all workers must call it, even if the value is recorded already
        logging.info("step %d  eval_%s = %.5f%s", step, self.metric, value, "  (best so far)" if better else "")
        self._end_if_due(step, state)

    def _end_if_due(self, step, state):
        best = self.checkpoints.best()
        since = best.step if best else 0
        in_vain = sum(self.run.saves_at(later) for later in range(since + 1, step + 1))
        if self.patience and in_vain >= self.patience and step < self.run.num_train_steps:
            state.ended_at = step
            logging.info("Stopped early after step %d: eval_%s has not improved for %d checkpoints in a row, since "
                         "step %d.", step, self.metric, in_vain, since)  # fmt: skip

    def _note(self, step, value, better):
        if better:
            self.checkpoints.mark_best(step, self.metric, value)
