"""Assigns a checkpoint's weights to a model, and reports missing and unused ones."""

import dataclasses
import os
import re
import types
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.checkpoints.readers import Checkpoint, open_checkpoint
from bert_tf.models.config_files import is_decoder_in
from bert_tf.models.lora import is_adapter

_HEAD_OF_TEXTS = {"classifier/output_weights", "bert/pooler/dense/kernel"}  # a head that reads the pooler
_MOST_LINES = 400  # of a message: all weights of BERT-large


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """The result of `assign_weights`: which weights were loaded, missing, unused or skipped.

    Attributes:
        path: the file, index file or TF1 prefix that was read.
        loaded: paths of the variables that were assigned.
        allowed_missing: paths of variables that the checkpoint lacks; they keep their values.
        allowed_unused: our paths, or the file's names if unknown, of weights without a variable.
        left_out: names of entries that are not weights of their own: buffers, optimizer state, second names.
    """

    path: str
    loaded: list[str]
    allowed_missing: list[str]
    allowed_unused: list[str]
    left_out: list[str]

    def __str__(self):
        text = f"Loaded {len(self.loaded)} variables from {self.path}"
        for words, names in (
            ("not in the checkpoint, randomly initialized", self.allowed_missing),
            ("in the checkpoint, not used", self.allowed_unused),
        ):
            if names:
                text += f"; {len(names)} {words}: {_few(names)}"
        if self.left_out:
            one = "1 entry skipped because it is not a weight (a buffer, a counter or a second name)"
            several = "entries skipped because they are not weights (optimizer state, counters, second names)"
            text += f"; {one if len(self.left_out) == 1 else f'{len(self.left_out)} {several}'}: {_few(self.left_out)}"
        return text if text.endswith("...") else f"{text}."


def _few(names):
    return f"{', '.join(names[:4])}{', ...' if len(names) > 4 else ''}"


def assign_weights(
    path: str | os.PathLike | Checkpoint,
    variables: Iterable,
    allow_unmatched: Iterable[str] = (),
    family: str | None = None,
    rows: Mapping[str, Sequence[int | None]] = types.MappingProxyType({}),
) -> LoadReport:
    """Assigns all variables from a checkpoint, after reading and checking everything.

    Adapters in the checkpoint are assigned to adapter variables if there are any, otherwise merged into the kernels.

    Args:
        path: anything that `readers.open_checkpoint` accepts, or an open Checkpoint.
        variables: Keras or TensorFlow variables: `path` (one of `names.TF1`), `shape`, `assign`.
        excuse: regular expressions, each matched against our whole path (re.fullmatch), such as "classifier/.*" for a
            head that may be new, even if the checkpoint has one of another shape, or "cls/.*" for heads that are not
            needed; for unknown names, against the file's own. `heads.py` provides those of a task.
        family: as in `readers.open_checkpoint`.
        rows: {our path: for each row of the variable, the checkpoint's row to assign; if None, the row keeps its
            values, shuffled}. Such weights may differ in the number of rows.

    Raises:
        ValueError: names differ that no expression excuses, or shapes differ; or the file is damaged.
    """
    variables = list(variables)
    here = {variable.path: variable for variable in variables}
    merge = not any(map(is_adapter, here))
    checkpoint = path if isinstance(path, Checkpoint) else open_checkpoint(path, family, merge)
    assert len(here) == len(variables), "two variables have the same path"
    report = _compare(checkpoint, here, [*allow_unmatched], rows)
    _check_shapes(checkpoint, {name: here[name] for name in report.loaded if name not in rows})
    checkpoint.check_twins(report.loaded)
    arrays = {name: checkpoint.get(name) for name in report.loaded}
    arrays |= {name: _with_rows(here[name], arrays[name], own) for name, own in rows.items() if name in arrays}
    for name, array in arrays.items():
        here[name].assign(array)
    _warn_of_first_token(checkpoint, report.loaded)
    return report


def _warn_of_first_token(checkpoint, loaded):
    """Warns if a head uses another token than in Transformers."""
    foreign = checkpoint.format not in ("tf1", "keras_hub", "keras_hub_object") and set(loaded) >= _HEAD_OF_TEXTS
    if foreign and is_decoder_in(os.path.dirname(checkpoint.path) or "."):
        logging.warning(
            "%s is a causal (left-to-right) model (is_decoder) with a sequence-level head: bert_tf applies the head to "
            "the last token, which has seen the text; Transformers applies it to the first, which has not.",
            checkpoint.path,
        )


def _with_rows(variable, array, rows):
    """Returns the variable's value with some of its rows from `array`, and the others shuffled.

    If both models had the same seed, the variable's rows are those that `array` was trained from. Unless they are
    shuffled, a new label would start close to an old one, and be confused with it.
    """
    shuffle = np.random.default_rng(zlib.crc32(array.tobytes()))
    value = shuffle.permuted(np.asarray(variable), axis=-1)
    for index, row in enumerate(rows):
        if row is not None:
            value[index] = array[row]
    return value


def _compare(checkpoint, here, allow_unmatched, rows):
    def excused(name):
        return any(re.fullmatch(pattern, name) for pattern in allow_unmatched)

    # The checkpoint may have a head of another size, of another task: it is left over.
    shared = [name for name in here if name in checkpoint.names and name not in rows and excused(name)]
    other = {name for name in shared if _shape(here[name]) != checkpoint.shape(name)}
    missing = [name for name in here if name not in checkpoint.names or name in other]
    left_over = [name for name in checkpoint.names if name not in here or name in other] + checkpoint.unknown
    if not all(map(excused, missing + left_over)):
        raise ValueError(_difference(checkpoint, here, missing, left_over, excused))
    loaded = [name for name in here if name not in missing]
    return LoadReport(checkpoint.path, loaded, missing, left_over, checkpoint.left_out)


def _difference(checkpoint, here, missing, left_over, excused):
    def lines(names):
        rows = [f"{name}{' (excused)' if excused(name) else ''}" for name in names[:_MOST_LINES]] or ["none"]
        rows += [f"and {len(names) - _MOST_LINES} more"] if len(names) > _MOST_LINES else []
        return "".join(f"\n    {row}" for row in rows)

    both = len(here) - len(missing)
    return (
        f"The weights of the model and the checkpoint {checkpoint.path} ({checkpoint.format}) do not match, apart from "
        f"heads that may be new or unused: {both} are in both, and\n"
        f"  {len(missing)} in the model but missing in the checkpoint:{lines(missing)}\n"
        f"  {len(left_over)} in the checkpoint but not in the model:{lines(left_over)}"
        f"{_remedy([name for name in left_over if not excused(name)], missing)}"
    )


def _remedy(left_over, missing):
    """Returns advice for the user: left-over weights can be dropped from a copy, missing ones cannot be added."""
    if not left_over:
        return "\nUse the configuration that belongs to these weights, or complete weights."
    pattern = re.escape(left_over[0])
    of_missing = " if the missing weights are optional" if missing else ""
    return (
        f"\nUse bert-tf convert with `leave_out={pattern}` and so on, one pattern per left-over weight, to make a copy "
        f"without them{of_missing}."
    )


def _check_shapes(checkpoint, here):
    wrong = [
        f"\n    {name}: {_shape(variable)} in the model, {checkpoint.shape(name)} in the checkpoint{_hint(name)}"
        for name, variable in here.items()
        if _shape(variable) != checkpoint.shape(name)
    ]
    if wrong:
        raise ValueError(
            f"Some shapes differ between the model and the checkpoint {checkpoint.path}: "
            f"{len(wrong)} of {len(here)} variables:{''.join(wrong[:_MOST_LINES])}"
        )


def _shape(variable):
    return tuple(int(n) for n in variable.shape)


def _hint(name):
    if name.endswith("/word_embeddings"):
        return " (rows = vocabulary size: do vocab.txt and vocab_size belong to this checkpoint?)"
    if name.endswith("/position_embeddings"):
        return " (rows = max_position_embeddings of the configuration)"
    return ""
