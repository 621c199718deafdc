"""The sum of the results of a list of tasks, in a file from which an interrupted list resumes."""

import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bert_tf.utils.files import write_text
from bert_tf.utils.json_files import read_object
from bert_tf.utils.workers import Workers


class TaskTotal:
    """The sum of the results of a list of tasks, in a file from which an interrupted list resumes.

    A task that had begun when the run was killed is run again, and must replace what it left behind.

    Args:
        path: path of the file.
        encode, decode: convert the sum to JSON values and back.

    Attributes:
        total: the sum; if None, there is no result yet.
        done: number of tasks in it.
        is_complete: whether these are all tasks.
    """

    def __init__(self, path: str, encode: Callable = dict, decode: Callable = Counter):
        self._path, self._encode = path, encode
        self.total: Any = None
        self.done, self.is_complete = 0, False
        if os.path.exists(path):
            saved = read_object(path, "the state of unfinished work", "remove the directory that contains it")
            self.done, self.is_complete = saved["done"], saved["is_complete"]
            self.total = None if saved["total"] is None else decode(saved["total"])

    def run(self, workers: Workers, method: str, tasks: Iterable) -> Iterator:
        """Runs the tasks that are left; yields each result, which can be added to others, once it is in the file."""
        if self.is_complete:
            return
        for result in workers.map(method, itertools.islice(tasks, self.done, None)):
            self.total = result if self.total is None else self.total + result
            self.done += 1
            self._write()
            yield result
        self.is_complete = True
        self._write()

    def restart(self):
        """Forgets all results."""
        self.total, self.done, self.is_complete = None, 0, False

    def _write(self):
        total = None if self.total is None else self._encode(self.total)
        write_text(self._path, json.dumps({"done": self.done, "is_complete": self.is_complete, "total": total}))
