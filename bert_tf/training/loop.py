"""The one loop that every job trains with."""

import dataclasses
from collections.abc import Callable, Iterable

from bert_tf.checkpoints.store import Store
from bert_tf.training import distribution
from bert_tf.training.optimizer import AdamW
from bert_tf.training.schedule import WarmupLinearDecay
from bert_tf.training.state import TrainingState, begin
from bert_tf.training.step import StepConfig, TrainStep


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A training run.

    Attributes:
        output_dir: where checkpoints and events go.
        train_batch_size: examples a step, over all replicas and micro-batches.
        num_train_steps: steps in all, those before an interruption counted in.
        num_warmup_steps: steps over which the rate rises.
        learning_rate: its peak.
        init_checkpoint: weights to start from, or None.
        save_checkpoints_steps: steps between two checkpoints.
        keep_checkpoints: how many of the last ones stay.
        anew: do not continue the run that lies in output_dir.
        step: how a step is made.
        settings: whatever else decides the result, such as the names and hashes of the data files; JSON values.
    """

    output_dir: str
    train_batch_size: int
    num_train_steps: int
    num_warmup_steps: int = 0
    learning_rate: float = 5e-5
    init_checkpoint: str | None = None
    save_checkpoints_steps: int = 1000
    keep_checkpoints: int = 5
    anew: bool = False
    step: StepConfig = dataclasses.field(default_factory=StepConfig)
    settings: dict = dataclasses.field(default_factory=dict)

    def saves_at(self, step: int) -> bool:
        """Says whether a checkpoint is written after `step`."""
        return step % self.save_checkpoints_steps == 0 or step == self.num_train_steps

    def identity(self) -> dict:
        """Returns what must be equal for a run to be continued: all that changes what a step computes."""
        names = ("train_batch_size", "num_train_steps", "num_warmup_steps", "learning_rate")
        step = {"seed": self.step.seed, "gradient_accumulation_steps": self.step.accumulation}
        return {name: getattr(self, name) for name in names} | step | self.settings


def fit(task, run: RunConfig, batches: Callable, actions: Iterable[Callable] = (), on_begin: Callable | None = None):
    """Trains a task's model to the end of the run, and returns the `TrainingState`.

    To be called in the scope of a strategy.

    Args:
        task: see `tasks/task.py`.
        run: the run.
        batches: takes the step at which to begin and returns the batches from there on, dicts of tensors [B, ...].
        on_begin: called as on_begin(start, state) once the weights to start from are loaded and found good: before it,
            nothing is written.
        actions: each is called as action(step, results, state) after every step: `actions.py` has them.
    """
    distribution.check_batch_size(run.train_batch_size, run.step.accumulation, "--train_batch_size")
    model = task.build_model()
    optimizer = AdamW(WarmupLinearDecay(run.learning_rate, run.num_train_steps, run.num_warmup_steps))
    optimizer.build(model.trainable_variables)
    state = TrainingState(model, optimizer, TrainStep(task, model, optimizer, run.step), run.identity())
    checkpoints = Store(run.output_dir, keep=run.keep_checkpoints)
    start = begin(state, checkpoints, run.init_checkpoint, task, run.anew)
    if on_begin:
        on_begin(start, state)
    for step, batch in zip(range(start + 1, run.num_train_steps + 1), batches(start), strict=False):
        results = state.step(batch)
        if run.saves_at(step):
            checkpoints.save(step, state.tensors())
        for action in actions:
            action(step, results, state)
    return state
