"""The settings of a training run."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from bert_tf.checkpoints.label_rows import LabelRows
from bert_tf.training.layer_rates import LayerRates
from bert_tf.training.loss_spike_guard import Rollback
from bert_tf.training.settings import AdamConfig
from bert_tf.training.step import StepConfig
from bert_tf.training.word_rate import EmbeddingLrFactor


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Settings of a training run.

    Attributes:
        output_dir: directory of checkpoints and TensorBoard events.
        train_batch_size: examples per step, over all replicas and micro-batches.
        num_train_steps: total number of steps, including those before an interruption.
        num_warmup_steps: number of warmup steps.
        learning_rate: its peak; if None, `with_tested_rate` must choose it before `fit`.
        init_checkpoint: weights to start from, or None.
        save_checkpoints_steps: steps between two checkpoints.
        keep_checkpoints: how many of the last checkpoints to keep.
        keep_optimizer: keep the optimizer's state in the result of the finished run; only further steps need it.
        overwrite: start over instead of resuming the run in output_dir.
        optimizer, schedule: names in `OPTIMIZERS` and `SCHEDULES`.
        adam: the optimizer's hyperparameters.
        step: settings of a step.
        rollback: when to roll back to a checkpoint; None means never. It requires a guard in `step`.
        layer_rates: learning-rate factors of layers or of word embeddings; None if all are alike.
        reinit_layers: this many of the top layers, and the pooler, start from random weights rather than from
            `init_checkpoint` (Zhang et al. 2021, arXiv 2006.05987, section 5).
        average_weights: the run's result, also in checkpoints, is a running mean of the weights, as old on average as a
            plain mean over the last steps, this fraction of all steps; 0 for the weights themselves. See
            `WeightAverage`.
        label_rows: rows of `init_checkpoint`'s head that the task's head starts from. If None, the whole head, if it
            has the same shape, otherwise none.
        first_weights: returns {variable path: array} to start from instead of random weights; called only if the run
            starts without `init_checkpoint`. If None, no such weights.
        settings: anything else that affects the result, such as the names and hashes of the data files; JSON values.
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
    layer_rates: LayerRates | EmbeddingLrFactor | None = None
    reinit_layers: int = 0
    average_weights: float = 0.0
    label_rows: LabelRows | None = None
    first_weights: Callable[[], Mapping[str, np.ndarray]] | None = None
    settings: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        assert self.rollback is None or self.step.guard, "rollback needs a guard"

    @property
    def report_steps(self) -> int:
        """Returns the number of steps between two readings of the steps' results: about fifty readings per run."""
        return max(1, min(100, self.num_train_steps // 50))

    def saves_at(self, step: int) -> bool:
        """Returns whether to write a checkpoint after `step`."""
        return step % self.save_checkpoints_steps == 0 or step == self.num_train_steps

    def saves_after(self, step: int) -> int:
        """Returns the number of checkpoints between `step` and the end of the run."""
        every, last = self.save_checkpoints_steps, self.num_train_steps
        return last // every - step // every + (last % every > 0 and step < last)

    def identity(self) -> dict:
        """Returns the settings that must be equal for a run to resume: all that affect what a step computes."""
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
