"""The file task.json beside a trained model: which task it was trained for, so that it can be built again."""

import json
import os
from collections.abc import Iterable

from bert_tf.config import EncoderConfig
from bert_tf.files import read_text, write_text
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.squad.task import QuestionAnsweringTask

TASK_FILE = "task.json"
TASKS = {"classification": ClassificationTask, "question_answering": QuestionAnsweringTask}


def save_task(directory: str, task, text_inputs: tuple[str, ...], max_seq_length: int):
    """Writes what `read_task` needs.

    Args:
        directory: of the trained model.
        task: one of the classes in `TASKS`.
        text_inputs: names of the texts that an example has: ("text",), ("text_a", "text_b") or ("question", "context").
        max_seq_length: longest row in training.
    """
    kind = next(name for name, cls in TASKS.items() if type(task) is cls)
    values = {"task": kind, **task.to_dict(), "text_inputs": list(text_inputs), "max_seq_length": max_seq_length}
    write_text(os.path.join(directory, TASK_FILE), json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def read_task(directory: str, config: EncoderConfig):
    """Returns (task, text_inputs, max_seq_length) of a trained model.

    Raises:
        ValueError: the directory has no task.json, or one that is not right.
    """
    path = os.path.join(directory, TASK_FILE)
    if not os.path.exists(path):
        raise ValueError(
            f"A trained model must have {TASK_FILE}, which --do_train of the scripts writes. Received {directory}, "
            "which has none."
        )
    try:
        values = json.loads(read_text(path))
        kind, inputs, length = (values.pop(name) for name in ("task", "text_inputs", "max_seq_length"))
        return TASKS[kind](config, **values), tuple(inputs), length
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} must describe a task, one of {sorted(TASKS)}. Received: {error!r}.") from error


def find_task(paths: Iterable[str], config: EncoderConfig, kind: type = ClassificationTask):
    """Returns what `read_task` reads beside the first of `paths` that has a task.json; None: none of them has one.

    Args:
        paths: directories, or checkpoints in them.
        config: of the encoder.
        kind: the class that the task must have.

    Raises:
        ValueError: as `read_task`, or the task is not of the class `kind`.
    """
    directories = (path if os.path.isdir(path) else os.path.dirname(path) for path in paths)
    here = next((d for d in directories if os.path.exists(os.path.join(d, TASK_FILE))), None)
    if here is None:
        return None
    found = read_task(here, config)
    if not isinstance(found[0], kind):
        raise ValueError(
            f"The model must be a {kind.__name__} for this. Received {here}, which holds a {type(found[0]).__name__}; "
            "name another one."
        )
    return found
