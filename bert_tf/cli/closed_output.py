"""Ends a program without a message when nothing reads its output any longer, as with `| head`."""

import contextlib
import io
import os
import select
import sys

from bert_tf.cli.commands import PROGRAMS as PROGRAMS

_STATUS = 128 + 13  # what a shell gives a command that SIGPIPE ended


def is_output_closed() -> bool:
    """Says whether standard output is a pipe whose other end is closed."""
    try:
        poll, number = select.poll(), sys.stdout.fileno()
    except (AttributeError, io.UnsupportedOperation):  # no standard output, or one in memory
        return False
    poll.register(number, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


@contextlib.contextmanager
def end_quietly_when_closed():
    """Ends the process with the status of SIGPIPE where a closed standard output stopped what is inside.

    A BrokenPipeError of anything else, such as a connection, passes through, and so does every error at which no output
    was left to write.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # what is still in the buffer may be all that there was, such as --help
    except BrokenPipeError:
        if not is_output_closed():
            raise
        # Python would write what is left at its end, and say that it could not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_STATUS)
