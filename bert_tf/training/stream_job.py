"""One model on batches that stream from files: trained, brought back, scored. `job.Job` does so in memory."""

import dataclasses
from collections.abc import Callable

from absl import logging

from bert_tf.checkpoints import convert, heads
from bert_tf.checkpoints.store import Store
from bert_tf.training import cluster
from bert_tf.training.actions import Events, Progress
from bert_tf.training.evaluation import Evaluator
from bert_tf.training.history import History
from bert_tf.training.loop import RunConfig, fit


@dataclasses.dataclass
class StreamJob:
    """A task that scores by sums. To be used in the scope of a strategy.

    Attributes:
        task: see `tasks/task.py`; with `sums` and `scores`, as `evaluation.Evaluator` needs them.
        run: the training run; its output_dir is also where a trained model is sought.
        history: of the run.
        held_out: returns the batches to score on, from the first one.
        scores_as_it_goes: score at each checkpoint.
    """

    task: object
    run: RunConfig
    history: History
    held_out: Callable
    scores_as_it_goes: bool = False

    def __post_init__(self):
        self.checkpoints = Store(self.run.output_dir, keep=self.run.keep_checkpoints)
        self.model = self._evaluator = None
        self.global_step, self._last = 0, (None, None)  # _last: the step that was scored last, and its scores

    def train(self, batches: Callable, on_begin: Callable):
        """Trains to the end of the run, from wherever the ladder of `state.begin` says.

        Args:
            batches: as `loop.fit` takes it.
            on_begin: called once, with the model, when the weights to start from are found good: before it, nothing is
                written.
        """
        begun = []

        def begin(start, state):
            if not begun:
                cluster.by_chief(on_begin, state.model)
                begun.append(start)
            origin = self.checkpoints.prefix(start) if start else self.run.init_checkpoint
            cluster.by_chief(self.history.start, start, origin)

        actions = [Progress(self.run, history=self.history), *([self._score] * self.scores_as_it_goes), self.history]
        self.events = Events(self.run.output_dir, "eval")
        try:
            self.model = fit(self.task, self.run, batches, actions, begin).model
        finally:
            self.history.write_page()
        self.global_step = self.run.num_train_steps

    def restore(self):
        """Loads this run's newest checkpoint.

        Raises:
            ValueError: there is none.
        """
        latest = self.checkpoints.latest()
        if not latest:
            raise ValueError(
                f"There must be a pretrained model. Received {self.run.output_dir}, which holds no checkpoint; train "
                "one with --do_train."
            )
        self.model, (self.global_step, prefix) = self.task.build_model(), latest
        logging.info("%s", convert.load(prefix, self.model.variables, heads.unused(self.task)))

    def scores(self) -> dict[str, float]:
        """Returns the task's scores on the held-out batches."""
        step, scores = self._last
        return scores if step == self.global_step else self._scores(self.model)

    def _scores(self, model):
        if self._evaluator is None or self._evaluator.model is not model:
            self._evaluator = Evaluator(self.task, model, self.run.step.use_xla)
        return self._evaluator.scores(self.held_out())

    def _score(self, step, results, state):
        """The action that scores at each checkpoint."""
        if self.run.saves_at(step):
            scores = self._scores(state.model)
            self._last = step, scores
            logging.info("step %d  held out: %s", step, "  ".join(f"{k} {v:.4f}" for k, v in scores.items()))
            cluster.by_chief(self._tell, step, scores)

    def _tell(self, step, scores):
        self.history.evaluated(step, scores)
        self.events.write(step, scores)
