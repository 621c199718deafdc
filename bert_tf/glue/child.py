"""run_classifier.py in a process of its own, with its log in the run's folder."""

import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

from absl import logging

from bert_tf.demo.run import SCRIPT
from bert_tf.flags import OF_TRAINING
from bert_tf.glue.runs import LOG_FILE, Run

# What a grid of runs decides itself.
_OURS = (
    "task_name", "data_dir", "output_dir", "overwrite_output_dir", "init_checkpoint", "seed", "train_batch_size",
    "learning_rate", "num_train_epochs", "do_train", "do_eval", "do_predict", "train_file", "eval_file",
    "predict_file", "do_export", "export_dir",
)  # fmt: skip
# A killed run loses a minute or so, and leaves one checkpoint: of hundreds of runs five each would fill the disk.
_UNLESS_GIVEN = {"save_checkpoints_steps": "200", "keep_checkpoints": "1"}
_NOT_IN_PREDICTION = (*OF_TRAINING, "fit_temperature")  # they are refused without --do_train or --do_eval
_SAYS = 60  # seconds between two lines of a run's progress
_TAIL = 15  # lines of a failed run's log that are shown


def check_others(others: Sequence[str]):
    """Checks the flags of run_classifier.py that came behind `--`; whether they exist it says itself.

    Raises:
        ValueError: one is not of the form --name or --name=value, or is a matter of the grid.
    """
    for flag in others:
        if not flag.startswith("--") or len(flag) < 3:
            raise ValueError(f"Behind `--` every flag must be one word, --name=value. Received: {flag!r}.")
        if _name(flag) in _OURS or _name(flag).removeprefix("no") in _OURS:
            raise ValueError(
                f"Flags behind `--` must be those that all runs have alike. Received: {flag}, which run_glue decides; "
                "its own flags stand before the `--`, and --helpfull lists them."
            )


def training(run: Run, folder: pathlib.Path, data_dir, init_checkpoint: str, others: Sequence[str]) -> list[str]:
    """Returns the flags that make a run: it is trained and scored, or goes on where it was interrupted."""
    given = {_name(flag) for flag in others}
    return [
        f"--task_name={run.task}",
        f"--data_dir={data_dir}",
        f"--output_dir={folder}",
        f"--init_checkpoint={init_checkpoint}",
        "--do_train",
        "--do_eval",
        f"--train_batch_size={run.settings.train_batch_size}",
        f"--learning_rate={run.settings.learning_rate:g}",
        f"--num_train_epochs={run.settings.num_train_epochs:g}",
        f"--seed={run.seed}",
        *(f"--{name}={value}" for name, value in _UNLESS_GIVEN.items() if name not in given),
        *others,
    ]


def answering(task: str, folder: pathlib.Path, data_dir, others: Sequence[str]) -> list[str]:
    """Returns the flags by which the trained model in `folder` answers the test files of `task`."""
    kept = [flag for flag in others if _name(flag).removeprefix("no") not in _NOT_IN_PREDICTION]
    return [f"--task_name={task}", f"--data_dir={data_dir}", f"--output_dir={folder}", "--do_predict", *kept]


def execute(flags: Sequence[str], folder: pathlib.Path, claim) -> bool:
    """Runs run_classifier.py to its end; returns whether it ended well. If not, the end of its log is shown.

    Where this process is asked to stop, so is the script, which then saves a checkpoint first.

    Args:
        flags: of the script.
        folder: the run's, which is made; the log is appended to LOG_FILE in it.
        claim: the open file of `glue_runs.claimed`.

    Raises:
        ValueError: there is no run_classifier.py.
    """
    if not SCRIPT.exists():
        raise ValueError(f"run_glue must run from a checkout. Received {SCRIPT.parent}, which has no {SCRIPT.name}.")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOG_FILE
    with path.open("ab") as log:
        start, command = log.tell(), [sys.executable, str(SCRIPT), *flags]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(claim.fileno(),)
        )  # fmt: skip
        try:
            _wait(process, path)
        except BaseException:
            process.terminate()  # the script ignores it where it had the Ctrl-C too
            process.wait()
            raise
    if process.returncode:
        _show_failure(process.returncode, path, start)
    return not process.returncode


def _wait(process, path):
    """Waits for the end, and now and then repeats the last line of the log."""
    said = None
    while True:
        try:
            return process.wait(_SAYS)
        except subprocess.TimeoutExpired:
            last = _tail(path, 1)
            if last and last != said:
                logging.info("    %s", last[0])
            said = last


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
