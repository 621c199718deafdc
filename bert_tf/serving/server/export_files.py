"""Files that an export has next to its graph: the task of the model with its options, and its tokenizer."""

import json
import os
from typing import TYPE_CHECKING, Any

from absl import logging

from bert_tf.utils.names import TASK_FILE, TOKENIZER_FOLDER

if TYPE_CHECKING:
    from bert_tf.tokenization.fast_tokenizer import FastTokenizer

_NOT_READ = "%s is not read: %s. Requests that need it are rejected."


def read_task_file(path: str) -> dict[str, Any]:
    """Returns the contents of task.json of the version in the directory `path`; {} if it has none.

    A damaged file is warned of: TensorFlow Serving does not read it either, and the graph has all that it computes.
    """
    file = os.path.join(path, "assets.extra", TASK_FILE)
    if not os.path.isfile(file):
        return {}
    try:
        with open(file, encoding="utf-8") as stored:
            found = json.load(stored)
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        logging.warning(_NOT_READ, file, error)
        return {}
    return found


def read_export_tokenizer(path: str) -> "FastTokenizer | None":
    """Returns the tokenizer of the version in the directory `path`; None if it has none, or a damaged one."""
    folder = os.path.join(path, TOKENIZER_FOLDER)
    if not os.path.isdir(folder):
        return None
    from bert_tf.tokenization.fast_tokenizer import load_fast_tokenizer  # here, because few requests need it

    try:
        return load_fast_tokenizer(folder)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        logging.warning(_NOT_READ, folder, error)
        return None
