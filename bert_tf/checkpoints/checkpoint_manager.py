"""A run's own checkpoints in its output directory: the last few, the best one, and which of them are whole."""

import glob
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.locate import tf1_files
from bert_tf.utils.files import write_text

BEST_FILE = "best_checkpoint.json"
_STATE_FILE = "checkpoint"  # TensorFlow's name for the list of checkpoints
_PREFIX = re.compile(r"model\.ckpt-(\d+)")

_log = logging.getLogger(__name__)


class Best(NamedTuple):
    """The checkpoint that scored best: `value` of `metric` at `step`."""

    step: int
    metric: str
    value: float


class CheckpointManager:
    """Checkpoints `model.ckpt-<step>` in one directory, which one process writes and any number may read.

    Args:
        directory: the first `save` makes it if it is not there.
        keep: how many of the last checkpoints stay; at least 1.
        protect: steps whose checkpoints are never deleted, with the best one.
    """

    def __init__(self, directory: str | os.PathLike, keep: int = 5, protect: Iterable[int] = ()):
        if keep < 1:
            raise ValueError(f"The number of checkpoints to keep must be at least 1. Received: {keep}.")
        self.directory, self.keep, self.protect = os.fspath(directory), keep, set(protect)

    def prefix(self, step: int) -> str:
        """Returns the path, without extension, of the checkpoint of `step`, whether it is there or not."""
        return os.path.join(self.directory, f"model.ckpt-{step}")

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints that have both of their files, ascending."""
        return sorted(step for step, kinds in self._entries() if kinds >= {"index", "data"})

    def save(self, step: int, tensors: Mapping[str, Any]) -> str:
        """Writes a checkpoint, names it in the file `checkpoint`, deletes those that are no longer kept.

        Args:
            step: of training; a checkpoint of that step is replaced.
            tensors: name -> array, tensor or variable.

        Returns:
            its prefix.

        Raises:
            ValueError: the disk is full; the older checkpoints are as they were and nothing half-made stays.
        """
        os.makedirs(self.directory, exist_ok=True)
        self._clean()
        tf1.write_tensors(self.prefix(step), tensors)
        survivors = self._survivors(step)
        self._write_state(step, survivors)
        for old in set(self.steps()) - set(survivors):
            self._delete(old)
        return self.prefix(step)

    def shrink(self, step: int, is_needed: Callable[[str], bool], more: Mapping[str, Any]):
        """Writes a checkpoint again without some of its tensors; however it ends, the old or the new one is whole.

        Args:
            step: of a whole checkpoint; where it has nothing that is not needed it stays as it is.
            is_needed: takes a name.
            more: name -> array or tensor, to be added.

        Raises:
            ValueError: it is not whole, or the disk is full.
        """
        file = tf1.Tf1File(self.prefix(step))
        if not all(map(is_needed, file.shapes)):
            tensors = {name: file.read(name) for name in file.shapes if is_needed(name)}
            tf1.write_tensors(self.prefix(step), tensors | dict(more))
        tf1.remove_replaced(self.prefix(step))  # of a run that was killed before it came to do so

    def point_to(self, step: int):
        """Names `step`, the best one say, in the file `checkpoint` as the one that the directory stands for.

        `latest` does not ask that file: a run continues from its newest checkpoint in any case.
        """
        self._write_state(step, self.steps())

    def latest(self, strict: bool = False, up_to: int | None = None) -> tuple[int, str] | None:
        """Returns (step, prefix) of the newest whole checkpoint, or None if there is none.

        Whole means: every tensor can be read and has its checksum. Nothing cheaper proves it, since TensorFlow does not
        tell where in the data a tensor ends; it takes a quarter of a second per gigabyte beyond the reading of the
        disk, once per start, and leaves in the system's cache what `restore` reads next.

        Args:
            strict: raise ValueError at a half one, instead of warning and taking the one before it.
            up_to: the highest step that is asked for; None: any.
        """
        for step, _ in sorted(self._entries(), reverse=True):
            if up_to is not None and step > up_to:
                continue
            try:
                file = tf1.Tf1File(self.prefix(step))
                for name in file.shapes:
                    file.read(name)
                return step, self.prefix(step)
            except ValueError as error:
                if strict:
                    raise
                _log.warning("Skipped an incomplete checkpoint: %s", error)
        return None

    def delete_after(self, step: int):
        """Deletes the checkpoints of later steps, and the note of the best one if it is of them."""
        for later in [s for s, _ in self._entries() if s > step]:
            self._delete(later)
        best = self.best()
        if best and best.step > step:
            os.remove(os.path.join(self.directory, BEST_FILE))

    def restore(self, prefix: str) -> dict[str, np.ndarray]:
        """Returns every tensor of a checkpoint by name.

        Raises:
            ValueError: it is not whole.
        """
        return tf1.read_tensors(prefix)

    def mark_best(self, step: int, metric: str, value: float):
        """Notes that the checkpoint of `step` is the best so far, and keeps it from deletion while it is.

        Raises:
            ValueError: there is no such checkpoint, or the disk is full.
        """
        if step not in self.steps():
            raise ValueError(f"The best checkpoint must be one of {self.directory}: {self.steps()}. Received: {step}.")
        record = Best(step, metric, float(value))._asdict()
        self._publish(BEST_FILE, json.dumps(record) + "\n")

    def best(self) -> Best | None:
        """Returns what `mark_best` noted last, or None.

        Raises:
            ValueError: the file does not hold that.
        """
        path = os.path.join(self.directory, BEST_FILE)
        if not os.path.exists(path):
            return None
        try:
            with open(path, encoding="utf-8") as file:
                return Best(**json.load(file))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path} must hold step, metric and value as JSON. Received: {error}; delete it to continue without it."
            ) from error

    def _entries(self):
        """Yields (step, kinds of files there) for every checkpoint, whole or not."""
        for prefix, kinds in tf1_files(self.directory):
            if match := _PREFIX.fullmatch(prefix):
                yield int(match[1]), kinds

    def _survivors(self, step):
        """Returns the steps that stay once `step` is written.

        Later ones stay too: they are of a run that was set back by hand, or are broken and will be written again.
        """
        best = self.best()
        protected = self.protect | ({best.step} if best else set())
        steps = self.steps()
        last = [s for s in steps if s <= step][-self.keep :]
        return [s for s in steps if s in last or s > step or s in protected]

    def _write_state(self, step, steps):
        import tensorflow as tf

        state = tf.compat.v1.train.generate_checkpoint_state_proto(
            self.directory, self.prefix(step), [self.prefix(s) for s in steps if s != step] + [self.prefix(step)]
        )
        # Names relative to the directory, so that it can be moved.
        state.model_checkpoint_path = os.path.basename(state.model_checkpoint_path)
        state.all_model_checkpoint_paths[:] = [os.path.basename(p) for p in state.all_model_checkpoint_paths]
        self._publish(_STATE_FILE, str(state))

    def _publish(self, name, text):
        path = os.path.join(self.directory, name)
        try:
            write_text(path, text)
        except OSError as error:
            raise ValueError(f"{path} cannot be written: {error}. The old one is unchanged.") from error

    def _delete(self, step):
        prefix = self.prefix(step)
        for path in sorted(glob.glob(f"{glob.escape(prefix)}.*"), reverse=True):  # .index first: without it it is none
            os.remove(path)

    def _clean(self):
        """Removes what a killed save left behind: it cannot be our own, since one process writes."""
        for path in glob.glob(os.path.join(glob.escape(self.directory), f"{tf1.TEMPORARY}*")):
            shutil.rmtree(path, ignore_errors=True)
        for step, kinds in list(self._entries()):
            if "index" not in kinds:
                self._delete(step)
