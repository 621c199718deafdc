"""Many runs of one program below one folder: each a child process, made once, resumed, failed ones noted."""

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

from bert_tf.evaluation.metrics import only_answer_in
from bert_tf.evaluation.results import read_results
from bert_tf.utils import subprocesses
from bert_tf.utils.files import read_text, write_text
from bert_tf.utils.json_files import json_text
from bert_tf.utils.progress import clock
from bert_tf.utils.settings import command_line
from bert_tf.utils.subprocesses import UNLESS_GIVEN, name_of_flag

FINISHED_FILE = "finished.json"  # written when a run has ended well: what it was, and how long it took


def write_finished(folder: pathlib.Path, note: Mapping[str, Any]):
    """Notes that the run in a folder ended well; the note is of JSON values, and has `seconds`."""
    write_text(folder / FINISHED_FILE, json_text(note, indent=2) + "\n")


def read_finished(folder: pathlib.Path, build: Callable[[dict, dict[str, float], str | None], Any]) -> Any | None:
    """Returns the result of the run in a folder, or None where it has not ended well.

    A run whose files are damaged, or cannot be read, counts as one that has not ended, and the log says so: the others
    go on.

    Args:
        folder: of the run.
        build: the note, the scores of eval_results.txt, and what the model answers to every example (None: several
            answers) -> the result.
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
def _warn_of_damage(folder, problem):  # once, though runs are read after each run
    logging.warning("The run in %s is treated as unfinished because its %s or results are damaged: %s", folder,
                    FINISHED_FILE, problem)  # fmt: skip


def training_flags(values: Mapping[str, Any], others: Sequence[str]) -> list[str]:
    """Returns the flags of a run: its own, those that save often and keep one checkpoint unless given, and `others`."""
    given = {*map(name_of_flag, others), *values}
    rare = {name: value for name, value in UNLESS_GIVEN.items() if name not in given}
    return [*command_line({**values, **rare}), *others]


@dataclasses.dataclass(frozen=True)
class ChildRun:
    """A run that is wanted.

    Attributes:
        key: by which results and errors name it.
        folder: its own.
        flags: that make it: it is trained and scored, or goes on where it was interrupted.
        note: JSON values of FINISHED_FILE, in their order; `seconds` is filled in.
        title: of the log; {number} and {count} are filled in.
        work: how much longer than other runs it takes.
    """

    key: Hashable
    folder: pathlib.Path
    flags: Sequence[str]
    note: Mapping[str, Any]
    title: str
    work: float = 1.0


class ChildRuns(abc.ABC):
    """Runs of one command, one after the other; a run that fails is logged and recorded in `failed`.

    Args:
        program: as `bert-tf` knows it.
        claim: of `folder_lock.alone_in`.
        keep_all: whether the checkpoints of all runs stay, not only those of the best.
    """

    _noun, _examples = "runs", "examples"  # of the log

    def __init__(self, program: str, claim: int, keep_all: bool):
        self.program, self.claim, self.keep_all = program, claim, keep_all
        self.failed: list = []
        self.one_succeeded = False
        self.errors: dict[Hashable, str | None] = {}  # key -> the error of its user's in its log, until one succeeds

    @abc.abstractmethod
    def result(self, key: Hashable) -> Any | None:
        """Returns the result of a run, with `folder` and `one_answer`; None: it has not ended well."""

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
        """Raises ValueError if what failed shows that the runs to come would fail alike."""
        return None  # each run's error is its own

    def make(self, runs: Sequence[ChildRun], title: str = "", left_in: str = ""):
        """Makes the runs that are not finished, and the report after each.

        Args:
            runs: those that are wanted.
            title, left_in: of the log: what stands before the count of runs, and behind the time that is left.
        """
        left = [run for run in runs if self.result(run.key) is None]
        logging.info("%s%d %s, %d of them finished already.", title, len(runs), self._noun, len(runs) - len(left))
        begin = time.monotonic()
        for index, run in enumerate(left):
            done, to_do = (sum(each.work for each in some) for some in (left[:index], left[index:]))
            remaining = f"; {clock((time.monotonic() - begin) / done * to_do)} left{left_in}" if done else ""
            number = len(runs) - len(left) + index + 1
            logging.info("%s%s", run.title.format(number=number, count=len(runs)), remaining)
            self._make(run)
            self.report()
            self.check_errors()

    def _make(self, run):
        start, logged = time.monotonic(), subprocesses.log_size(run.folder)
        if not subprocesses.execute_resumable(self.program, run.flags, run.folder, self.claim):
            self.failed.append(run.key)
            if not self.one_succeeded:
                self.errors[run.key] = subprocesses.logged_error(run.folder, logged)
            return
        self.one_succeeded = True
        seconds = time.monotonic() - start
        write_finished(run.folder, {**run.note, "seconds": round(seconds, 1)})
        result = self.result(run.key)
        if result is None:  # a note or scores that cannot be read back are none
            self.failed.append(run.key)
            return
        logging.info("    %s, in %s", self.format_scores(result), clock(seconds))
        if result.one_answer is not None:
            logging.warning("    It predicts %r for all %s: it has learned nothing.", result.one_answer, self._examples)
        if not self.keep_all:
            drop_models(*self.rivals(run.key))


def drop_models(results: Iterable, best: Any):
    """Removes the checkpoints of finished runs but the best, which no later run can bring back."""
    for result in results:
        if result != best:
            subprocesses.drop_checkpoints(result.folder)
