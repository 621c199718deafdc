"""The output directory of a run: which files in it belong to the run."""

import glob
import os
import shutil

from absl import logging

# Files that every run writes, for any task. All other files in the directory are left alone.
_OWN = (
    "model.ckpt-*.index",
    "model.ckpt-*.data-*",
    "checkpoint",
    "best_checkpoint.json",
    "eval_results*.txt",
    "eval_files.json",
    "eval_predictions*.tsv",
    "labels.txt",
    "task.json",
    "history.jsonl",
    "run.json",
    "tracking.json",
    "report.html",
    "train/events.out.tfevents.*",
    "eval/events.out.tfevents.*",
    "adapter",
)


def prepare_directory(directory: str, overwrite: bool = False, others: tuple[str, ...] = ()):
    """Creates the directory, and with `overwrite` removes an earlier run's files, including the files `others`.

    Raises:
        OSError: it cannot be created.
    """
    os.makedirs(directory, exist_ok=True)
    paths = [path for pattern in (*_OWN, *others) for path in glob.glob(os.path.join(glob.escape(directory), pattern))]
    if overwrite and paths:
        logging.info("`overwrite_output_dir`: removing %d files of an earlier run from %s", len(paths), directory)
        for path in paths:
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
