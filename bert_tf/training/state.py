"""A training run: its settings, its state in checkpoints, and the weights that it starts from."""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints import heads, name_maps
from bert_tf.checkpoints.assign_weights import assign_weights, check_shapes
from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.weight_files import check_finite
from bert_tf.models.lora import is_adapter
from bert_tf.training.layer_rates import LayerRates, top_layers
from bert_tf.training.loss_spike_guard import Rollback
from bert_tf.training.memory import available_memory, check_weights
from bert_tf.training.optimizers import make_optimizer
from bert_tf.training.schedules import run_schedule
from bert_tf.training.settings import AdamConfig
from bert_tf.training.step import StepConfig, TrainStep
from bert_tf.training.weight_average import WeightAverage
from bert_tf.training.word_rate import WordRate
from bert_tf.utils.manifest import check_same
from bert_tf.utils.progress import Stopwatch

# === Settings ===


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Settings of a training run.

    Attributes:
        output_dir: directory of checkpoints and TensorBoard events.
        train_batch_size: examples per step, over all replicas and micro-batches.
        num_train_steps: total number of steps, including those before an interruption.
        num_warmup_steps: number of warmup steps.
        learning_rate: its peak; None: `fine_tuning.with_tested_rate` must choose it before `fit`.
        init_checkpoint: weights to start from, or None.
        save_checkpoints_steps: steps between two checkpoints.
        keep_checkpoints: how many of the last checkpoints to keep.
        keep_optimizer: keep the optimizer's state in the result of the finished run; only further steps need it.
        overwrite: start over instead of resuming the run in output_dir.
        optimizer, schedule: names in `OPTIMIZERS` and `SCHEDULES`.
        adam: the optimizer's hyperparameters.
        step: settings of a step.
        rollback: when to roll back to a checkpoint; None: never. It requires a guard in `step`.
        layer_rates: learning-rate factors of layers or of word embeddings; None: all alike.
        reinit_layers: this many of the top layers, and the pooler, start from random weights rather than from
            `init_checkpoint` (Zhang et al. 2021, arXiv 2006.05987, section 5).
        average_weights: the run's result, also in checkpoints, is a running mean of the weights, as old on average as a
            plain mean over the last steps, this share of all steps; 0: the weights themselves. See `WeightAverage`.
        label_rows: rows of `init_checkpoint`'s head that the task's head starts from. None: the whole head, if it has
            the same shape, otherwise none.
        first_weights: returns {variable path: array} to start from instead of random weights; called only if the run
            starts without `init_checkpoint`. None: no such weights.
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
    layer_rates: LayerRates | WordRate | None = None
    reinit_layers: int = 0
    average_weights: float = 0.0
    label_rows: heads.LabelRows | None = None
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


# === State ===


_SETTINGS = "training/settings"
_UNAVERAGED = "training/unaveraged/"  # before the name of a weight whose mean has the name itself
_UNREPORTED = "training/unreported"  # JSON: results of steps that are not in the history yet
_ENDED = "training/ended"  # present if the run has ended and the state for further steps was dropped
_SLOTS = ("/adam_m", "/adam_v")
_REMEDY = "Use another `output_dir`, or pass `overwrite_output_dir` to start over."

END = {_ENDED: np.int64(1)}


@dataclasses.dataclass
class TrainingState:
    """The state of a run: variables of the model, optimizer and step, under google-research/bert's names in a file.

    Attributes:
        model, optimizer, step: of the run.
        settings: settings that must be equal when the run resumes.
        ended_at: the step after which the run ends early, or had already ended when it was restored; None: neither.
            Callbacks set it.
        watch: runs during steps, but not while checkpoints are saved and evaluated.
        unreported: results of the steps since the last line of the history, which is a mean over
            them and must not depend on interruptions.
        label_rows: rows of another model's head that the head started from in this process, or None.
    """

    model: object
    optimizer: object
    step: object
    settings: dict
    ended_at: int | None = None
    watch: Stopwatch = dataclasses.field(default_factory=Stopwatch)
    unreported: list[dict] = dataclasses.field(default_factory=list)
    label_rows: heads.LabelRows | None = None

    def tensors(self, ended: bool = False) -> dict:
        """Returns {name: variable or tensor}, for `CheckpointManager.save`.

        Args:
            ended: leave out the state that only further steps need; False: include everything.
        """
        named = self._weights()
        for path, slot in self.optimizer.slots(self.model.trainable_variables).items():
            path, kind = path.rsplit("/", 1)
            named[f"{name_maps.TF1.from_ours(path)}/{kind}"] = slot
        named["global_step"] = self.optimizer.iterations
        named |= {f"training/{name}": variable for name, variable in self.step.variables().items()}
        named |= {_SETTINGS: tf.constant(json.dumps(self.settings, sort_keys=True))}
        self.unreported = [{name: float(value) for name, value in results.items()} for results in self.unreported]
        named |= {_UNREPORTED: tf.constant(json.dumps(self.unreported))}
        return {name: value for name, value in named.items() if is_of_model(name)} | END if ended else named

    def _weights(self):
        """Returns {name: variable} of the model; with averaged weights, the means, which readers of a model need."""
        named = {name_maps.TF1.from_ours(v.path): v for v in self.model.variables}
        if average := self.step.average:
            paths = [name_maps.TF1.from_ours(v.path) for v in average.variables]
            named |= {f"{_UNAVERAGED}{path}": named[path] for path in paths}
            named |= dict(zip(paths, average.means, strict=True))
        return named

    def restore(self, saved: dict, path: str, step: int):
        """Restores the state that `tensors` saved after `step`, and sets `ended_at` if the run had ended.

        The optimizer's own step, "global_step" in `saved`, does not count the steps that were skipped.

        Raises:
            ValueError: the run had other settings, or another model, or a value is not finite.
        """
        if _SETTINGS not in saved:
            raise ValueError(
                f"A run resumes only from a checkpoint that it wrote itself. {path} holds no "
                "run settings. Pass another `output_dir`, or pass `overwrite_output_dir`."
            )
        check_same(path, json.loads(saved[_SETTINGS]), self.settings, _REMEDY)
        of_run = {_SETTINGS, _UNREPORTED, _ENDED}
        here = {name: variable for name, variable in self.tensors(_ENDED in saved).items() if name not in of_run}
        if missing := sorted(here.keys() - saved.keys()):
            raise ValueError(
                f"{path} does not hold the complete state of this run: {missing[:10]} are missing. Restore a newer "
                "checkpoint, or pass `overwrite_output_dir` to start over."
            )
        if extra := sorted(saved.keys() - here.keys() - of_run):
            raise ValueError(f"{path} holds more than this run's model: {extra[:10]}. {_REMEDY}")
        for name in here:
            check_finite(saved[name], name, path)
        for name, variable in here.items():
            variable.assign(saved[name])
        self.unreported = json.loads(saved.get(_UNREPORTED, "[]"))
        if _ENDED in saved:
            self.ended_at = step


def is_of_model(name: str) -> bool:
    """Returns whether a run that has ended still needs the tensor with this name."""
    return not name.endswith(_SLOTS) and not name.startswith(_UNAVERAGED)


# === Start ===


def first_state(task, run: RunConfig, schedule=None) -> tuple[TrainingState, int]:
    """Returns the state that a run starts from, and its step. Writes nothing; call it in the scope of a strategy.

    The state is the first of these that applies:

    1. This run's own newest complete checkpoint, unless `overwrite` is set: the run was interrupted or has finished.
    2. `init_checkpoint`: another model's weights, except for the top `reinit_layers`; optimizer and step are new.
    3. Random weights, or `first_weights`.

    `init_checkpoint` and the free memory are checked before the model is built, since building it takes that memory.

    Args:
        task: see `tasks/base.py`.
        run: the run.
        schedule: the learning-rate schedule; None: the run's own.

    Raises:
        ValueError: a checkpoint does not fit, its configuration does not describe it, there are fewer than
            `reinit_layers` layers, or the memory cannot hold the weights.
    """
    checkpoints, initial = CheckpointManager(run.output_dir), None
    own = None if run.overwrite else checkpoints.latest()
    if run.init_checkpoint and not own:
        initial = open_checkpoint(run.init_checkpoint, task.config.model_type)
        check_shapes(initial, task.config, run.reinit_layers)
    check_weights(task.config, available_memory())
    model = task.build_model()
    optimizer = _build_optimizer(run, model, schedule or run_schedule(run))
    average = WeightAverage(model.trainable_variables, run.average_weights) if run.average_weights else None
    state = TrainingState(model, optimizer, TrainStep(task, model, optimizer, run.step, average), run.identity())
    if own:
        step, prefix = own
        state.restore(checkpoints.restore(prefix), prefix, step)
        logging.info("Continuing this run from step %d: %s", step, prefix)
        return state, step
    if initial:
        state.label_rows = _load_initial(model.variables, initial, task, run)
    else:
        logging.warning("No `init_checkpoint`: training starts from random weights.")
        weights = run.first_weights() if run.first_weights else {}
        for variable in (v for v in model.variables if v.path in weights):
            variable.assign(weights[variable.path])
    if average:
        average.begin()
    return state, 0


def _build_optimizer(run, model, schedule):
    """Freezes layers according to the run's settings, and returns the optimizer of the remaining variables."""
    rules = ()
    if run.layer_rates:
        run.layer_rates.freeze_in(model.variables)
        rules = run.layer_rates.rules()
        logging.info("%s", run.layer_rates.describe(run.num_train_steps))
    optimizer = make_optimizer(run.optimizer, schedule, run.adam, rules)
    optimizer.build(model.trainable_variables)
    return optimizer


def _load_initial(variables, checkpoint, task, run):
    """Loads all but the top `reinit_layers` and the pooler, which keep their random initial weights.

    Adapters start from scratch; those of the checkpoint, if any, are merged into the kernels. Returns the `LabelRows`
    by which the head was loaded, or None.
    """
    reinit_layers = run.reinit_layers
    new = top_layers([v.path for v in variables], reinit_layers) if reinit_layers else ()
    fresh = [v.path for v in variables if any(re.fullmatch(pattern, v.path) for pattern in new)]
    excuse = (*heads.fresh(task), *heads.unused(task), *new)
    targets = [v for v in variables if v.path not in fresh and not is_adapter(v.path)]
    kept = run.label_rows and heads.rows_in(checkpoint, run.label_rows, variables, task)
    outputs = [v.path for v in variables if kept and re.fullmatch(heads.OUTPUTS, v.path)]
    if kept and kept.reason:
        targets = [v for v in targets if v.path not in outputs]
    targets = heads.started_from_masked_lm(targets, checkpoint.names, task.config)
    logging.info("%s", assign_weights(checkpoint, targets, excuse, rows=dict.fromkeys(outputs, kept and kept.rows)))
    if kept:
        logging.info("%s", kept)
    if new:
        logging.warning(
            "The top %d layers and the pooler start from random weights, not from %s: %d variables, %s.",
            *(reinit_layers, checkpoint.path, len(fresh), ", ".join(new)),
        )
    return kept
