"""The list of tasks, and task.json, which records the task that a model was trained for."""

import json
import os
from collections.abc import Iterable
from typing import Any

from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import TASK_FILE, task_in
from bert_tf.tasks.base import FineTuningTask, TrainedTask
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.embedding import EmbeddingTask
from bert_tf.tasks.multiple_choice import MultipleChoiceTask
from bert_tf.tasks.squad import QuestionAnsweringTask
from bert_tf.tasks.tagging import TaggingTask
from bert_tf.utils.files import write_text

TASKS: tuple[type[FineTuningTask], ...] = (
    ClassificationTask,
    EmbeddingTask,
    QuestionAnsweringTask,
    TaggingTask,
    MultipleChoiceTask,
)


def save_task(directory: str, trained: TrainedTask):
    """Writes task.json, for `read_task`."""
    values = {
        "task": trained.task.name,
        **trained.task.to_dict(),
        "text_inputs": list(trained.text_inputs),
        "max_seq_length": trained.max_seq_length,
    }
    write_text(os.path.join(directory, TASK_FILE), json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def read_task(directory: str, config: EncoderConfig, kinds: Iterable[type[FineTuningTask]] = TASKS) -> TrainedTask:
    """Reads the task of a trained model from its task.json.

    Args:
        directory: the model directory.
        config: configuration of its encoder.
        kinds: the classes of all tasks.

    Raises:
        ValueError: the directory has no task.json, or an invalid one.
    """
    path, classes = os.path.join(directory, TASK_FILE), {kind.name: kind for kind in kinds}
    values = task_in(directory)
    if values is None:
        raise ValueError(
            f"A trained model must have {TASK_FILE}, which the fine-tuning commands write with `do_train`. "
            f"{directory} has none."
        )
    try:
        name, inputs, length = (values.pop(key) for key in ("task", "text_inputs", "max_seq_length"))
        return TrainedTask(classes[name](config, **values), tuple(inputs), length)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} must describe a task, one of {sorted(classes)}. Received: {error!r}.") from error


def stated_task(directory: str, model: Any) -> TrainedTask | None:
    """Returns the task of a model to serve: from task.json, or else from the model's own files; None if neither has it.

    Args:
        directory: the model directory.
        model: its `loading.Description`.

    Raises:
        ValueError: task.json is invalid, or the task in the files is not supported.
    """
    if task_in(directory) is not None:
        return read_task(directory, model.config)
    return next(filter(None, (kind.from_foreign_model(directory, model) for kind in TASKS)), None)


def task_of(directory: str, model: Any) -> TrainedTask:
    """Returns the same as `stated_task`; raises ValueError if the model does not state its task."""
    return stated_task(directory, model) or read_task(directory, model.config)


def find_task(paths: Iterable[str], config: EncoderConfig, kind: type[FineTuningTask]) -> TrainedTask | None:
    """Returns the task of the first of `paths` with a task.json, or None if none has one.

    Args:
        paths: directories, or checkpoints in them.
        config: configuration of the encoder.
        kind: the required task class.

    Raises:
        ValueError: as `read_task`, or the task is not of the class `kind`.
    """
    directories = (path if os.path.isdir(path) else os.path.dirname(path) for path in paths)
    here = next((d for d in directories if task_in(d) is not None), None)
    if here is None:
        return None
    trained = read_task(here, config, dict.fromkeys((*TASKS, kind)))
    if not isinstance(trained.task, kind):
        raise ValueError(
            f"This requires a model for {kind.name}. {here} holds one for "
            f"{trained.task.name}; use another one."
        )
    return trained
