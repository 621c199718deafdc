"""Many runs of one command in one directory: each is a resumable child process, and failures are recorded."""

import abc
import dataclasses
import functools
import json
import os
import pathlib
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf.evaluation.constant_predictions import only_answer_in
from bert_tf.evaluation.results import read_results
from bert_tf.utils import logged_runs
from bert_tf.utils.files import read_text, write_text
from bert_tf.utils.json_files import json_text
from bert_tf.utils.logged_runs import UNLESS_GIVEN, name_of_flag
from bert_tf.utils.progress import clock
from bert_tf.utils.settings import command_line

FINISHED_FILE = "finished.json"  # written after a successful run: its settings and duration


def write_finished(folder: pathlib.Path, note: Mapping[str, Any]):
    """Records that the run in a directory succeeded; the note has JSON values, including `seconds`."""
    write_text(folder / FINISHED_FILE, json_text(note, indent=2) + "\n")


def read_finished(folder: pathlib.Path, build: Callable[[dict, dict[str, float], str | None], Any]) -> Any | None:
    """Returns the result of the run in a directory, or None if it has not succeeded.

    A run with damaged or unreadable files counts as unfinished, and a warning is logged: the others
    continue.

    Args:
        folder: directory of the run.
        build: function of the note, the metrics in eval_results.txt, and the constant prediction of the model (if None,
            it varies) that returns the result.
    """
    try:
        scores = read_results(folder)
        if scores is None or not (folder / FINISHED_FILE).exists():
            return None
        return build(json.loads(read_text(folder / FINISHED_FILE)), scores, only_answer_in(folder))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _warn_of_damage(os.fspath(folder), str(error) or type(error).__name__)
        return None


@functools.lru_cache(maxsize=1024)
def _warn_of_damage(folder, problem):  # once, although all runs are read after each run
    logging.warning("The run in %s is treated as unfinished because its %s or results are damaged: %s", folder,
                    FINISHED_FILE, problem)  # fmt: skip


def training_flags(values: Mapping[str, Any], others: Sequence[str]) -> list[str]:
    """Returns the flags of a run: its own, defaults for frequent saves and a single checkpoint, and `others`."""
    given = {*map(name_of_flag, others), *values}
    rare = {name: value for name, value in UNLESS_GIVEN.items() if name not in given}
    return [*command_line({**values, **rare}), *others]


@dataclasses.dataclass(frozen=True)
class ChildRun:
    """A requested run.

    Attributes:
        key: its name in results and errors.
        folder: its directory.
        flags: flags to train and evaluate it, or to resume it after an interruption.
        note: JSON values of FINISHED_FILE, in their order; `seconds` is filled in.
        title: for the log; {number} and {count} are filled in.
        work: its relative duration.
    """

    key: Hashable
    folder: pathlib.Path
    flags: Sequence[str]
    note: Mapping[str, Any]
    title: str
    work: float = 1.0


class ChildRuns(abc.ABC):
    """Sequential runs of one command; a failed run is logged and recorded in `failed`.

    Args:
        program: a command of `bert-tf`.
        claim: as in `folder_lock.alone_in`.
        keep_all: whether to keep the checkpoints of all runs, not only those of the best.
    """

    _noun, _examples = "runs", "examples"  # for the log

    def __init__(self, program: str, claim: int, keep_all: bool):
        self.program, self.claim, self.keep_all = program, claim, keep_all
        self.failed: list = []
        self.one_succeeded = False
        self.errors: dict[Hashable, str | None] = {}  # key -> the user error in its log, until a run succeeds

    @abc.abstractmethod
    def result(self, key: Hashable) -> Any | None:
        """Returns the result of a run, with `folder` and `one_answer`; None if it has not succeeded."""

    @abc.abstractmethod
    def rivals(self, key: Hashable) -> tuple[Iterable, Any]:
        """Returns the finished results that a run competes with, and the best of them."""

    @abc.abstractmethod
    def format_scores(self, result: Any) -> str:
        """Returns the scores of a result for the log."""

    @abc.abstractmethod
    def report(self):
        """Writes tables and the page of all runs."""

    def check_errors(self):
        """Raises ValueError if the failures show that further runs would fail too."""
        return None  # errors are specific to each run

    def make(self, runs: Sequence[ChildRun], title: str = "", left_in: str = ""):
        """Runs everything that is unfinished, and writes the report after each run.

        Args:
            runs: the requested runs.
            title, left_in: for the log: text before the count of runs, and after the remaining time.
        """
        left = [run for run in runs if self.result(run.key) is None]
        logging.info("%s%d %s, %d of them finished already.", title, len(runs), self._noun, len(runs) - len(left))
        begin = time.monotonic()
        for index, run in enumerate(left):
            done, to_do = (sum(each.work for each in some) for some in (left[:index], left[index:]))
            remaining = f"; {clock((time.monotonic() - begin) / done * to_do)} left{left_in}" if done else ""
            number = len(runs) - len(left) + index + 1
            self.make_one(run, number, len(runs), remaining)

    def make_one(self, run: ChildRun, number: int, count: int, remaining: str = ""):
        """Runs one of `count` runs, and writes the report; the log shows its number and `remaining`."""
        logging.info("%s%s", run.title.format(number=number, count=count), remaining)
        self._make(run)
        self.report()
        self.check_errors()

    def _make(self, run):
        start, logged = time.monotonic(), logged_runs.log_size(run.folder)
        if not logged_runs.execute_resumable(self.program, run.flags, run.folder, self.claim):
            self.failed.append(run.key)
            if not self.one_succeeded:
                self.errors[run.key] = logged_runs.logged_error(run.folder, logged)
            return
        self.one_succeeded = True
        seconds = time.monotonic() - start
        write_finished(run.folder, {**run.note, "seconds": round(seconds, 1)})
        result = self.result(run.key)
        if result is None:  # an unreadable note or unreadable metrics count as missing
            self.failed.append(run.key)
            return
        logging.info("    %s, in %s", self.format_scores(result), clock(seconds))
        if result.one_answer is not None:
            logging.warning("    It predicts %r for all %s: it learned nothing.", result.one_answer, self._examples)
        if not self.keep_all:
            drop_models(*self.rivals(run.key))


def drop_models(results: Iterable, best: Any):
    """Removes the checkpoints of finished runs, except the best one."""
    for result in results:
        if result != best:
            logged_runs.drop_checkpoints(result.folder)
