"""The state that a training run starts from: its own checkpoint, another model's weights, or random weights."""

import re

from absl import logging

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.config_shapes import check_shapes
from bert_tf.checkpoints.head_first_layers import started_from_masked_lm
from bert_tf.checkpoints.label_rows import rows_in
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.models.lora import is_adapter
from bert_tf.training.layer_rates import top_layers
from bert_tf.training.memory_budget import available_memory, check_weights
from bert_tf.training.optimizers import make_optimizer
from bert_tf.training.run_config import RunConfig
from bert_tf.training.schedules import run_schedule
from bert_tf.training.state import TrainingState
from bert_tf.training.step import TrainStep
from bert_tf.training.weight_average import WeightAverage


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
        schedule: the learning-rate schedule; None for the run's own.

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
    allow_unmatched = (*heads.fresh(task), *heads.unused(task), *new)
    targets = [v for v in variables if v.path not in fresh and not is_adapter(v.path)]
    kept = run.label_rows and rows_in(checkpoint, run.label_rows, variables, task)
    outputs = [v.path for v in variables if kept and re.fullmatch(heads.OUTPUTS, v.path)]
    if kept and kept.reason:
        targets = [v for v in targets if v.path not in outputs]
    targets = started_from_masked_lm(targets, checkpoint.names, task.config)
    rows = dict.fromkeys(outputs, kept and kept.rows)
    logging.info("%s", assign_weights(checkpoint, targets, allow_unmatched, rows=rows))
    if kept:
        logging.info("%s", kept)
    if new:
        logging.warning(
            "The top %d layers and the pooler start from random weights, not from %s: %d variables, %s.",
            *(reinit_layers, checkpoint.path, len(fresh), ", ".join(new)),
        )
    return kept
