"""Manages a run's checkpoints in its output directory: the latest ones, the best one, and their integrity."""

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
    """The best checkpoint: `value` of `metric` at `step`."""

    step: int
    metric: str
    value: float


class CheckpointManager:
    """Manages checkpoints `model.ckpt-<step>` in a directory, with one writing process and any number of readers.

    Args:
        directory: created by the first `save` if it does not exist.
        keep: number of latest checkpoints to keep; at least 1.
        protect: steps whose checkpoints are never deleted, in addition to the best one.
    """

    def __init__(self, directory: str | os.PathLike, keep: int = 5, protect: Iterable[int] = ()):
        if keep < 1:
            raise ValueError(f"The number of checkpoints to keep must be at least 1; got {keep}.")
        self.directory, self.keep, self.protect = os.fspath(directory), keep, set(protect)

    def prefix(self, step: int) -> str:
        """Returns the path, without extension, of the checkpoint of `step`, whether it exists or not."""
        return os.path.join(self.directory, f"model.ckpt-{step}")

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints that have both of their files, ascending."""
        return sorted(step for step, kinds in self._entries() if kinds >= {"index", "data"})

    def save(self, step: int, tensors: Mapping[str, Any]) -> str:
        """Writes a checkpoint, records it in the file `checkpoint`, and deletes those that are no longer kept.

        Args:
            step: training step; a checkpoint of that step is replaced.
            tensors: name -> array, tensor or variable.

        Returns:
            The checkpoint's prefix.

        Raises:
            ValueError: the disk is full; older checkpoints are unchanged and nothing unfinished remains.
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
        """Rewrites a checkpoint without some of its tensors, atomically.

        Args:
            step: step of a complete checkpoint; if all of its tensors are needed, it is unchanged.
            is_needed: takes a tensor name.
            more: name -> array or tensor to add.

        Raises:
            ValueError: the checkpoint is incomplete, or the disk is full.
        """
        file = tf1.Tf1File(self.prefix(step))
        if not all(map(is_needed, file.shapes)):
            tensors = {name: file.read(name) for name in file.shapes if is_needed(name)}
            tf1.write_tensors(self.prefix(step), tensors | dict(more))
        tf1.remove_replaced(self.prefix(step))  # of a run that was killed before it came to do so

    def point_to(self, step: int):
        """Records `step`, such as the best one, in the file `checkpoint` as the directory's checkpoint.

        `latest` ignores that file: a run always resumes from its newest checkpoint.
        """
        self._write_state(step, self.steps())

    def latest(self, strict: bool = False, up_to: int | None = None, warns: bool = True) -> tuple[int, str] | None:
        """Returns (step, prefix) of the newest complete checkpoint, or None if there is none.

        A checkpoint is complete if every tensor can be read and has its checksum. Nothing cheaper verifies this,
        because TensorFlow does not expose where a tensor ends in the data; it takes a quarter of a second per gigabyte
        in addition to reading the disk, and leaves the data in the system's cache for `restore`. A run that starts
        calls this twice: before it restores its state, and when it has locked the directory.

        Args:
            strict: whether to raise ValueError for an incomplete one, instead of warning and using the previous one.
            up_to: the highest step to consider. If None, any.
            warns: whether to warn of incomplete ones.
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
                if warns:
                    _log.warning("Skipped an incomplete checkpoint: %s", error)
        return None

    def delete_after(self, step: int):
        """Deletes the checkpoints of later steps, and the record of the best one if it is among them."""
        for later in [s for s, _ in self._entries() if s > step]:
            self._delete(later)
        best = self.best()
        if best and best.step > step:
            os.remove(os.path.join(self.directory, BEST_FILE))

    def restore(self, prefix: str) -> dict[str, np.ndarray]:
        """Returns every tensor of a checkpoint by name.

        Raises:
            ValueError: the checkpoint is incomplete.
        """
        return tf1.read_tensors(prefix)

    def mark_best(self, step: int, metric: str, value: float):
        """Records the checkpoint of `step` as the best so far, which protects it from deletion.

        Raises:
            ValueError: there is no such checkpoint, or the disk is full.
        """
        if step not in self.steps():
            raise ValueError(f"The best checkpoint must be one of {self.directory}: {self.steps()}; got {step}.")
        record = Best(step, metric, float(value))._asdict()
        self._publish(BEST_FILE, json.dumps(record) + "\n")

    def best(self) -> Best | None:
        """Returns what `mark_best` recorded last, or None.

        Raises:
            ValueError: the file is malformed.
        """
        path = os.path.join(self.directory, BEST_FILE)
        if not os.path.exists(path):
            return None
        try:
            with open(path, encoding="utf-8") as file:
                return Best(**json.load(file))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path} must contain step, metric and value as JSON; got {error}; delete it to continue without it."
            ) from error

    def _entries(self):
        """Yields (step, kinds of existing files) for every checkpoint, complete or not."""
        for prefix, kinds in tf1_files(self.directory):
            if match := _PREFIX.fullmatch(prefix):
                yield int(match[1]), kinds

    def _survivors(self, step):
        """Returns the steps to keep once `step` is written.

        Later ones are kept too: they belong to a run that was reset by hand, or are broken and will be written again.
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
        """Removes leftovers of a killed save, which cannot be our own, because only one process writes."""
        for path in glob.glob(os.path.join(glob.escape(self.directory), f"{tf1.TEMPORARY}*")):
            shutil.rmtree(path, ignore_errors=True)
        for step, kinds in list(self._entries()):
            if "index" not in kinds:
                self._delete(step)
