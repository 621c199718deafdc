"""Heads of all tasks: which of their weights may be missing from a checkpoint or unused, and which rows are kept.

A task only names its own head (`Model.head`). Checkpoints of other tasks may have any of the others.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf.utils.names import list_names

# By our paths, and by the file's names for unknown weights. A new head needs a line here, except custom tasks' `head`.
HEADS = (
    r"cls[/.].*",  # pretraining's, and that of question answering
    r"classifier[/.].*",
    r"generator/.*",  # a whole network: what was trained with a model that tells replaced tokens
    r"tagger[/.].*",  # of a frozen encoder's features
    r"recurrent[/.].*",  # a BiLSTM and what is on it, for any task
    r"head/.*",  # a custom task's
    r"([^/]*[._])?heads?[.].*",  # a part that calls itself so: "task_heads.ner.bias"
)
POOLER = "bert/pooler/dense/.*"
OUTPUTS = r"((recurrent|tagger)/)?classifier/output_(weights|bias)"  # with one row per label


def others(own: tuple[str, ...]) -> tuple[str, ...]:
    """Returns patterns of the weights of all heads except a task's own.

    Args:
        own: patterns of our variable paths.

    Returns:
        Regular expressions for `assign_weights`.
    """
    but = f"(?!(?:{'|'.join(own)})$)" if own else ""
    return tuple(f"{but}{pattern}" for pattern in HEADS)


def fresh(task) -> tuple[str, ...]:
    """Returns patterns of the variables that may be missing from the checkpoint that training starts from.

    These are the task's head, which is new, and the pooler, which a sentence encoder or another task's model may lack.
    """
    return (*task.head, POOLER)


def unused(task) -> tuple[str, ...]:
    """Returns patterns of weights that the task does not use, in a checkpoint or in its own model.

    These are the heads of other tasks, and the pooler if the task's head does not use it.
    """
    return (*others(task.head), *(() if task.uses_pooler else (POOLER,)))


# === First layers ===
# With `EncoderConfig.head_norm`, every head begins with the same two layers, and a new one with those of the masked-LM
# head. In Transformers' files, they have the same names in all classes, so that they are loaded into any.


MASKED_LM_LAYERS = "cls/predictions/transform"
WITH_FIRST_LAYERS = ("classifier", "cls/squad")  # the heads that begin with them


def first_layers(names: Iterable[str]) -> dict[str, str]:
    """Returns {path of a head's weight: path of the masked-LM head's weight that it starts from}.

    Args:
        names: our paths of a checkpoint's weights. Without a masked-LM head among them, the result is empty.
    """
    layers = [name for name in names if name.startswith(f"{MASKED_LM_LAYERS}/")]
    return {name.replace(MASKED_LM_LAYERS, head): name for head in WITH_FIRST_LAYERS for name in layers}


@dataclasses.dataclass(frozen=True)
class _Started:
    """A head's variable under the name of the masked-LM head's weight that it starts from; see `assign_weights`."""

    variable: Any
    path: str

    @property
    def shape(self):
        return self.variable.shape

    def assign(self, array):
        self.variable.assign(array)


def started_from_masked_lm(variables: Iterable, names: Collection[str], config: Any) -> list:
    """Returns the variables to assign from a checkpoint, of which a new head's are to start from a masked-LM head.

    Args:
        variables: Keras variables of a model, for `assign_weights`.
        names: our paths of the checkpoint's weights.
        config: the model's `EncoderConfig`.
    """
    variables, sources = [*variables], first_layers(names) if config.head_norm else {}
    started = {
        variable.path: _Started(variable, sources[variable.path])
        for variable in variables
        if variable.path in sources and variable.path not in names
    }
    if started:
        pairs = ", ".join(f"{path} from {each.path}" for path, each in started.items())
        logging.info("The first layers of the new head start from those of the masked-LM head: %s.", pairs)
    return [started.get(variable.path, variable) for variable in variables]


# === Rows of labels ===
# Which rows of a trained model's head the head of a new model starts from, by label name.


_MOST_NAMES = 20  # of a line of the log, or of an error


@dataclasses.dataclass(frozen=True)
class LabelRows:
    """The rows of a trained model's head that the outputs of a new head start from.

    Attributes:
        path: the trained model: `init_checkpoint`.
        trained: the labels of its outputs, in their order.
        labels: the labels of the new head's outputs.
        rows: the index in `trained` for each of `labels`; None: a new row.
        renamed: {name in the trained model: new name}.
        reason: why no row can be kept, whatever the names; "" if they can.
    """

    path: str
    trained: tuple[str, ...]
    labels: tuple[str, ...]
    rows: tuple[int | None, ...]
    renamed: Mapping[str, str]
    reason: str = ""

    def without_rows(self, reason: str) -> "LabelRows":
        """Returns the same with new rows only.

        Raises:
            ValueError: labels are renamed, which is of no use then.
        """
        if self.renamed:
            raise not_kept(self.path, reason)
        return dataclasses.replace(self, rows=(None,) * len(self.labels), reason=reason)

    def to_dict(self) -> dict[str, Any]:
        """Returns what run.json and history.jsonl record: JSON values."""
        pairs = list(zip(self.labels, self.rows, strict=True))
        values = {
            "init_checkpoint": self.path,
            "labels": list(self.trained),
            "kept": [label for label, row in pairs if row is not None],
            "new": [label for label, row in pairs if row is None],
            "dropped": [label for row, label in enumerate(self.trained) if row not in self.rows],
            "renamed": dict(self.renamed),
        }
        return values | ({"reason": self.reason} if self.reason else {})

    def __str__(self):
        if self.reason:
            return f"Head: no row is kept from {self.path}, because {self.reason}; all rows are new."
        values, renamed = self.to_dict(), [f"{old} -> {new}" for old, new in self.renamed.items()]
        new, dropped, renamed = map(few_names, (values["new"], values["dropped"], renamed))
        kept = f"kept: {len(values['kept'])}; new: {new}; dropped: {dropped}; renamed: {renamed}"
        return f"Rows of the head by label, from {self.path}: {kept}."


def rows_in(checkpoint: Any, kept: LabelRows, variables: Iterable, task: Any) -> LabelRows | None:
    """Returns the `LabelRows` that a checkpoint's head allows, or None if it has no head with labels.

    Raises:
        ValueError: the labels are not those of the head, or labels are renamed and no row can be kept.
    """
    there = [name for name in checkpoint.names if re.fullmatch(OUTPUTS, name)]
    if not there:  # some configurations list labels without a head
        kept.without_rows("it has no head")
        return None
    if not kept.reason and (wrong := [name for name in there if checkpoint.shape(name)[0] != len(kept.trained)]):
        raise ValueError(
            f"{kept.path} must name every output of its head. It has {len(kept.trained)} labels for "
            f"{checkpoint.shape(wrong[0])[0]} outputs; correct its labels.txt or id2label."
        )
    own = (v for v in variables if any(re.fullmatch(pattern, v.path) for pattern in task.head))
    same = kept.reason or all(v.path in checkpoint.names and _is_alike(checkpoint, v) for v in own)
    return kept if same else kept.without_rows("its head has other layers")


def _is_alike(checkpoint, variable):
    first = 1 if re.fullmatch(OUTPUTS, variable.path) else 0  # the number of labels may differ
    return checkpoint.shape(variable.path)[first:] == tuple(variable.shape)[first:]


def not_kept(path: str, reason: str) -> ValueError:
    """Returns the error for labels that are to be renamed, although no row can be kept."""
    return ValueError(
        f"`rename_labels` requires a trained head that can be kept, but the head of {path} cannot: {reason}. Remove "
        "`rename_labels`, or use another `init_checkpoint`."
    )


def few_names(names: Sequence[str]) -> str:
    """Returns the first names, separated by commas, or "none"."""
    return f"{list_names([*names[:_MOST_NAMES]])}{', ...' if len(names) > _MOST_NAMES else ''}" or "none"
