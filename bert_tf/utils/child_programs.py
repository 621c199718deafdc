"""Programs that a program starts as anybody would: printed as one types them, and stopped where it is stopped."""

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
_CHILD = "BERT_TF_CHILD"  # environment of a program that `execute` started


def shown(path: str | os.PathLike) -> str:
    """Returns `path` as one would type it here: relative where it lies below the working directory."""
    path = pathlib.Path(os.path.abspath(path))  # absolute, but a link stays a link: .venv/bin/python is one
    here = pathlib.Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def typed(command: Sequence[str]) -> str:
    """Returns a command as one would type it, a line for each flag."""
    program = list(itertools.takewhile(lambda word: not word.startswith("--"), command))
    return " \\\n    ".join([shlex.join(program), *map(shlex.quote, command[len(program) :])])


def is_child() -> bool:
    """Says whether a program of ours started this one: then it is that one which says what comes next."""
    return _CHILD in os.environ


def execute(command: Sequence[str], limit: float | None = None, inherited: Sequence[int] = ()):
    """Prints a command, runs it to its end, and prints how long it took.

    Args:
        command: its words.
        limit: seconds after which it is stopped; None: it has all the time it needs.
        inherited: descriptors of files that it keeps open, such as that of a lock.

    Raises:
        ValueError: it ended with another status than 0.
        subprocess.TimeoutExpired: it was stopped.
    """
    print(f"\n$ {typed(command)}\n", flush=True)
    start = time.monotonic()
    process = subprocess.Popen(command, pass_fds=inherited, env={**os.environ, _CHILD: "1"})
    with ends_with_us(process):
        status = process.wait(limit)
    if status:
        raise ValueError(f"The command above must end with status 0. Received: {status}; what it said stands above.")
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
        logging.error("Stopped. The same command goes on where it was.")
        sys.exit(end.code if isinstance(end, SystemExit) else 128 + signal.SIGINT)
