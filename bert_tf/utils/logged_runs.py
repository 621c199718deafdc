"""Runs in separate processes, each with its log in its folder: what makes many runs below one folder.

A process that is asked to stop ends its child, which saves a checkpoint first. Where it was killed, the child works
on, and holds the folder's claim until it ends.
"""

import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence

from absl import logging

from bert_tf.utils.subprocesses import ends_with_us

LOG_FILE = "log.txt"
# A killed run loses a minute or so, and leaves one checkpoint: of hundreds of runs five each would fill the disk.
UNLESS_GIVEN = {"save_checkpoints_steps": "200", "keep_checkpoints": "1"}
_SAYS = 60  # seconds between two lines of a run's progress
_ERROR = re.compile(r"\d\d:\d\d:\d\d Error: ")  # how `cli.command_runner` begins errors that a user can fix
_TAIL = 15  # lines of a failed run's log that are shown


def name_of_flag(flag: str) -> str:
    """Returns the flag name in a word such as --seed=1."""
    return flag.removeprefix("--").partition("=")[0]


def check_passed_flags(others: Sequence[str], ours: Iterable[str], program: str):
    """Checks the flags after `--`; the command itself checks whether they exist.

    Args:
        others: the flags.
        ours: names of the flags that are set for each run.
        program: the command that sets them, such as "tune".

    Raises:
        ValueError: one is not of the form --name or --name=value, or is among `ours`.
    """
    ours = set(ours)
    for flag in others:
        if not flag.startswith("--") or len(flag) < 3:
            raise ValueError(f"After `--`, every flag must be one word, --name=value; got {flag!r}.")
        if name_of_flag(flag) in ours or name_of_flag(flag).removeprefix("no") in ours:
            raise ValueError(
                f"Flags after `--` must be those shared by all runs; got {flag}, which `{program}` sets itself; "
                "its own flags come before the `--`, and --help lists them."
            )


def execute_resumable(program: str, flags: Sequence[str], folder: pathlib.Path, claim: int) -> bool:
    """Runs a command to its end; returns whether it succeeded. If not, the end of its log is shown.

    If this process is stopped, so is the child, which saves a checkpoint first.

    Args:
        program: the name of the `bert-tf` command.
        flags: its flags.
        folder: directory of the run, which is created; the log is appended to LOG_FILE in it.
        claim: the descriptor of `alone_in`, for the parent directory or this one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOG_FILE
    with path.open("ab") as log:
        # Even folds, which are useless individually, are not trained in this process: TensorFlow does not release the
        # memory of a run (270 MB more after each of five folds of a model with 18 million parameters, although all of
        # its Python objects were freed), and two MirroredStrategies in one process mix up their sums.
        start, command = log.tell(), [sys.executable, "-m", "bert_tf", program, *flags]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(claim,))
        with ends_with_us(process):
            _wait(process, path)
    if process.returncode:
        _show_failure(process.returncode, path, start)
    return not process.returncode


def logged_error(folder: pathlib.Path, start: int = 0) -> str | None:
    """Returns the user error that ended a run, from its log; None if there is none.

    Args:
        folder: directory of the run.
        start: size of the log before the run began.
    """
    path = folder / LOG_FILE
    if not path.exists():
        return None
    lines = _tail(path, _TAIL, start)
    begin = next((n for n in reversed(range(len(lines))) if _ERROR.match(lines[n])), None)
    if begin is None or any(line.startswith("Traceback") for line in lines[begin:]):
        return None
    return _ERROR.sub("", "\n".join(lines[begin:])).replace(str(folder), "")


def log_size(folder: pathlib.Path) -> int:
    """Returns the current size of a run's log in bytes."""
    path = folder / LOG_FILE
    return path.stat().st_size if path.exists() else 0


def _wait(process, path):
    """Waits for the end, and periodically repeats the last line of the log."""
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
    logging.error("This run failed with %s. The end of its log, %s:", how, path)
    for line in _tail(path, _TAIL, start):
        logging.error("    %s", line)


def _tail(path, lines, start=0):
    """Returns the last lines of the log, written after byte `start`."""
    with path.open("rb") as file:
        file.seek(max(start, path.stat().st_size - 20_000))
        return file.read().decode("utf-8", "replace").splitlines()[-lines:]


def drop_checkpoints(folder: pathlib.Path):
    """Removes the checkpoints of a run, but keeps its metrics and reports."""
    for path in [*folder.glob("model.ckpt-*"), folder / "checkpoint"]:
        path.unlink(missing_ok=True)
