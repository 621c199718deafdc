"""The scores that the explanations of an exported model explain."""

from typing import Any

from bert_tf.interpret.targets import SpanHead, TextHead, TokenHead
from bert_tf.models.heads import ClassificationHead, QuestionAnsweringHead


def check_task(task: Any):
    """Raises ValueError if it is clear without a model that a task has no score to explain."""
    if task.list_inputs or task.recipe is not None or getattr(task, "lstm_units", None):
        raise _without_head(task)
    if task.has_windows:
        raise ValueError(
            "`export_explanations=attributions` cannot explain a model that averages over the windows of a text. "
            "Remove attributions, or train with `long_text=truncate`."
        )


def _without_head(task):
    return ValueError(
        "`export_explanations=attributions` requires a model with a head for labels, tags or answers directly on the "
        f"encoder; a model for {task.name} has no such head. Remove attributions."
    )


def head_in(model: Any, task: Any) -> TextHead:
    """Returns the explainable head of a task's model.

    Args:
        model: functional, an `Encoder` and a head.
        task: see `tasks/base.py`.

    Raises:
        ValueError: the model has no head whose score can be explained.
    """
    check_task(task)
    heads = [layer for layer in model.layers if isinstance(layer, ClassificationHead | QuestionAnsweringHead)]
    if len(heads) != 1:
        raise _without_head(task)
    if isinstance(heads[0], QuestionAnsweringHead):
        return SpanHead(heads[0], task.max_answer_length)
    labels = task.labels or list(map(str, range(heads[0].num_labels)))
    return (TokenHead if "tag_ids" in task.targets else TextHead)(heads[0], labels)
