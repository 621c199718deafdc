"""Stands for the processes of programs that a program starts: a second process runs them, one after the other.

Where a search or a grid makes many alike, only the first is run; the others are given what it left, since the same
commands are run for all, and what training makes of their numbers is no matter here.
"""

import functools
import os
import pathlib
import shutil

from bert_tf.cli.commands import find
from bert_tf.experiments.glue import report
from bert_tf.pretraining.quick import run
from bert_tf.runs import pretraining_recipes
from bert_tf.utils import logged_runs
from tests import processes, run_cases
from tests.pretraining.quick import support, tiny_program

_ALIKE = ("task_name", "data_dir", "train_file", "predict_file", "do_train", "do_eval", "do_predict")
_STEPS = 120  # the least that `pretrain quick` trains for


def run_all(connection):
    """Runs each case that comes over the pipe, (folder, program, words), until None comes; sends what it came to."""
    ours, theirs = processes.pipe()
    process = processes.start(_run_children, theirs)
    theirs.close()
    children = _Children(ours)
    _replace(children)
    while (case := connection.recv()) is not None:
        folder, name, words = case
        os.chdir(folder)
        children.made = {}
        connection.send(run_cases.run(name, words))
    ours.send(None)
    process.join()


def _run_children(connection):
    while (case := connection.recv()) is not None:
        folder, name, words = case
        os.chdir(folder)
        connection.send(run_cases.run(name, words))


def _replace(children):
    """Has programs start `children`, and `pretrain quick` train tiny networks for few steps."""
    logged_runs.execute_resumable = children.execute_run
    report.write_glue_report = functools.partial(_write_last, report.write_glue_report)
    run.pretrain_small = functools.partial(run.pretrain_small, execute=children.execute)
    small, taught = (
        {**tiny, "phases": tuple((length, share, 4) for length, share, _ in real["phases"])}
        for tiny, real in (
            (support.SMALL, pretraining_recipes.SMALL),
            (support.SMALL_TAUGHT, pretraining_recipes.SMALL_TAUGHT),
        )
    )
    tiny_program.shrink(_STEPS, small | {"config": {**small["config"], "max_position_embeddings": 512}}, taught)


def _write_last(write, output_dir, results, missing, *more):
    """Writes the page of a grid once all its runs are made, and not after each."""
    if "not yet" not in missing.values():
        write(output_dir, results, missing, *more)


class _Children:
    """The process that runs them.

    Attributes:
        made: what makes runs alike -> the folder of the first of them, of the command that runs now.
    """

    def __init__(self, connection):
        self._connection, self.made = connection, {}

    def _run(self, name, words):
        self._connection.send((os.getcwd(), name, list(words)))
        return self._connection.recv()

    def execute(self, command, limit=None, inherited=()):
        """As `subprocesses.execute_command`, of a program of ours."""
        name, _, words = find(command[3:])
        ended = self._run(name, words)
        assert ended["status"] == 0, ended["log"][-6000:]

    def execute_run(self, program, flags, folder, claim):
        """As `logged_runs.execute_resumable`."""
        values = dict(flag.removeprefix("--").partition("=")[::2] for flag in flags)
        key = (program, *(values.get(name) for name in _ALIKE))
        if key in self.made:
            shutil.copytree(self.made[key], folder, dirs_exist_ok=True)
            return True
        folder.mkdir(parents=True, exist_ok=True)
        ended = self._run(program, flags)
        print(ended["log"][-6000:] if ended["status"] else "")
        self.made[key] = pathlib.Path(shutil.copytree(folder, f"{folder}.first"))
        return not ended["status"]
