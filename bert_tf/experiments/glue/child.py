"""`bert-tf run_classifier` in a process of its own, with its log in the run's folder."""

import pathlib
from collections.abc import Iterable, Sequence

from bert_tf.experiments.glue.runs import Run
from bert_tf.utils import child_runs
from bert_tf.utils.child_runs import UNLESS_GIVEN, name_of
from bert_tf.utils.names import OF_TRAINING
from bert_tf.utils.settings import command_line

# What a grid of runs decides itself.
_OURS = (
    "task_name", "data_dir", "output_dir", "overwrite_output_dir", "init_checkpoint", "seed", "train_batch_size",
    "learning_rate", "num_train_epochs", "do_train", "do_eval", "do_predict", "train_file", "eval_file",
    "predict_file", "do_export", "export_dir", "dry_run",
)  # fmt: skip
_NOT_IN_PREDICTION = (*OF_TRAINING, "fit_temperature", "fit_abstention", "sort_predictions")


def check_others(others: Sequence[str], of_tables: Iterable[str] = ()):
    """Checks the flags of run_classifier that came behind `--`; whether they exist it says itself.

    Args:
        others: the flags.
        of_tables: names of those that the user's tables decide.

    Raises:
        ValueError: one is not of the form --name or --name=value, or is a matter of the grid.
    """
    child_runs.check_others(others, {*_OURS, *of_tables}, "run_glue")


def training(run: Run, folder: pathlib.Path, data: dict, init_checkpoint: str, others: Sequence[str]) -> list[str]:
    """Returns the flags that make a run: it is trained and scored, or goes on where it was interrupted.

    Args:
        run: which.
        folder: its own.
        data: the flags that name its examples.
        init_checkpoint: what it starts from.
        others: further flags.
    """
    given = {name_of(flag) for flag in others}
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
        **{name: value for name, value in UNLESS_GIVEN.items() if name not in given},
    }
    return [*command_line(values), *others]


def answering(task: str, folder: pathlib.Path, data_dir, others: Sequence[str]) -> list[str]:
    """Returns the flags by which the trained model in `folder` answers the test files of `task`."""
    values = {"task_name": task, "data_dir": data_dir, "output_dir": folder, "do_predict": True}
    rest = [flag for flag in others if name_of(flag).removeprefix("no") not in _NOT_IN_PREDICTION]
    return [*command_line(values), *rest]


def execute(flags: Sequence[str], folder: pathlib.Path, claim: int) -> bool:
    """Runs run_classifier to its end, as `child_runs.execute` does; returns whether it ended well."""
    return child_runs.execute("run_classifier", flags, folder, claim)
