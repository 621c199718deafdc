"""The state of a training run, in memory and in its checkpoints."""

import dataclasses
import json

import keras
import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.label_rows import LabelRows
from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.checkpoints.weight_files import check_finite
from bert_tf.training.step import TrainStep
from bert_tf.utils.manifest import check_same
from bert_tf.utils.progress import Stopwatch

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
        ended_at: the step after which the run ends early, or had already ended when it was restored; None for neither.
            Callbacks set it.
        watch: runs during steps, but not while checkpoints are saved and evaluated.
        unreported: results of the steps since the last line of the history, which is a mean over
            them and must not depend on interruptions.
        label_rows: rows of another model's head that the head started from in this process, or None.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    step: TrainStep
    settings: dict
    ended_at: int | None = None
    watch: Stopwatch = dataclasses.field(default_factory=Stopwatch)
    unreported: list[dict] = dataclasses.field(default_factory=list)
    label_rows: LabelRows | None = None

    def tensors(self, ended: bool = False) -> dict:
        """Returns {name: variable or tensor}, for `CheckpointManager.save`.

        Args:
            ended: leave out the state that only further steps need; if False, include everything.
        """
        named = self._weights()
        for path, slot in self.optimizer.slots(self.model.trainable_variables).items():
            path, kind = path.rsplit("/", 1)
            named[f"{TF1.from_ours(path)}/{kind}"] = slot
        named["global_step"] = self.optimizer.iterations
        named |= {f"training/{name}": variable for name, variable in self.step.variables().items()}
        named |= {_SETTINGS: tf.constant(json.dumps(self.settings, sort_keys=True))}
        self.unreported = [{name: float(value) for name, value in results.items()} for results in self.unreported]
        named |= {_UNREPORTED: tf.constant(json.dumps(self.unreported))}
        return {name: value for name, value in named.items() if is_of_model(name)} | END if ended else named

    def _weights(self):
        """Returns {name: variable} of the model; with averaged weights, the means, which readers of a model need."""
        named = {TF1.from_ours(v.path): v for v in self.model.variables}
        if average := self.step.average:
            paths = [TF1.from_ours(v.path) for v in average.variables]
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
                f"A run resumes only from a checkpoint that it wrote itself. {path} contains no run settings. Pass "
                "another `output_dir`, or pass `overwrite_output_dir`."
            )
        check_same(path, json.loads(saved[_SETTINGS]), self.settings, _REMEDY)
        of_run = {_SETTINGS, _UNREPORTED, _ENDED}
        here = {name: variable for name, variable in self.tensors(_ENDED in saved).items() if name not in of_run}
        if missing := sorted(here.keys() - saved.keys()):
            raise ValueError(
                f"{path} does not contain the complete state of this run: {missing[:10]} are missing. Restore a newer "
                "checkpoint, or pass `overwrite_output_dir` to start over."
            )
        if extra := sorted(saved.keys() - here.keys() - of_run):
            raise ValueError(f"{path} contains more than this run's model: {extra[:10]}. {_REMEDY}")
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
