"""The file task.json beside a trained model: which task it was trained for, so that it can be built again."""

import json
import os

from bert_tf.config import EncoderConfig
from bert_tf.files import read_text, write_text
from bert_tf.tasks.classification import ClassificationTask

TASK_FILE = "task.json"
TASKS = {"classification": ClassificationTask}


def save_task(directory: str, task, text_inputs: tuple[str, ...], max_seq_length: int):
    """Writes what `read_task` needs.

    Args:
        directory: of the trained model.
        task: one of the classes in `TASKS`.
        text_inputs: names of the texts that an example has: ("text",) or ("text_a", "text_b").
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
            f"A trained model must have {TASK_FILE}, which run_classifier.py --do_train writes. Received {directory}, "
            "which has none."
        )
    try:
        values = json.loads(read_text(path))
        kind, inputs, length = (values.pop(name) for name in ("task", "text_inputs", "max_seq_length"))
        return TASKS[kind](config, **values), tuple(inputs), length
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} must describe a task, one of {sorted(TASKS)}. Received: {error!r}.") from error
