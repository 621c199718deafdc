"""What happens beside a step: small callables, action(step, results, state), that the loop knows nothing of."""

import math
import os
import time

import tensorflow as tf
from absl import logging

from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.progress import clock
from bert_tf.training import cluster

_COUNTS = {"skipped", "skipped_in_a_row", "examples", "tokens"}  # results of a step that are no curves of their own


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


class Progress:
    """Logs loss, rate and time left, and writes them for TensorBoard to `output_dir`/train.

    Args:
        run: a `RunConfig`.
        every: steps between two lines; by default some fifty lines a run.
        history: the run's `History`, which gets the same values, or None.

    Of a step's results it takes `loss`, `gradient_norm` and others as they are; `skipped` (0 or 1), `examples` and
    `tokens` (of the batch, without padding) it adds up.
    """

    def __init__(self, run, every: int | None = None, history=None):
        self.run, self.history = run, history
        self.every = every or max(1, min(100, run.num_train_steps // 50))
        self.events = Events(run.output_dir, "train")
        self.why_skipped = "bad steps skipped" if run.step.guard else "steps skipped (gradients overflowed)"
        self.since = None  # (step, time) of the last line; the first step is not counted, for it builds the graph
        self.skipped = self.history_skips = 0  # steps, and those of them that the history knows of
        self.examples = self.tokens = 0  # since the last line

    def __call__(self, step, results, state):
        self.skipped += int(results["skipped"])
        self.examples, self.tokens = self.examples + int(results["examples"]), self.tokens + int(results["tokens"])
        if self.since is None:
            float(results["loss"])  # waits for the device
            self.since, self.examples, self.tokens = (step, time.perf_counter()), 0, 0
        elif step % self.every == 0 or step == self.run.num_train_steps:
            self._report(step, {name: float(results[name]) for name in results if name not in _COUNTS}, state)

    def _report(self, step, values, state):
        (since, start), now = self.since, time.perf_counter()
        values["examples_per_second"], values["tokens_per_second"] = (
            count / (now - start) for count in (self.examples, self.tokens)
        )
        values["learning_rate"] = float(state.optimizer.learning_rate)
        left = (self.run.num_train_steps - step) * (now - start) / (step - since)
        self.since, self.examples, self.tokens = (step, now), 0, 0
        logging.info(
            "step %d/%d  loss %.4f  %.1f examples/s  %.0f tokens/s  %s left%s",
            *(step, self.run.num_train_steps, values["loss"]),
            *(values["examples_per_second"], values["tokens_per_second"], clock(left)),
            f"  {self.skipped} {self.why_skipped}" if self.skipped else "",
        )
        self.events.write(step, values)
        if self.history:
            self.history.trained(step, {**values, "skipped": self.skipped - self.history_skips})
            self.history_skips = self.skipped


class ScoreCheckpoints:
    """Scores every checkpoint on held-out examples, for the log, the run's page and TensorBoard (`output_dir`/eval).

    Args:
        score: takes (step, model) and returns {metric: value}.
        run: a `RunConfig`.
        checkpoints: the run's `Store`.
        history: the run's `History`, which gets the scores too, or None.
    """

    def __init__(self, score, run, checkpoints, history=None):
        self.score, self.run, self.checkpoints, self.history = score, run, checkpoints, history
        self.events = Events(run.output_dir, "eval")

    def __call__(self, step, results, state):
        if self.run.saves_at(step):
            scores = self.score(step, state.model)
            self.take(step, scores, state)
            self.events.write(step, scores)
            if self.history:
                self.history.evaluated(step, scores)

    def take(self, step, scores, state):
        """Makes of the scores what is to be made of them: here, a line in the log."""
        logging.info("step %d  held out: %s", step, "  ".join(f"{name} {value:.4f}" for name, value in scores.items()))


class KeepBest(ScoreCheckpoints):
    """Notes the best of the checkpoints that it scores, which is then kept from deletion.

    A score that is no number is never the best. With `patience` it ends the run, by `state.ended_at`: as a function of
    the step and of the best one that is noted on the disk, so that a run that has ended so has ended for good.

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

    def take(self, step, scores, state):
        value, best = scores[self.metric], self.checkpoints.best()
        better = best is None or (value > best.value if self.higher else value < best.value)
        better = better and not math.isnan(value)
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
