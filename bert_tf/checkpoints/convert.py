"""Brings weights into a model, loudly: what is missing here and what is left over there is said on both sides."""

import dataclasses
import os
import re
from collections.abc import Iterable

from absl import logging

from bert_tf.checkpoints.readers import Checkpoint, open_checkpoint
from bert_tf.models.config_files import is_decoder_in
from bert_tf.models.lora import is_adapter

_HEAD_OF_TEXTS = {"classifier/output_weights", "bert/pooler/dense/kernel"}  # a head that reads the pooler
_MOST_LINES = 400  # of a message: all weights of BERT-large


@dataclasses.dataclass(frozen=True)
class Report:
    """What `load` did.

    Attributes:
        path: the file, index file or TF1 prefix that was read.
        loaded: paths of the variables that were assigned.
        excused_missing: paths of variables that the checkpoint lacks; they keep their values.
        excused_left_over: our paths, or the file's names where we know none, of weights that no variable took.
        left_out: names in the file that are no weights of their own: buffers, an optimizer's state, second names.
    """

    path: str
    loaded: list[str]
    excused_missing: list[str]
    excused_left_over: list[str]
    left_out: list[str]

    def __str__(self):
        text = f"Loaded {len(self.loaded)} variables from {self.path}"
        for words, names in (
            ("not in the checkpoint, left as initialized", self.excused_missing),
            ("in the checkpoint, not used", self.excused_left_over),
        ):
            if names:
                text += f"; {len(names)} {words}: {_few(names)}"
        if self.left_out:
            one = "1 entry of the file is no weight of its own (a buffer, a counter or a second name)"
            several = "entries of the file are no weights of their own (an optimizer's state, counters, second names)"
            text += f"; {one if len(self.left_out) == 1 else f'{len(self.left_out)} {several}'}: {_few(self.left_out)}"
        return text if text.endswith("...") else f"{text}."


def _few(names):
    return f"{', '.join(names[:4])}{', ...' if len(names) > 4 else ''}"


def load(
    path: str | os.PathLike | Checkpoint, variables: Iterable, excuse: Iterable[str] = (), family: str | None = None
) -> Report:
    """Assigns every variable from a checkpoint; all is read and checked before the first is assigned.

    Adapters that the checkpoint has go into adapters where there are such variables, else into the kernels.

    Args:
        path: whatever `readers.open_checkpoint` takes, or a Checkpoint already open.
        variables: Keras or TensorFlow variables: `path` (one that `names.TF1` knows), `shape`, `assign`.
        excuse: regular expressions; each is matched against the whole (re.fullmatch) of our path, such as
            "classifier/.*" for a head that may start fresh, also where the checkpoint has one of another shape, or
            "cls/.*" for heads that are not wanted; for a name that the table does not know, against the file's own.
            `heads.py` makes those of a task.
        family: as in `readers.open_checkpoint`.

    Raises:
        ValueError: the sides differ in a name that no expression excuses, or in a shape; or the file is damaged.
    """
    variables = list(variables)
    here = {variable.path: variable for variable in variables}
    merge = not any(map(is_adapter, here))
    checkpoint = path if isinstance(path, Checkpoint) else open_checkpoint(path, family, merge)
    assert len(here) == len(variables), "two variables have one path"
    report = _compare(checkpoint, here, list(excuse))
    _check_shapes(checkpoint, {name: here[name] for name in report.loaded})
    checkpoint.check_twins(report.loaded)
    arrays = {name: checkpoint.get(name) for name in report.loaded}
    for name, array in arrays.items():
        here[name].assign(array)
    _warn_of_first_token(checkpoint, report.loaded)
    return report


def _warn_of_first_token(checkpoint, loaded):
    """Says so where a head is to read another piece than the one for which Transformers trained it."""
    foreign = checkpoint.format not in ("tf1", "keras_hub") and set(loaded) >= _HEAD_OF_TEXTS
    if foreign and is_decoder_in(os.path.dirname(checkpoint.path) or "."):
        logging.warning(
            "%s is a left-to-right model (is_decoder) with a head for whole texts: here that reads the last piece, "
            "which has seen the text; in Transformers it reads the first, which has seen none of it.",
            checkpoint.path,
        )


def _compare(checkpoint, here, excuse):
    def excused(name):
        return any(re.fullmatch(pattern, name) for pattern in excuse)

    # A fresh head may find one of another size in the checkpoint, of another task: that one is left over.
    other = {n for n, v in here.items() if n in checkpoint.names and excused(n) and _shape(v) != checkpoint.shape(n)}
    missing = [name for name in here if name not in checkpoint.names or name in other]
    left_over = [name for name in checkpoint.names if name not in here or name in other] + checkpoint.unknown
    if not all(map(excused, missing + left_over)):
        raise ValueError(_difference(checkpoint, here, missing, left_over, excused))
    loaded = [name for name in here if name not in missing]
    return Report(checkpoint.path, loaded, missing, left_over, checkpoint.left_out)


def _difference(checkpoint, here, missing, left_over, excused):
    def lines(names):
        rows = [f"{name}{' (excused)' if excused(name) else ''}" for name in names[:_MOST_LINES]] or ["none"]
        rows += [f"and {len(names) - _MOST_LINES} more"] if len(names) > _MOST_LINES else []
        return "".join(f"\n    {row}" for row in rows)

    both = len(here) - len(missing)
    return (
        f"The model and the checkpoint {checkpoint.path} ({checkpoint.format}) must have the same weights, except "
        f"heads that may start fresh or stay unused. Received: {both} in both, and\n"
        f"  {len(missing)} in the model but missing in the checkpoint:{lines(missing)}\n"
        f"  {len(left_over)} in the checkpoint but left over:{lines(left_over)}"
        f"{_remedy([name for name in left_over if not excused(name)], missing)}"
    )


def _remedy(left_over, missing):
    """Returns what a user can do: what is left over can be left out of a copy, what is missing cannot be made up."""
    if not left_over:
        return "\nGive the configuration that belongs to these weights, or weights that are whole."
    pattern = re.escape(left_over[0])
    of_missing = " if what is missing may be missing" if missing else ""
    return (
        f"\nbert-tf convert with `leave_out={pattern}` and so on, a pattern for each weight that is left over, makes a "
        f"copy without them{of_missing}."
    )


def _check_shapes(checkpoint, here):
    wrong = [
        f"\n    {name}: {_shape(variable)} in the model, {checkpoint.shape(name)} in the checkpoint{_hint(name)}"
        for name, variable in here.items()
        if _shape(variable) != checkpoint.shape(name)
    ]
    if wrong:
        raise ValueError(
            f"A variable must have the shape that it has in the checkpoint {checkpoint.path}. "
            f"Received: {len(wrong)} of {len(here)} with another:{''.join(wrong[:_MOST_LINES])}"
        )


def _shape(variable):
    return tuple(int(n) for n in variable.shape)


def _hint(name):
    if name.endswith("/word_embeddings"):
        return " (rows = entries of the vocabulary: are vocab.txt and vocab_size those of this checkpoint?)"
    if name.endswith("/position_embeddings"):
        return " (rows = max_position_embeddings of the configuration)"
    return ""
