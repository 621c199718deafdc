"""The flags of the child process that trains or predicts for one GLUE run."""

import pathlib
from collections.abc import Iterable, Sequence

from bert_tf.experiments.child_runs import training_flags
from bert_tf.experiments.glue.runs import GlueRun
from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.utils import logged_runs
from bert_tf.utils.logged_runs import name_of_flag
from bert_tf.utils.settings import command_line, flags_of

# Flags that the grid sets itself.
_OURS = (
    "task_name", "data_dir", "output_dir", "overwrite_output_dir", "init_checkpoint", "seed", "train_batch_size",
    "learning_rate", "num_train_epochs", "do_train", "do_eval", "do_predict", "train_file", "eval_file",
    "predict_file", "do_export", "export_dir", "dry_run",
)  # fmt: skip
# Those that a run which only predicts refuses.
_NOT_IN_PREDICTION = frozenset(
    flag.name
    for flag in flags_of(fine_tuning_settings(ClassificationOptions))
    if {"do_train", "do_eval"} & {*flag.requires}
)


def check_classifier_flags(others: Sequence[str], of_tables: Iterable[str] = ()):
    """Checks the flags of `train classifier` given after `--`; `train classifier` itself rejects unknown ones.

    Args:
        others: the flags.
        of_tables: names of the flags that the user's tables set.

    Raises:
        ValueError: a flag does not have the form --name or --name=value, or is set by the grid.
    """
    logged_runs.check_passed_flags(others, {*_OURS, *of_tables}, "benchmark glue")


def training(run: GlueRun, folder: pathlib.Path, data: dict, init_checkpoint: str, others: Sequence[str]) -> list[str]:
    """Returns the flags of a run, which trains and evaluates, or resumes where it was interrupted.

    Args:
        run: the run.
        folder: its directory.
        data: the flags that name its examples.
        init_checkpoint: the initial checkpoint.
        others: further flags.
    """
    values = {
        **data,
        "output_dir": folder,
        "init_checkpoint": init_checkpoint,
        "do_train": True,
        "do_eval": True,
        "train_batch_size": run.settings.train_batch_size,
        "learning_rate": f"{run.settings.learning_rate:g}",
        "num_train_epochs": f"{run.settings.num_train_epochs:g}",
        "seed": run.seed,
    }
    return training_flags(values, others)


def answering(task: str, folder: pathlib.Path, data_dir, others: Sequence[str]) -> list[str]:
    """Returns the flags for predicting the test files of `task` with the trained model in `folder`."""
    values = {"task_name": task, "data_dir": data_dir, "output_dir": folder, "do_predict": True}
    rest = [flag for flag in others if name_of_flag(flag).removeprefix("no") not in _NOT_IN_PREDICTION]
    return [*command_line(values), *rest]
