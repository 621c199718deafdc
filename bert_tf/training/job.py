"""One model and what a script does with it: train it, bring it back, score it, ask it. Knows no concrete task."""

import dataclasses
import functools
import re

import numpy as np
from absl import logging

from bert_tf.checkpoints import convert, heads
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.store import Store
from bert_tf.data import dataset
from bert_tf.training import cluster, distribution
from bert_tf.training.actions import KeepBest, Progress
from bert_tf.training.history import History
from bert_tf.training.loop import RunConfig, fit
from bert_tf.training.scoring import Predictor

# XLA compiles a program for every shape: then a few widths are better than many.
_XLA_WIDTHS = 4


@dataclasses.dataclass
class Job:
    """A task on examples that lie tokenized in memory. To be used in the scope of a strategy.

    Attributes:
        task: see `tasks/task.py`.
        run: the training run; its output_dir is also where a trained model is sought.
        max_seq_length: longest row.
        by_length: batches of similar lengths, padded to their longest.
        history: of the training, or None; its page is drawn now and then, and at the end, however it comes.
    """

    task: object
    run: RunConfig
    max_seq_length: int
    by_length: bool = True
    history: History | None = None

    def __post_init__(self):
        self.checkpoints = Store(self.run.output_dir, keep=self.run.keep_checkpoints)
        self.model = None
        self.global_step = 0
        self._predictors = {}

    def train(
        self,
        examples: dataset.Tokenized,
        held_out=None,
        keep_best=None,
        batch_size=8,
        on_begin=lambda: None,
        early_stopping=0,
    ):
        """Trains to the end of the run, from wherever the ladder of `state.begin` says.

        Args:
            examples: to train on.
            held_out: examples for `keep_best`, scored `batch_size` at a time at every checkpoint.
            on_begin: called once the weights to start from are found good: before it, nothing is written.
            keep_best: the metric by which the model is chosen; None: the last step's model is the result.
            early_stopping: with `keep_best`: the run ends after so many checkpoints in a row that were no better, and
                is then finished: trained again, it makes no step. 0: it goes to its last step.
        """
        assert keep_best or not early_stopping
        run, history, order = self.run, self.history, self._training_order(examples)
        if early_stopping:  # they decide where the run ends
            ending = {"early_stopping": early_stopping, "keep_best": keep_best}
            run = dataclasses.replace(run, settings={**run.settings, **ending})
        actions = [Progress(run, history=history)]
        if keep_best:
            actions.append(self._keep_best(keep_best, held_out, batch_size, early_stopping))
        if history:
            actions.append(history)

        def begun(start, state):
            cluster.by_chief(on_begin)
            if history:
                origin = self.checkpoints.prefix(start) if start else run.init_checkpoint
                cluster.by_chief(history.start, start, origin)
            if keep_best and start:  # the run may have been stopped before this checkpoint was scored
                actions[1](start, None, state)

        try:
            state = fit(self.task, run, lambda start: self._batches(examples, order[start:]), actions, begun)
        finally:
            if history:
                history.write_page()
        self.model, self.global_step = state.model, state.ended_at or run.num_train_steps
        if keep_best and (best := self.checkpoints.best()):
            self._load(self.checkpoints.prefix(best.step))
            self.global_step = best.step
            logging.info("The best by %s is step %d: %.5f", best.metric, best.step, best.value)
        cluster.by_chief(self.checkpoints.point_to, self.global_step)

    def restore(self):
        """Loads this run's result, or where there is none the initial checkpoint, which must then have the head too.

        Raises:
            ValueError: neither is there, or the head is missing.
        """
        self.model = self.task.build_model()
        if latest := self.checkpoints.latest():
            best = self.checkpoints.best()
            self.global_step = best.step if best else latest[0]
            self._load(self.checkpoints.prefix(self.global_step))
            return
        init = self.run.init_checkpoint and open_checkpoint(self.run.init_checkpoint, self.task.config.model_type)
        if not init or any(v.path not in init.names and not self._is_unused(v.path) for v in self.model.variables):
            raise ValueError(
                f"There must be a trained model. Received {self.run.output_dir}, which holds no checkpoint, and "
                f"{f'{init.path}, which has no head for this task' if init else 'no --init_checkpoint'}; train one "
                "with --do_train."
            )
        self._load(init)

    def scores(self, examples: dataset.Tokenized, batch_size: int) -> dict[str, float]:
        """Returns the task's metrics and the mean loss."""
        return self._scores(self.model, examples, batch_size)

    def outputs(self, examples: dataset.Tokenized, batch_size: int) -> np.ndarray | dict[str, np.ndarray]:
        """Returns what the task keeps of the model's outputs, an array [n, ...] or a dict of them, in order."""
        return self.outputs_and_losses(examples, batch_size)[0]

    def outputs_and_losses(self, examples: dataset.Tokenized, batch_size: int) -> tuple:
        """Returns what `outputs` returns, and the examples' losses [n], or None where they have no targets."""
        order = self._scoring_order(examples, batch_size)
        return self._predictor(self.model).outputs(self._batches(examples, order), order)

    def _keep_best(self, metric, held_out, batch_size, patience):
        names = (*self.task.metric_names, "loss")
        score = functools.partial(self._scores, examples=held_out, batch_size=batch_size)
        return KeepBest(metric, score, names, self.run, self.checkpoints, self.history, patience)

    def _scores(self, model, examples, batch_size):
        order = self._scoring_order(examples, batch_size)
        return self._predictor(model).scores(self._batches(examples, order), order, examples.targets)

    def _predictor(self, model):
        return self._predictors.setdefault(id(model), Predictor(self.task, model, self.run.step.use_xla))

    def _is_unused(self, path):
        """Whether the task makes nothing of this variable, which a checkpoint of its model may then lack."""
        return any(re.fullmatch(pattern, path) for pattern in heads.unused(self.task))

    def _load(self, path):
        logging.info("%s", convert.load(path, self.model.variables, heads.unused(self.task)))

    def _training_order(self, examples):
        run = self.run
        return dataset.training_order(
            examples.lengths, run.train_batch_size, run.num_train_steps, run.step.seed, self.by_length
        )

    def _scoring_order(self, examples, batch_size):
        distribution.check_batch_size(batch_size, 1, "The batch size of evaluation and prediction")
        return dataset.scoring_order(examples.lengths, batch_size, self.by_length)

    def _batches(self, examples, order):
        step = -(-self.max_seq_length // _XLA_WIDTHS) if self.run.step.use_xla else dataset.WIDTH_STEP
        return dataset.batches(examples, order, self.max_seq_length, self.by_length, step)
