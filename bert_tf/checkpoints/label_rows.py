"""The rows of a trained model's head from which the head of a new model starts, by label name."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_tf.checkpoints.heads import OUTPUTS
from bert_tf.utils.counts import list_names

_MOST_NAMES = 20  # of a line of the log, or of an error


@dataclasses.dataclass(frozen=True)
class LabelRows:
    """The rows of a trained model's head that the outputs of a new head start from.

    Attributes:
        path: the trained model: `init_checkpoint`.
        trained: the labels of its outputs, in their order.
        labels: the labels of the new head's outputs.
        rows: the index in `trained` for each of `labels`; None for a new row.
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
            f"{checkpoint.shape(wrong[0])[0]} outputs; list all of them in its labels.txt or id2label."
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
        "`rename_labels`, or set `init_checkpoint` to a model with such a head."
    )


def few_names(names: Sequence[str]) -> str:
    """Returns the first names, separated by commas, or "none"."""
    return f"{list_names([*names[:_MOST_NAMES]])}{', ...' if len(names) > _MOST_NAMES else ''}" or "none"
