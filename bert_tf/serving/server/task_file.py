"""task.json of an exported version: the task of its model, and the options of the task."""

import json
import os
from typing import Any

from absl import logging

from bert_tf.models.config_files import TASK_FILE


def read_task_file(path: str) -> dict[str, Any]:
    """Returns the contents of task.json of the version in the directory `path`; {} if it has none.

    A damaged file is warned of: TensorFlow Serving does not read it either, and the graph has all that it computes.
    """
    file = os.path.join(path, "assets.extra", TASK_FILE)
    if not os.path.isfile(file):
        return {}
    try:
        with open(file, encoding="utf-8") as stored:
            task = json.load(stored)
        if not isinstance(task, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        logging.warning("%s is not read: %s. Requests that need the options of the task are rejected.", file, error)
        return {}
    return task
