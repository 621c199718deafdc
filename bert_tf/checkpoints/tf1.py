"""Reads and writes name-based TF1 checkpoints, as written by google-research/bert's Estimator.

A checkpoint called `prefix` is two files: `prefix.index` and `prefix.data-00000-of-00001` (or more of the latter).
TensorFlow is imported when a function is called: the rest of this package reads other formats without it.
"""

import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.checkpoints.tf1_index import check_index, num_shards

TEMPORARY = ".tmp-checkpoint-"  # begins the names of directories that an unfinished `write_tensors` leaves behind
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Tf1File:
    """The tensors of one checkpoint: `shapes` name -> shape, `read(name)`.

    Raises:
        ValueError: a file of the checkpoint is missing, truncated or damaged, or it is an object-based TF2 checkpoint.
    """

    def __init__(self, prefix: str):
        import tensorflow as tf
        from google.protobuf import message

        self._prefix = prefix
        shards = self._shards()
        # TensorFlow reports a damaged file as OpError, IndexError or RuntimeError, depending on where it notices.
        self._damage = (tf.errors.OpError, IndexError, RuntimeError, ValueError, OSError, message.DecodeError)
        try:
            check_index(f"{prefix}.index", shards)
            self._reader = tf.train.load_checkpoint(prefix)
            self.shapes = {n: tuple(s) for n, s in self._reader.get_variable_to_shape_map().items()}
        except self._damage as error:
            raise self._refusal(error) from error
        if _OBJECT_GRAPH in self.shapes:
            raise ValueError(
                f"{prefix} must be a name-based checkpoint, as written by TF1's Saver, but it is an object-based TF2 "
                "checkpoint. Load it with the program that wrote it and save it as TF1, safetensors or .bin."
            )

    def read(self, name: str) -> np.ndarray:
        try:
            return self._reader.get_tensor(name)
        except self._damage as error:  # TensorFlow checks each tensor's CRC
            raise self._refusal(f"{name}: {error}") from error

    def _shards(self):
        """Returns the files of data; those that a killed `write_tensors` was to replace, or had not yet named, are
        left out."""
        if not os.path.isfile(f"{self._prefix}.index"):
            raise self._refusal(f"no file {os.path.basename(self._prefix)}.index")
        by_number = _shards(self._prefix)
        number = _number_meant(self._prefix) if len(by_number) > 1 else next(iter(by_number), 0)
        if number not in by_number or len(by_number[number]) != number:
            files = [os.path.basename(path) for paths in by_number.values() for path in paths]
            raise self._refusal(files or "no file .data-00000-of-00001 next to the .index")
        return by_number[number]

    def _refusal(self, why):
        return ValueError(
            f"{self._prefix} is not a complete TF1 checkpoint (.index and .data): {str(why):.1000}. "
            "Copy it again, or use an older checkpoint."
        )


def read_tensors(prefix: str) -> dict[str, np.ndarray]:
    """Returns every tensor of the checkpoint by its name.

    Raises:
        ValueError: the checkpoint is incomplete.
    """
    file = Tf1File(prefix)
    return {name: file.read(name) for name in file.shapes}


def write_tensors(prefix: str, tensors: Mapping[str, Any]):
    """Writes a name-based checkpoint, atomically.

    The files are created in a temporary directory next to `prefix` and renamed, the data first: without an .index,
    there is no checkpoint. If the process is killed, that directory, whose name begins with TEMPORARY, or only data may
    remain. An existing checkpoint with one data file is replaced by one with two and vice versa: old and new data
    coexist until renaming the .index switches to the new ones.

    Args:
        prefix: path without extension; its directory must exist.
        tensors: name -> array, tensor or variable, at least one.

    Raises:
        ValueError: the disk is full or the directory is not writable; nothing is left behind.
    """
    import tensorflow as tf

    assert tensors, "a checkpoint needs a tensor"
    folder, base = os.path.split(os.path.abspath(prefix))
    aside = None
    try:
        aside = tempfile.mkdtemp(prefix=TEMPORARY, dir=folder)
        _save(os.path.join(aside, base), tensors, in_two=len(tensors) > 1 and _number_meant(prefix) == 1)
        for file in sorted(os.listdir(aside)):  # .data sorts before .index
            os.replace(os.path.join(aside, file), os.path.join(folder, file))
        remove_replaced(prefix)
    except (tf.errors.OpError, OSError) as error:
        raise ValueError(
            f"The checkpoint {prefix} could not be written: {_without_op(error)}. The partial file was "
            "removed, and older checkpoints are unchanged. Check disk space and permissions."
        ) from error
    finally:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)


def remove_replaced(prefix: str):
    """Removes data files that the .index of a checkpoint does not refer to; nothing without an .index."""
    meant = _number_meant(prefix)
    for path in [path for number, paths in _shards(prefix).items() if number != meant is not None for path in paths]:
        os.remove(path)


def _number_meant(prefix):
    """Returns the number of data files in the .index; None if it is missing or damaged."""
    from google.protobuf import message

    try:
        return num_shards(f"{prefix}.index")
    except (OSError, ValueError, IndexError, message.DecodeError):
        return None


def _shards(prefix):
    """Returns {number of files: the data files whose names give this number}."""
    by_number = {}
    for path in sorted(glob.glob(f"{glob.escape(prefix)}.data-*-of-*")):
        if match := re.search(r"\.data-\d{5}-of-(\d{5})$", path):
            by_number.setdefault(int(match[1]), []).append(path)
    return by_number


def _save(prefix, tensors, in_two):
    """Writes the files, and brings them to the disk: no rename shall survive a power cut that the content does not."""
    import tensorflow as tf

    names = list(tensors)
    parts = [names[:-1], names[-1:]] if in_two else [names]
    prefixes = [f"{prefix}.part{part}" for part in range(2)] if in_two else [prefix]
    with tf.device("CPU:0"):
        for to, part in zip(prefixes, parts, strict=True):
            values = [tf.convert_to_tensor(tensors[name]) for name in part]
            slices = [""] * len(values)  # none: every tensor is whole
            tf.raw_ops.SaveV2(prefix=to, tensor_names=part, shape_and_slices=slices, tensors=values)
        if in_two:
            tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=prefixes, destination_prefix=prefix, delete_old_dirs=False
            )
    for path in glob.glob(f"{glob.escape(prefix)}.*"):
        with open(path, "rb+") as file:
            os.fsync(file.fileno())


def _without_op(error):
    """Returns TensorFlow's message without the names of the op and its device."""
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\]", "", str(error).splitlines()[0])


def named(variables: Iterable) -> dict[str, Any]:
    """Maps google-research/bert's names to variables (with `path`); moments go to `name/adam_m`.

    Raises:
        ValueError: a variable has no TF1 name.
    """
    return {TF1.from_ours(variable.path): variable for variable in variables}


def write_tf1(prefix: str, variables: Iterable):
    """Writes variables under the names of google-research/bert, so that its programs can read them.

    Raises:
        ValueError: a variable has no TF1 name, or the checkpoint cannot be written.
    """
    write_tensors(prefix, named(variables))


def write_arrays(prefix: str, arrays: Mapping[str, np.ndarray]):
    """Writes arrays, keyed by our variable paths, under the names of google-research/bert.

    Raises:
        ValueError: a path has no TF1 name, or the checkpoint cannot be written.
    """
    write_tensors(prefix, {TF1.from_ours(path): array for path, array in arrays.items()})
