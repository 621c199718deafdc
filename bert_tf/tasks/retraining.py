"""Retraining: which rows of a trained model's head the head of a new task starts from, by label name."""

from collections.abc import Iterable, Sequence

from bert_tf.checkpoints.label_rows import LabelRows, few_names, not_kept
from bert_tf.checkpoints.loading import ModelDescription, directory_of, read_labels
from bert_tf.models.config_files import task_in
from bert_tf.tasks.base import FineTuningTask


def rows_by_label(
    task: FineTuningTask, model: ModelDescription, init_checkpoint: str | None, renames: Sequence[str] = ()
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
                "`rename_labels` requires an `init_checkpoint` whose files name its labels (labels.txt or id2label); "
                f"got `init_checkpoint={init_checkpoint}`; remove `rename_labels`, or start from a trained model."
            )
        return None
    reason = task.head_difference(task_in(directory_of(init_checkpoint)) or {}, model.config, trained)
    if reason and renames:
        raise not_kept(init_checkpoint, reason)
    names = [dict.fromkeys(filter(None, map(task.label_name, labels))) for labels in (trained, task.labels)]
    renamed = _parse_renames(renames, *names)
    index = {_renamed(label, task.label_name(label), renamed): row for row, label in enumerate(trained)}
    rows = tuple(map(index.get, task.labels))
    kept = LabelRows(init_checkpoint, tuple(trained), tuple(task.labels), rows, renamed)
    return kept.without_rows(reason) if reason else kept


def _renamed(label, name, renamed):
    return label.removesuffix(name) + renamed.get(name, name)


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
            f"({few_names([*trained])}) and a label of the training data ({few_names([*labels])}); got "
            f"{','.join(parts)!r}: {problem}."
        )
    return renamed


def _fault(pair, trained):
    old, _, new = pair.partition(":")
    if not old or not new:
        return f"{pair!r} is not such a pair"
    return f"{new!r} is not in the training data" if old in trained else f"{old!r} is not in the trained model"
