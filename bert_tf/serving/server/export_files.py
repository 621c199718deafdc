"""Files that an export has next to its graph: the task of the model with its options, and the tokenizer's settings."""

import json
import os
from typing import Any

from absl import logging

from bert_tf.models.config_files import TASK_FILE
from bert_tf.tokenization.fast_tokenizer import FastTokenizer
from bert_tf.tokenization.table_registry import TABLES_FILE, restore_tables

_EXTRA = "assets.extra"


def read_task_file(path: str) -> dict[str, Any]:
    """Returns the contents of task.json of the version in the directory `path`; {} if it has none.

    A damaged file is warned of: TensorFlow Serving does not read it either, and the graph has all that it computes.
    """
    return _read(path, TASK_FILE)


def read_tokenizer(path: str) -> FastTokenizer | None:
    """Returns the tokenizer of the version in the directory `path`; None if it has no settings of one.

    The vocabulary is that of the graph, in `assets`.

    Raises:
        ValueError, KeyError, TypeError, OSError: the files are damaged.
    """
    description = _read(path, TABLES_FILE)
    return FastTokenizer(restore_tables(description, os.path.join(path, "assets"))) if description else None


def _read(path, name):
    file = os.path.join(path, _EXTRA, name)
    if not os.path.isfile(file):
        return {}
    try:
        with open(file, encoding="utf-8") as stored:
            found = json.load(stored)
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        logging.warning("%s is not read: %s. Requests that need it are rejected.", file, error)
        return {}
    return found
