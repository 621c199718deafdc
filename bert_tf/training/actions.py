"""What happens beside a step: small callables, action(step, results, state), that the loop knows nothing of."""

import os
import time

import tensorflow as tf
from absl import logging

from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.progress import clock


class Events:
    """Scalars for TensorBoard in `output_dir`/`name`; nothing is made there before the first."""

    def __init__(self, output_dir, name):
        self.directory = os.path.join(output_dir, name)
        self.writer = None

    def write(self, step, values: dict[str, float]):
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
    """

    def __init__(self, run, every: int | None = None):
        self.run = run
        self.every = every or max(1, min(100, run.num_train_steps // 50))
        self.events = Events(run.output_dir, "train")
        self.since = None  # (step, time) of the last line; the first step is not counted, for it builds the graph
        self.skipped = 0

    def __call__(self, step, results, state):
        self.skipped += int(results["skipped"])
        if self.since is None:
            float(results["loss"])  # waits for the device
            self.since = step, time.perf_counter()
        elif step % self.every == 0 or step == self.run.num_train_steps:
            self._report(step, {name: float(results[name]) for name in ("loss", "gradient_norm")}, state)

    def _report(self, step, values, state):
        (since, start), now = self.since, time.perf_counter()
        self.since = step, now
        values["examples_per_second"] = (step - since) * self.run.train_batch_size / (now - start)
        values["learning_rate"] = float(state.optimizer.learning_rate)
        left = (self.run.num_train_steps - step) * self.run.train_batch_size / values["examples_per_second"]
        logging.info(
            "step %d/%d  loss %.4f  %.1f examples/s  %s left%s",
            *(step, self.run.num_train_steps, values["loss"], values["examples_per_second"], clock(left)),
            f"  {self.skipped} steps skipped (gradients overflowed)" if self.skipped else "",
        )
        self.events.write(step, values)


class KeepBest:
    """Scores every checkpoint on held-out examples and notes the best, which is then kept from deletion.

    Args:
        metric: "accuracy", "loss", ..., with or without "eval_".
        score: takes the model and returns {metric: value}.
        names: the metrics that `score` returns.
        run: a `RunConfig`.
        checkpoints: the run's `Store`.

    Raises:
        ValueError: there is no such metric.
    """

    def __init__(self, metric, score, names, run, checkpoints):
        self.metric = metric.removeprefix("eval_")
        if self.metric not in names:
            raise ValueError(f"--keep_best must name one of {sorted(names)}. Received: {metric!r}.")
        self.higher = higher_is_better(self.metric)
        self.score, self.run, self.checkpoints = score, run, checkpoints
        self.events = Events(run.output_dir, "eval")

    def __call__(self, step, results, state):
        if not self.run.saves_at(step):
            return
        scores = self.score(state.model)
        value, best = scores[self.metric], self.checkpoints.best()
        better = best is None or (value > best.value if self.higher else value < best.value)
        if better:
            self.checkpoints.mark_best(step, self.metric, value)
        logging.info("step %d  eval_%s = %.5f%s", step, self.metric, value, "  (best so far)" if better else "")
        self.events.write(step, scores)
