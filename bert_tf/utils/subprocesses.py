"""Commands started by a command: printed as typed, and stopped together with it."""

import contextlib
import itertools
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from absl import logging

from bert_tf.utils.signals import orderly_end

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
