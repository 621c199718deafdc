"""Runs a grid over GLUE's tasks, and writes the test predictions in the leaderboard's format."""

import os
import pathlib
from collections.abc import Sequence

from absl import logging

from bert_tf.data import glue_tasks
from bert_tf.experiments.child_runs import FINISHED_FILE, ChildRun, ChildRuns
from bert_tf.experiments.glue import report as glue_report
from bert_tf.experiments.glue import runs as glue_runs
from bert_tf.experiments.glue.child_flags import answering, training
from bert_tf.experiments.glue.runs import GlueResult, GlueRun
from bert_tf.experiments.glue.score_tables import ScoreTable
from bert_tf.experiments.glue.submission import write_submission
from bert_tf.utils import logged_runs
from bert_tf.utils.manifest import check_manifest, contents

SUBMISSION_FILE = "submission.zip"
_FILES = ("train_file", "eval_file")  # required for a table


class Grid(ChildRuns):
    """A grid of `train classifier` runs in one directory.

    Args:
        output_dir: directory of the grid.
        glue_dir: GLUE's data directory, or None if all runs are on tables.
        init_checkpoint: the initial checkpoint of every run.
        others: further flags of `train classifier`.
        runs: the requested runs; others may exist from earlier commands.
        keep_all, claim: as in `ChildRuns`.
        tables: the user's own tables, by name.
    """

    _examples = "dev examples"

    def __init__(
        self,
        output_dir: str,
        glue_dir: str | None,
        init_checkpoint: str,
        others: Sequence[str],
        runs: Sequence[GlueRun],
        keep_all: bool,
        claim: int,
        tables: dict[str, ScoreTable] | None = None,
    ):
        super().__init__("run_classifier", claim, keep_all)
        self.output_dir, self.glue_dir, self.init_checkpoint = output_dir, glue_dir, init_checkpoint
        self.others, self.runs, self.tables = others, runs, tables or {}
        self.made_with = {"glue_dir": os.path.realpath(self.glue_dir)} if self.glue_dir else {}
        self.made_with |= {
            "init_checkpoint": os.path.realpath(self.init_checkpoint),
            "flags": " ".join(self.others),
            **contents(self._read()),
        }
        path = os.path.join(self.output_dir, glue_runs.GRID_FILE)
        check_manifest(path, self.made_with, "Use another `output_dir`; `compare` compares the two.")
        for result in self.results():
            table = self.tables.get(result.run.task)
            if table and table.to_dict() != result.table:
                raise ValueError(
                    f"`tables` now describes {table.name!r} differently: {table.to_dict()}, but the runs in "
                    f"{result.folder} used {result.table}. Give it another name."
                )

    def train(self):
        """Runs everything that is unfinished, and writes the report after each run."""
        self.make(list(map(self._child, self.runs)))

    def _child(self, run):
        folder, table = run.folder(self.output_dir), self.tables.get(run.task)
        data = table.flags if table else {"task_name": run.task, "data_dir": self._data_dir(run.task)}
        size = table.training_size if table else glue_runs.training_size(run.task, self.glue_dir)
        return ChildRun(
            run,
            folder,
            training(run, folder, data, self.init_checkpoint, self.others),
            glue_runs.note_of(run, 0.0, table and table.to_dict()),
            f"Run {{number}} of {{count}}: {run}",
            size * run.settings.num_train_epochs,
        )

    def result(self, run):
        result = glue_runs.finished(run.folder(self.output_dir))
        return result if result and result.run == run else None

    def rivals(self, run):
        results = [result for result in self.results() if result.run.task == run.task]
        return results, glue_runs.best(results)[run.task]

    def format_scores(self, result):
        return ", ".join(f"{name.removeprefix('eval_')} {100 * value:.2f}" for name, value in result.scores.items())

    def answer(self):
        """Predicts each test file with the task's best run, and packs the predictions for GLUE's server."""
        asked = answerers(glue_runs.best(self.results()), self.glue_dir) if self.glue_dir else []
        for task, result in asked:
            if not _has_answers(task, result.folder):
                logging.info("Predicting %s with %s", glue_tasks.TASKS[task].directory, result.run)
                flags = answering(task, result.folder, self._data_dir(task), self.others)
                if not logged_runs.execute_resumable(self.program, flags, result.folder, self.claim):
                    self.failed.append(f"the predictions of {task}")
        folders = list(dict.fromkeys(result.folder for _, result in asked))
        if not folders:
            raise ValueError(
                f"`do_predict` found no task with both a finished run in {self.output_dir} and a test file in "
                f"{self.glue_dir}. Put GLUE's test.tsv into the directory of each task."
            )
        path = pathlib.Path(self.output_dir, SUBMISSION_FILE)
        write_submission(folders, path)
        logging.info("File for GLUE's leaderboard: %s", path)

    def report(self, compared: Sequence = ()):
        """Writes the results and the report; `compared` is as in `write_glue_report`."""
        results = self.results()
        there = {result.run for result in results}
        missing = {run: "failed" if run in self.failed else "not yet" for run in self.runs if run not in there}
        glue_report.write_glue_report(self.output_dir, results, missing, self.made_with, compared)

    def results(self) -> list[GlueResult]:
        """Returns the finished runs, including those of earlier commands."""
        return glue_runs.all_finished(self.output_dir)

    def _read(self):
        """Returns the data files and directories of the requested tasks."""
        tasks = dict.fromkeys(run.task for run in self.runs)
        files = [self.tables[task].flags.get(name) for task in tasks if task in self.tables for name in _FILES]
        return [*filter(None, files), *(self._data_dir(task) for task in tasks if task not in self.tables)]

    def _data_dir(self, task):
        return os.path.join(self.glue_dir, glue_tasks.TASKS[task].directory)


def answerers(best: dict[str, GlueResult], glue_dir: str | os.PathLike) -> list[tuple[str, GlueResult]]:
    """Returns (task, run for its predictions) for all tasks of GLUE's server with an existing test file.

    A task without training examples (a diagnostic) is predicted by a run on a GLUE task with the same labels, and
    first: the run's directory then keeps the predictions of its own task.
    """
    asked, alike = [], {}
    for result in best.values():
        task = glue_tasks.TASKS.get(result.run.task)
        if task and task.leaderboard_files:
            alike.setdefault(task.labels, result)
    for name, row in glue_tasks.TASKS.items():
        tests = [pathlib.Path(glue_dir, row.directory, row.splits[split].file) for split in row.like("test")]
        by = best.get(name) if row.like("train") else alike.get(row.labels)
        if by and row.leaderboard_files and all(path.is_file() for path in tests):
            asked.append((name, by))
    return sorted(asked, key=lambda pair: pair[0] == pair[1].run.task)


def _has_answers(task, folder):
    """Whether all predictions exist and are newer than the finished run."""
    since = (folder / FINISHED_FILE).stat().st_mtime
    files = [folder / name for name in glue_tasks.TASKS[task].leaderboard_files]
    return all(file.exists() and file.stat().st_mtime >= since for file in files)
