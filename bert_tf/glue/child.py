"""`bert-tf run_classifier` in a process of its own, with its log in the run's folder."""

import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence

from absl import logging

from bert_tf.child_programs import ends_with_us
from bert_tf.glue.runs import LOG_FILE, Run
from bert_tf.names import OF_TRAINING
from bert_tf.settings import command_line

# What a grid of runs decides itself.
_OURS = (
    "task_name", "data_dir", "output_dir", "overwrite_output_dir", "init_checkpoint", "seed", "train_batch_size",
    "learning_rate", "num_train_epochs", "do_train", "do_eval", "do_predict", "train_file", "eval_file",
    "predict_file", "do_export", "export_dir", "dry_run",
)  # fmt: skip
# A killed run loses a minute or so, and leaves one checkpoint: of hundreds of runs five each would fill the disk.
_UNLESS_GIVEN = {"save_checkpoints_steps": "200", "keep_checkpoints": "1"}
# They are refused without --do_train or --do_eval.
_NOT_IN_PREDICTION = (*OF_TRAINING, "fit_temperature", "fit_abstention", "sort_predictions")
_SAYS = 60  # seconds between two lines of a run's progress
_TAIL = 15  # lines of a failed run's log that are shown


def check_others(others: Sequence[str], of_tables: Iterable[str] = ()):
    """Checks the flags of run_classifier that came behind `--`; whether they exist it says itself.

    Args:
        others: the flags.
        of_tables: names of those that the user's tables decide.

    Raises:
        ValueError: one is not of the form --name or --name=value, or is a matter of the grid.
    """
    ours = {*_OURS, *of_tables}
    for flag in others:
        if not flag.startswith("--") or len(flag) < 3:
            raise ValueError(f"Behind `--` every flag must be one word, --name=value. Received: {flag!r}.")
        if _name(flag) in ours or _name(flag).removeprefix("no") in ours:
            raise ValueError(
                f"Flags behind `--` must be those that all runs have alike. Received: {flag}, which run_glue decides; "
                "its own flags stand before the `--`, and --help lists them."
            )


def training(run: Run, folder: pathlib.Path, data: dict, init_checkpoint: str, others: Sequence[str]) -> list[str]:
    """Returns the flags that make a run: it is trained and scored, or goes on where it was interrupted.

    Args:
        run: which.
        folder: its own.
        data: the flags that name its examples.
        init_checkpoint: what it starts from.
        others: further flags.
    """
    given = {_name(flag) for flag in others}
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
        **{name: value for name, value in _UNLESS_GIVEN.items() if name not in given},
    }
    return [*command_line(values), *others]


def answering(task: str, folder: pathlib.Path, data_dir, others: Sequence[str]) -> list[str]:
    """Returns the flags by which the trained model in `folder` answers the test files of `task`."""
    values = {"task_name": task, "data_dir": data_dir, "output_dir": folder, "do_predict": True}
    rest = [flag for flag in others if _name(flag).removeprefix("no") not in _NOT_IN_PREDICTION]
    return [*command_line(values), *rest]


def execute(flags: Sequence[str], folder: pathlib.Path, claim) -> bool:
    """Runs run_classifier to its end; returns whether it ended well. If not, the end of its log is shown.

    Where this process is asked to stop, so is that one, which then saves a checkpoint first.

    Args:
        flags: of run_classifier.
        folder: the run's, which is made; the log is appended to LOG_FILE in it.
        claim: the open file of `glue_runs.claimed`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOG_FILE
    with path.open("ab") as log:
        start, command = log.tell(), [sys.executable, "-m", "bert_tf", "run_classifier", *flags]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(claim.fileno(),)
        )  # fmt: skip
        with ends_with_us(process):
            _wait(process, path)
    if process.returncode:
        _show_failure(process.returncode, path, start)
    return not process.returncode


def _wait(process, path):
    """Waits for the end, and now and then repeats the last line of the log."""
    shown = None
    while True:
        try:
            return process.wait(_SAYS)
        except subprocess.TimeoutExpired:
            last = _tail(path, 1)
            if last and last != shown:
                logging.info("    %s", last[0])
            shown = last


def _show_failure(status, path, start):
    how = f"status {status}" if status > 0 else signal.Signals(-status).name
    logging.error("This run ended with %s. The end of its log, %s:", how, path)
    for line in _tail(path, _TAIL, start):
        logging.error("    %s", line)


def _tail(path, lines, start=0):
    """Returns the last lines of the log, of what was written behind byte `start`."""
    with path.open("rb") as file:
        file.seek(max(start, path.stat().st_size - 20_000))
        return file.read().decode("utf-8", "replace").splitlines()[-lines:]


def _name(flag):
    return flag.removeprefix("--").partition("=")[0]
