"""The state of a run in its checkpoints, and where a run begins: its own checkpoint, other weights, random ones."""

import dataclasses
import json
import re

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints import heads, name_maps, store
from bert_tf.checkpoints.assign_weights import assign_weights, check_shapes
from bert_tf.checkpoints.readers import check_finite, open_checkpoint
from bert_tf.models.lora import is_adapter
from bert_tf.training.learning_rate import top_layers
from bert_tf.training.memory import available_memory, check_weights
from bert_tf.utils.manifest import check_same
from bert_tf.utils.progress import Stopwatch

_SETTINGS = "training/settings"
_UNAVERAGED = "training/unaveraged/"  # before the name of a weight whose mean has the name itself
_UNREPORTED = "training/unreported"  # JSON: what the steps returned that no line of the history is of yet
_ENDED = "training/ended"  # is there where the run has ended, and what only more steps would need is gone
_SLOTS = ("/adam_m", "/adam_v")
_REMEDY = "Name another `output_dir`, or pass `overwrite_output_dir` to start over."

END = {_ENDED: np.int64(1)}


@dataclasses.dataclass
class TrainingState:
    """The variables of a run: the model's, the optimizer's, the step's; by google-research/bert's names in a file.

    Attributes:
        model, optimizer, step: of the run.
        settings: what must not change between a run and its continuation, for the same steps to follow.
        ended_at: the step after which the run ends before its time, or ended long ago; None: it does not. Actions set
            it.
        watch: runs while steps are made, and not while checkpoints are saved and scored.
        unreported: what `TrainStep` returned for the steps since the last line of the history, which is a mean over
            them: it must come out the same wherever the run was interrupted.
    """

    model: object
    optimizer: object
    step: object
    settings: dict
    ended_at: int | None = None
    watch: Stopwatch = dataclasses.field(default_factory=Stopwatch)
    unreported: list[dict] = dataclasses.field(default_factory=list)

    def tensors(self, ended: bool = False) -> dict:
        """Returns {name: variable or tensor}, as `store.CheckpointManager.save` takes it.

        Args:
            ended: no step will follow, and what only the next one would need is left out; False: everything.
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
        """Returns {name: variable} of the model; of averaged weights, the means: whoever reads a model wants them."""
        named = {name_maps.TF1.from_ours(v.path): v for v in self.model.variables}
        if average := self.step.average:
            paths = [name_maps.TF1.from_ours(v.path) for v in average.variables]
            named |= {f"{_UNAVERAGED}{path}": named[path] for path in paths}
            named |= dict(zip(paths, average.means, strict=True))
        return named

    def restore(self, saved: dict, path: str):
        """Assigns what `tensors` saved; where that is the end of the run, `ended_at` says so.

        Raises:
            ValueError: the run had other settings, or another model, or a number of it is not finite.
        """
        if _SETTINGS not in saved:
            raise ValueError(
                f"A run continues only from a checkpoint that it wrote itself. Received {path}, which holds no "
                "settings of a run; name another `output_dir`, or pass `overwrite_output_dir`."
            )
        check_same(path, json.loads(saved[_SETTINGS]), self.settings, _REMEDY)
        of_run = {_SETTINGS, _UNREPORTED, _ENDED}
        here = {name: variable for name, variable in self.tensors(_ENDED in saved).items() if name not in of_run}
        if missing := sorted(here.keys() - saved.keys()):
            raise ValueError(
                f"{path} must hold the whole state of this run. Received one without {missing[:10]}; give back a newer "
                "checkpoint, or pass `overwrite_output_dir` to start over."
            )
        if extra := sorted(saved.keys() - here.keys() - of_run):
            raise ValueError(f"{path} must hold the state of this run's model and no more. Received also {extra[:10]}.")
        for name in here:
            check_finite(saved[name], name, path)
        for name, variable in here.items():
            variable.assign(saved[name])
        self.unreported = json.loads(saved.get(_UNREPORTED, "[]"))
        if _ENDED in saved:
            self.ended_at = int(saved["global_step"])


def is_of_model(name: str) -> bool:
    """Says whether a run that has ended still needs what its checkpoints have under this name."""
    return not name.endswith(_SLOTS) and not name.startswith(_UNAVERAGED)


def begin(
    state: TrainingState,
    checkpoints: store.CheckpointManager,
    init_checkpoint: str | None,
    task,
    overwrite: bool = False,
    reinit_layers: int = 0,
) -> int:
    """Decides where a run starts, and returns its step: the first of these that applies.

    1. This run's own newest whole checkpoint, unless it is to `overwrite` it: it was interrupted, or is finished.
    2. `init_checkpoint`: another model's weights, but for the top `reinit_layers`; optimizer and step are new.
    3. Nothing: random weights.

    Raises:
        ValueError: a checkpoint does not fit, or there are fewer than `reinit_layers` layers.
    """
    if own := None if overwrite else checkpoints.latest():
        step, prefix = own
        state.restore(checkpoints.restore(prefix), prefix)
        logging.info("Continuing this run from step %d: %s", step, prefix)
        return step
    if init_checkpoint:
        _load_initial(state.model.variables, init_checkpoint, task, reinit_layers)
        return 0
    logging.warning("No `init_checkpoint`: training starts from random weights.")
    return 0


def check_model(
    checkpoints: store.CheckpointManager,
    init_checkpoint: str | None,
    task,
    overwrite: bool = False,
    reinit_layers: int = 0,
):
    """Finds out what can be known of a run's model before it is built, which takes the memory that is asked for.

    Takes what `begin` takes.

    Raises:
        ValueError: the configuration does not describe the weights to start from, or the memory cannot hold it.
    """
    if init_checkpoint and (overwrite or not checkpoints.steps()):
        check_shapes(open_checkpoint(init_checkpoint, task.config.model_type), task.config, reinit_layers)
    check_weights(task.config, available_memory())


def _load_initial(variables, path, task, reinit_layers):
    """Loads all but the top `reinit_layers` and the pooler, which keep the random weights that they were made with.

    Adapters start from scratch: those of the checkpoint, if any, are in the kernels that they were made for.
    """
    new = top_layers([v.path for v in variables], reinit_layers) if reinit_layers else ()
    fresh = [v.path for v in variables if any(re.fullmatch(pattern, v.path) for pattern in new)]
    excuse = (*heads.fresh(task), *heads.unused(task), *new)
    targets = [v for v in variables if v.path not in fresh and not is_adapter(v.path)]
    logging.info("%s", assign_weights(path, targets, excuse, task.config.model_type))
    if new:
        logging.warning(
            "The top %d layers and the pooler start from random weights, not from %s: %d variables, %s.",
            *(reinit_layers, path, len(fresh), ", ".join(new)),
        )
