"""Fine-tune and evaluate on GLUE tasks, over seeds and hyperparameters.

    bert-tf benchmark glue --glue_dir=glue --tasks=cola,rte,sts-b \\
        --init_checkpoint=demo/weights/minilm --output_dir=grid \\
        --seeds=1,2,3 --grid=paper -- \\
        --precision=mixed_bfloat16 --max_seq_length=128

Flags after `--` are passed to `train classifier`; each run is a separate
process. Writes results.tsv, results.json and report.html to --output_dir. Run
the same command again to resume.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import ClassVar

from absl import logging

from bert_tf.utils.counts import number_of
from bert_tf.utils.folder_lock import alone_in
from bert_tf.utils.manifest import read_manifest
from bert_tf.utils.settings import UserSettings, flags_of, option
from bert_tf.utils.subprocesses import resumable


@dataclasses.dataclass(frozen=True)
class RunGlueSettings(UserSettings):
    """Runs to make, and what to compare them with."""

    GROUP: ClassVar[str] = "Training"

    glue_dir: str | None = option(
        None,
        "Directory with GLUE's directories, such as CoLA and RTE. Without it, and without --tables, nothing is "
        "trained: the report is made from the runs in --output_dir.",
        group="Data",
    )
    tables: str | None = option(
        None,
        "JSON file listing your own datasets, in addition to GLUE's tasks or alone: an object from each dataset's "
        "name to its train_file and eval_file.",
        group="Data",
    )
    output_dir: str | None = option(
        None,
        "Directory for the runs and the report.",
        required=True, group="Output", essential=True,
    )
    tasks: Sequence[str] | None = option(
        None,
        "GLUE tasks to run. Default: all whose training examples are in --glue_dir.",
        group="Data",
    )
    init_checkpoint: str | None = option(
        None, "Model that every run starts from.", group="Model", essential=True, reads_model=True
    )
    seeds: Sequence[str] = option(["1"], "Random seeds; every setting is run with each of them.")
    grid: str = option(
        "single",
        "Defaults of --train_batch_size, --learning_rate and --num_train_epochs. single: one value each; paper: the "
        "values that the BERT paper tried.",
        choices=("single", "paper"),
    )
    train_batch_size: Sequence[str] | None = option(
        None,
        "Batch sizes to try. Default: 32, or 16,32 with --grid=paper.",
        essential=True,
    )
    learning_rate: Sequence[str] | None = option(
        None,
        "Learning rates to try. Default: 5e-5, or 5e-5,3e-5,2e-5 with --grid=paper.",
        essential=True,
    )
    num_train_epochs: Sequence[str] | None = option(
        None,
        "Numbers of epochs to try. Default: 3, or 2,3,4 with --grid=paper.",
        essential=True,
    )
    keep_models: str = option(
        "best",
        "Models to keep on disk. best: that of each task's best run; all: those of all runs.",
        choices=("best", "all"), group="Output",
    )
    do_predict: bool = option(
        False,
        "Predict for the test file with each task's best run, and write submission.zip for GLUE's leaderboard.",
        group="What to do", essential=True,
    )
    compare: str | None = option(
        None,
        "Output directory, or directory of one run, to compare against: each task's best run with a paired "
        "bootstrap, and the seeds of its best setting with a permutation test.",
        group="What to do",
    )


SETTINGS = RunGlueSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True  # the flags after `--`
WHERE_OTHER_FLAGS_GO = "Flags of `train classifier` go after `--`. "


def main(settings: RunGlueSettings, others):
    """Makes the grid of runs, or the page of the existing runs."""
    with resumable():
        _make_grid(settings, others) if settings.glue_dir or settings.tables else _only_report(settings, others)


def _make_grid(settings, others):
    from bert_tf.experiments.glue import grid as glue_grid
    from bert_tf.experiments.glue.score_tables import read_score_tables

    tables = read_score_tables(settings.tables) if settings.tables else {}
    runs = _plan(settings, others, tables)
    out = settings.output_dir
    os.makedirs(out, exist_ok=True)
    with alone_in(out, wait=True) as claim:
        keep_all = settings.keep_models == "all"
        start = settings.init_checkpoint
        grid = glue_grid.Grid(out, settings.glue_dir, start, others, runs, keep_all, claim, tables)
        grid.train()
        if settings.do_predict and grid.results():
            grid.answer()
        grid.report(_compared(settings) if grid.results() else ())
    logging.info("Report: %s", os.path.join(out, "report.html"))
    if grid.failed:
        raise ValueError(
            f"{number_of(len(grid.failed), 'run')} failed: {'; '.join(map(str, grid.failed))}. See the logs in their "
            "directories; run the same command again to retry only these."
        )


def _plan(settings, others, tables):
    """Returns the runs of the grid, once all that can be checked before the first of them is."""
    from bert_tf.experiments.glue import grid_comparison
    from bert_tf.experiments.glue import runs as glue_runs
    from bert_tf.experiments.glue.child_flags import check_classifier_flags

    check_classifier_flags(others, {name for table in tables.values() for name in table.flags})
    start = settings.init_checkpoint
    if not start:
        raise ValueError("--init_checkpoint is required: the model to start from.")
    if not (os.path.exists(start) or os.path.exists(f"{start}.index")):
        raise ValueError(f"--init_checkpoint not found: {start}. Pass a directory, a file or a TF1 prefix.")
    tasks = glue_runs.find_tasks(settings.tasks, settings.glue_dir, tables)
    runs = glue_runs.grid(tasks, glue_runs.axis("seeds", settings.seeds, int), *_axes(settings))
    if settings.compare:
        grid_comparison.best_runs(settings.compare)  # what is wrong with it is said now, not in the morning
    return runs


def _axes(settings):
    from bert_tf.experiments.glue.runs import AXES, axis

    kinds = {"train_batch_size": int, "learning_rate": float, "num_train_epochs": float}
    return [axis(name, getattr(settings, name) or AXES[settings.grid][name], kind) for name, kind in kinds.items()]


def _only_report(settings, others):
    """Makes the page of the existing runs, or compares one run with another."""
    from bert_tf.experiments.glue import grid_comparison, report
    from bert_tf.experiments.glue import runs as glue_runs

    out = settings.output_dir
    if others or settings.tasks or settings.init_checkpoint or settings.do_predict:
        raise ValueError("Runs require data: pass --glue_dir or --tables.")
    if not os.path.isdir(out):
        raise ValueError(f"--output_dir not found: {out!r}. Pass the directory of earlier runs, or --glue_dir.")
    if grid_comparison.is_run(out):  # one run: the report.html there is its own
        if not settings.compare:
            raise ValueError("--output_dir is a single run. Pass --compare, or --glue_dir for many runs.")
        _compared(settings)
        return
    with alone_in(out, wait=True):
        results = glue_runs.all_finished(out)
        if not results:
            raise ValueError(f"--output_dir has no finished runs: {out}. Pass --glue_dir.")
        made_with = read_manifest(os.path.join(out, glue_runs.GRID_FILE))
        report.write_glue_report(out, results, {}, made_with, _compared(settings))
    logging.info("Report: %s", os.path.join(out, "report.html"))


def _compared(settings):
    """Returns what --compare asks for, and logs it."""
    from bert_tf.experiments.glue import grid_comparison
    from bert_tf.experiments.glue.seed_comparison import compare_seeds

    if not settings.compare:
        return []
    sides = settings.output_dir, settings.compare
    compared = [*grid_comparison.compare_grids(*sides), *compare_seeds(*sides)]
    for each in compared:
        logging.info("%s", each)
    return compared
