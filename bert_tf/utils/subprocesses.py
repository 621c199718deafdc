"""Starts, shows, stops and resumes child processes."""

import contextlib
import itertools
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from bert_tf.utils.signals import orderly_end

# === Processes ===
# Commands started by a command: printed as typed, and stopped together with it.


_GRACE = 20.0  # seconds for a child to end by the Ctrl-C that the terminal sent to it too
_CHILD = "BERT_TF_CHILD"  # environment of a program that `execute_command` started


def display_path(path: str | os.PathLike) -> str:
    """Returns `path` for display: relative if it is below the working directory."""
    path = pathlib.Path(os.path.abspath(path))  # absolute, but a link stays a link: .venv/bin/python is one
    here = pathlib.Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def format_command(command: Sequence[str]) -> str:
    """Formats a command as typed in a shell, with one line per flag."""
    program = list(itertools.takewhile(lambda word: not word.startswith("--"), command))
    return " \\\n    ".join([shlex.join(program), *map(shlex.quote, command[len(program) :])])


def is_child() -> bool:
    """Returns whether another bert_tf command started this one, which then prints the next steps."""
    return _CHILD in os.environ


def execute_command(command: Sequence[str], limit: float | None = None, inherited: Sequence[int] = ()):
    """Prints a command, runs it to its end, and prints its duration.

    Args:
        command: the words of the command.
        limit: seconds after which it is stopped. If None, there is no limit.
        inherited: file descriptors that it keeps open, such as that of a lock.

    Raises:
        ValueError: its exit status is not 0.
        subprocess.TimeoutExpired: it was stopped.
    """
    print(f"\n$ {format_command(command)}\n", flush=True)
    start = time.monotonic()
    process = subprocess.Popen(command, pass_fds=inherited, env={**os.environ, _CHILD: "1"})
    with ends_with_us(process):
        status = process.wait(limit)
    if status:
        raise ValueError(f"The command above failed with status {status}; its output is shown above.")
    print(f"({time.monotonic() - start:.0f} s)", flush=True)


@contextlib.contextmanager
def ends_with_us(process: subprocess.Popen) -> Iterator[None]:
    """Stops a child if the block ends with an error or a signal, and waits for it, as it may have to save first."""
    try:
        yield
    except BaseException as error:
        try:
            if isinstance(error, KeyboardInterrupt):  # a second signal would disturb it in what it does about the first
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE)
        finally:  # also where a second Ctrl-C ends the waiting
            process.terminate()
        process.wait()
        raise


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Ends the program with one message and the usual exit status if SIGTERM or Ctrl-C stops the block."""
    try:
        with orderly_end():
            yield
    except (KeyboardInterrupt, SystemExit) as end:
        logging.error("Stopped. Run the same command again to resume.")
        sys.exit(end.code if isinstance(end, SystemExit) else 128 + signal.SIGINT)


# === Child runs ===
# Programs in processes of their own, each with its log in its folder: what makes many runs below one folder.
#
# A process that is asked to stop ends its child, which saves a checkpoint first. Where it was killed, the child works
# on, and holds the folder's claim until it ends.


LOG_FILE = "log.txt"
# A killed run loses a minute or so, and leaves one checkpoint: of hundreds of runs five each would fill the disk.
UNLESS_GIVEN = {"save_checkpoints_steps": "200", "keep_checkpoints": "1"}
_SAYS = 60  # seconds between two lines of a run's progress
_ERROR = re.compile(r"\d\d:\d\d:\d\d Error: ")  # how `cli.program` begins errors that a user can fix
_TAIL = 15  # lines of a failed run's log that are shown


def name_of_flag(flag: str) -> str:
    """Returns the flag name in a word such as --seed=1."""
    return flag.removeprefix("--").partition("=")[0]


def check_passed_flags(others: Sequence[str], ours: Iterable[str], program: str):
    """Checks the flags after `--`; the command itself checks whether they exist.

    Args:
        others: the flags.
        ours: names of the flags that are set for each run.
        program: the command that sets them.

    Raises:
        ValueError: one is not of the form --name or --name=value, or is among `ours`.
    """
    ours = set(ours)
    for flag in others:
        if not flag.startswith("--") or len(flag) < 3:
            raise ValueError(f"After `--`, every flag must be one word, --name=value. Received: {flag!r}.")
        if name_of_flag(flag) in ours or name_of_flag(flag).removeprefix("no") in ours:
            raise ValueError(
                f"Flags after `--` must be those shared by all runs. Received: {flag}, which {program} sets itself; "
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
