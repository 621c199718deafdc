"""Retraining: which rows of a trained model's head the head of a new task starts from, by label name."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_tf.checkpoints.loading import Description, directory_of, read_labels
from bert_tf.models.config_files import task_in
from bert_tf.tasks.base import FineTuningTask

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
            raise _not_kept(self.path, reason)
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
        new, dropped, renamed = map(_few, (values["new"], values["dropped"], renamed))
        kept = f"kept: {len(values['kept'])}; new: {new}; dropped: {dropped}; renamed: {renamed}"
        return f"Rows of the head by label, from {self.path}: {kept}."


def rows_by_label(
    task: FineTuningTask, model: Description, init_checkpoint: str | None, renames: Sequence[str] = ()
) -> LabelRows | None:
    """Returns which rows of the initial checkpoint's head the task's head starts from; None if it names no labels.

    Args:
        task: the task to train.
        model: files of the initial checkpoint.
        init_checkpoint: its path, or None.
        renames: "old:new" pairs of label names, as split at the commas of the command line.

    Raises:
        ValueError: `renames` are not pairs of names in the trained model and in the training data, or there is no
            trained model with labels.
    """
    trained = init_checkpoint and task.labels and read_labels(directory_of(init_checkpoint), model.config)
    if not trained:
        if renames:
            raise ValueError(
                "`rename_labels` requires an `init_checkpoint` whose files name its labels (labels.txt or id2label). "
                f"Received `init_checkpoint={init_checkpoint}`; remove `rename_labels`, or start from a trained model."
            )
        return None
    reason = task.head_difference(task_in(directory_of(init_checkpoint)) or {}, model.config, trained)
    if reason and renames:
        raise _not_kept(init_checkpoint, reason)
    names = [dict.fromkeys(filter(None, map(task.label_name, labels))) for labels in (trained, task.labels)]
    renamed = _parse_renames(renames, *names)
    index = {_renamed(label, task.label_name(label), renamed): row for row, label in enumerate(trained)}
    rows = tuple(map(index.get, task.labels))
    kept = LabelRows(init_checkpoint, tuple(trained), tuple(task.labels), rows, renamed)
    return kept.without_rows(reason) if reason else kept


def _not_kept(path, reason):
    return ValueError(
        f"`rename_labels` requires a trained head that can be kept, but that of {path} cannot: {reason}. Remove "
        "`rename_labels`, or use another `init_checkpoint`."
    )


def _renamed(label, name, renamed):
    return label.removesuffix(name) + renamed.get(name, name)


def _few(names):
    return f"{', '.join(names[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''}" or "none"


def _parse_renames(parts, trained: Iterable[str], labels: Iterable[str]) -> dict[str, str]:
    """Returns {old name: new name}; a name may contain commas, at which the command line is split too, and colons."""
    renamed, open_parts, problem = {}, [], None
    for part in parts:
        open_parts.append(part)
        text = ",".join(open_parts)
        pairs = ((text[:at], text[at + 1 :]) for at, character in enumerate(text) if character == ":")
        if pair := next(((old, new) for old, new in pairs if old in trained and new in labels), None):
            problem = problem or (f"{pair[0]!r} is renamed twice" if pair[0] in renamed else None)
            renamed[pair[0]], open_parts = pair[1], []
    targets = [renamed.get(name, name) for name in trained]
    if open_parts:
        problem = _fault(open_parts[0], trained)
    elif twice := [new for new in renamed.values() if targets.count(new) > 1]:
        problem = f"two labels would be called {twice[0]!r}"
    if problem:
        raise ValueError(
            "`rename_labels` must be comma-separated old:new pairs, each of a label of the trained model "
            f"({_few([*trained])}) and a label of the training data ({_few([*labels])}). Received "
            f"{','.join(parts)!r}: {problem}."
        )
    return renamed


def _fault(pair, trained):
    old, _, new = pair.partition(":")
    if not old or not new:
        return f"{pair!r} is not such a pair"
    return f"{new!r} is not in the training data" if old in trained else f"{old!r} is not in the trained model"
