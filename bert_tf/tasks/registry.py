"""The tasks by name, ours and those of other packages, and task.json, which records the task of a trained model."""

import json
import os
from collections.abc import Iterable
from typing import Any

from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import TASK_FILE, task_in
from bert_tf.tasks.base import FineTuningTask, TrainedTask
from bert_tf.tasks.built_in import BUILT_IN_TASKS
from bert_tf.tasks.entry_points import GROUP, custom_tasks, package_of
from bert_tf.tasks.sparse_embedding import SparseEmbeddingTask
from bert_tf.utils.files import brief, write_text

# The last one first, because the files of a CrossEncoder are those of a regression model, too.
TASKS: tuple[type[FineTuningTask], ...] = tuple(task.load_task() for task in reversed(BUILT_IN_TASKS))
TASKS_BY_NAME = {kind.name: kind for kind in TASKS}


def load_custom_task(name: str, package: str | None = None) -> type[FineTuningTask]:
    """Imports and returns the class of another package's task; nothing is imported for any other name.

    Args:
        name: name of the task.
        package: the package that provided it when the model was trained, for the message. If None, it is unknown.

    Raises:
        ValueError: not exactly one installed package provides it, or the class cannot be imported or used.
    """
    found = custom_tasks()
    if name not in found:
        source = f"the package {brief(package)}" if package else "the package that provides it"
        raise ValueError(
            f"No installed package provides the task {brief(name)}. Install {source}, which must have an entry point "
            f"of this name in the group {GROUP}. Known tasks: {', '.join([*TASKS_BY_NAME, *found])}."
        )
    packages = list(map(package_of, found[name]))
    if len(packages) > 1:
        raise ValueError(f"Several packages provide the task {name!r}: {', '.join(packages)}. Uninstall all but one.")
    (entry_point,), (package,) = found[name], packages
    if name in TASKS_BY_NAME:
        raise ValueError(f"The task {name!r} of the package {package} has the name of a task of bert_tf. Rename it.")
    where = f"The task {name!r} of the package {package}, {entry_point.value},"
    try:
        kind = entry_point.load()
    except Exception as error:  # of code that is not ours
        raise ValueError(f"{where} cannot be imported: {error!r}. Correct or reinstall the package.") from error
    if not (isinstance(kind, type) and issubclass(kind, FineTuningTask) and getattr(kind, "name", None) == name):
        received = f"{brief(kind)} with the name {brief(getattr(kind, 'name', None))}"
        raise ValueError(f"{where} must be a subclass of FineTuningTask with `name` {name!r}; got {received}.")
    return kind


def save_task(directory: str, trained: TrainedTask):
    """Writes task.json, for `read_task`."""
    name = trained.task.name
    packages = [package_of(each) for each in custom_tasks().get(name, [])] if name not in TASKS_BY_NAME else []
    values = {
        "task": name,
        **({"package": packages[0]} if packages else {}),
        **trained.task.to_dict(),
        "text_inputs": list(trained.text_inputs),
        "max_seq_length": trained.max_seq_length,
    }
    write_text(os.path.join(directory, TASK_FILE), json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def read_task(directory: str, config: EncoderConfig) -> TrainedTask:
    """Reads the task of a trained model from its task.json.

    Args:
        directory: the model directory.
        config: configuration of its encoder.

    Raises:
        ValueError: the directory has no task.json, or an invalid one, or the task is not available.
    """
    path = os.path.join(directory, TASK_FILE)
    values = task_in(directory)
    if values is None:
        raise ValueError(
            f"A trained model must have {TASK_FILE}, which the fine-tuning commands write with `do_train`. {directory} "
            "does not have this file."
        )
    name, package = values.pop("task", None), values.pop("package", None)
    custom, what = None, f"a task, one of {sorted(TASKS_BY_NAME)}"
    if isinstance(name, str) and name not in TASKS_BY_NAME:
        try:
            custom, what = load_custom_task(name, package), f"the task {name!r} as its package defines it"
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    try:
        kind, inputs, length = custom or TASKS_BY_NAME[name], values.pop("text_inputs"), values.pop("max_seq_length")
        return TrainedTask(kind(config, **values), tuple(inputs), length)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} must describe {what}; got {error!r}.") from error


def stated_task(directory: str, model: Any) -> TrainedTask | None:
    """Returns the task of a model to serve: from task.json, or else from the model's own files; None if neither has it.

    Args:
        directory: the model directory.
        model: its `loading.ModelDescription`.

    Raises:
        ValueError: task.json is invalid, or the task in the files is not supported.
    """
    if task_in(directory) is not None:
        return read_task(directory, model.config)
    kinds = (*TASKS, SparseEmbeddingTask)  # the last one is only served
    return next(filter(None, (kind.from_pretrained(directory, model) for kind in kinds)), None)


def task_of(directory: str, model: Any) -> TrainedTask:
    """Returns the same as `stated_task`; raises ValueError if the model's files do not define its task."""
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
    trained = read_task(here, config)
    if not isinstance(trained.task, kind):
        raise ValueError(
            f"This requires a model for {kind.name}. {here} contains one for {trained.task.name}."
        )
    return trained
