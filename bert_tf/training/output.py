"""The output directory of a run: which files in it are the run's own."""

import glob
import os
import shutil

from absl import logging

# What every run writes, whatever its task. Anything else in the directory is somebody else's and stays.
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


def prepare(directory: str, anew: bool = False, others: tuple[str, ...] = ()):
    """Makes the directory, and with `anew` removes what an earlier run left there, the files `others` too.

    Raises:
        OSError: it cannot be made.
    """
    os.makedirs(directory, exist_ok=True)
    paths = [path for pattern in (*_OWN, *others) for path in glob.glob(os.path.join(glob.escape(directory), pattern))]
    if anew and paths:
        logging.info("`overwrite_output_dir`: removing %d files of an earlier run from %s", len(paths), directory)
        for path in paths:
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
