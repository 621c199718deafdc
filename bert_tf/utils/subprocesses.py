"""Child processes: started, shown, stopped with us, resumed."""

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
# Programs that a program starts as anybody would: printed as one types them, and stopped where it is stopped.


_GRACE = 20.0  # seconds for a child to end by the Ctrl-C that the terminal sent to it too
_CHILD = "BERT_TF_CHILD"  # environment of a program that `execute_command` started


def display_path(path: str | os.PathLike) -> str:
    """Returns `path` as one would type it here: relative where it lies below the working directory."""
    path = pathlib.Path(os.path.abspath(path))  # absolute, but a link stays a link: .venv/bin/python is one
    here = pathlib.Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def format_command(command: Sequence[str]) -> str:
    """Returns a command as one would type it, a line for each flag."""
    program = list(itertools.takewhile(lambda word: not word.startswith("--"), command))
    return " \\\n    ".join([shlex.join(program), *map(shlex.quote, command[len(program) :])])


def is_child() -> bool:
    """Says whether a program of ours started this one: then it is that one which says what comes next."""
    return _CHILD in os.environ


def execute_command(command: Sequence[str], limit: float | None = None, inherited: Sequence[int] = ()):
    """Prints a command, runs it to its end, and prints how long it took.

    Args:
        command: its words.
        limit: seconds after which it is stopped; None: it has all the time it needs.
        inherited: descriptors of files that it keeps open, such as that of a lock.

    Raises:
        ValueError: it ended with another status than 0.
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
    """Stops a child where the block ends by an error or a signal, and waits for its end: it may have to save first."""
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
    """Ends the program by one message where SIGTERM or Ctrl-C stops the block, with the status that shells expect."""
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
    """Returns the name in a word such as --seed=1."""
    return flag.removeprefix("--").partition("=")[0]


def check_passed_flags(others: Sequence[str], ours: Iterable[str], program: str):
    """Checks the flags that came behind `--`; whether they exist their program says itself.

    Args:
        others: the flags.
        ours: names of those that are set for each run.
        program: the one that sets them.

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
    """Runs a program to its end; returns whether it ended well. If not, the end of its log is shown.

    Where this process is asked to stop, so is that one, which then saves a checkpoint first.

    Args:
        program: as `bert-tf` knows it.
        flags: of it.
        folder: the run's, which is made; the log is appended to LOG_FILE in it.
        claim: the descriptor of `alone_in`, for the folder above or this one.
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
    """Returns the error of its user's with which a run ended, from its log; None: it ended otherwise.

    Args:
        folder: the run's.
        start: the log's bytes before it began.
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
    """Returns how many bytes a run's log has by now."""
    path = folder / LOG_FILE
    return path.stat().st_size if path.exists() else 0


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
    logging.error("This run failed with %s. The end of its log, %s:", how, path)
    for line in _tail(path, _TAIL, start):
        logging.error("    %s", line)


def _tail(path, lines, start=0):
    """Returns the last lines of the log, of what was written behind byte `start`."""
    with path.open("rb") as file:
        file.seek(max(start, path.stat().st_size - 20_000))
        return file.read().decode("utf-8", "replace").splitlines()[-lines:]


def drop_checkpoints(folder: pathlib.Path):
    """Removes the checkpoints of a run, whose scores and reports stay."""
    for path in [*folder.glob("model.ckpt-*"), folder / "checkpoint"]:
        path.unlink(missing_ok=True)
