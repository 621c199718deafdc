"""`bert-tf COMMAND --flags` runs a command; `bert-tf` alone lists the commands."""

import codecs
import contextlib
import functools
import io
import itertools
import json
import os
import select
import sys
from collections.abc import Sequence

from bert_tf.cli import commands
from bert_tf.cli.commands import PROGRAMS as PROGRAMS

# Distributions whose versions determine how bert_tf behaves; --version and problem reports list them.
STANDS_ON = ("tensorflow", "keras", "tensorflow-text", "keras-hub", "numpy", "protobuf")

# === Closed output ===
# A program whose output nobody reads any more, as behind `| head`, ends and says nothing.


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


# === Encoding of the output ===
# A character that standard output cannot encode, in a Latin-1 locale or an ASCII pipe, does not end a program.


_ESCAPING = "bert_tf.escape"  # name of the error handler


def escape_unencodable_output():
    """Has characters that standard output cannot encode written as JSON does, such as \\u4e2d, with one warning."""
    stream, is_known = sys.stdout, False
    if not isinstance(stream, io.TextIOWrapper) or stream.errors != "strict":
        return  # in memory, or the user has said what to do: PYTHONIOENCODING=latin-1:replace

    def escape(error):
        nonlocal is_known
        if not isinstance(error, UnicodeEncodeError):
            raise error
        if not is_known:
            is_known = True
            _warn_of_escapes(stream.encoding)
        return json.dumps(error.object[error.start : error.end])[1:-1], error.end

    codecs.register_error(_ESCAPING, escape)
    stream.reconfigure(errors=_ESCAPING)


def _warn_of_escapes(encoding):
    from absl import logging  # here, because the list of commands does not need it

    if codecs.lookup(encoding).name == "utf-8":  # of a path, for example
        logging.warning("The output has bytes that are not valid UTF-8; they are written as \\uXXXX.")
        return
    logging.warning(
        "The encoding of standard output, %s, lacks some characters; they are written as \\uXXXX. Set "
        "PYTHONIOENCODING=utf-8 to write them unchanged.", encoding,
    )  # fmt: skip


# === Main ===


def main(argv: Sequence[str] | None = None):
    """Starts the command that the command line names.

    Args:
        argv: the words after `bert-tf`; None: this process's.
    """
    escape_unencodable_output()
    with end_quietly_when_closed():
        _start_or_list(sys.argv[1:] if argv is None else list(argv))


def _start_or_list(words):
    named = list(itertools.dropwhile(("--help", "-h", "help").__contains__, words))
    if not named:
        print(commands.short_list())
        return
    if named != words:
        named.append("--help")
    if named[0] == "--version":
        print(version_list())
    elif named[0] == "--all" or (extent := _help_asked_for(named[:1])) == "all":
        print(commands.full_list())
    elif extent:
        print(commands.short_list())
    elif (found := commands.find(named)).name:
        start_program(found.name, found.rest, found.typed)
    elif (group := commands.starting_with(named[0])) and (not named[1:] or _help_asked_for(named[1:])):
        print("\n".join([f"Usage: bert-tf {named[0]} COMMAND [--flags]", "", *commands.described(group)]))
    else:
        sys.exit(commands.unknown(named))


def version_list() -> str:
    """Returns the versions of bert_tf, Python and `STANDS_ON`, one per line, without importing any of them."""
    from bert_tf.utils.package_versions import package_versions  # here, because the list of commands does not need it

    versions = package_versions(STANDS_ON)
    return "\n".join(f"{name} {versions.get(name, 'is not installed')}" for name in ("bert_tf", "python", *STANDS_ON))


def _help_asked_for(words):
    """Returns what `usage.asked_for` does, of words that name no command: they begin with a flag."""
    if not words[0].startswith("-"):
        return ""
    from bert_tf.cli import usage  # here, because the list of commands does not need it

    return usage.asked_for(words)


def start_program(name: str, words: Sequence[str] | None = None, typed: str | None = None):
    """Runs one program to its end.

    Args:
        name: one of `PROGRAMS`, or "train NAME" of a custom task.
        words: its flags and arguments; None: those of this process, a script that stands for the program.
        typed: the words that named it, if they were others.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no information and no warnings of TensorFlow's C++
    escape_unencodable_output()
    with end_quietly_when_closed():
        try:
            from absl import app

            from bert_tf.cli import command_runner, usage
        except ModuleNotFoundError as error:
            _start_without(error.name, name, sys.argv[1:] if words is None else words)
            return

        if words is not None:
            sys.argv = [f"bert-tf {typed or name}", *words]
        module = commands.load_command(name) if name in PROGRAMS else _custom_task(name)
        if extent := usage.asked_for(sys.argv[1:]):
            print(usage.help_page(module, name, sys.argv[0], with_all=extent == "all"))
            sys.exit(0)
        with command_runner.defined_flags(module):
            parse = functools.partial(command_runner.parse_command_line, module)
            app.run(functools.partial(command_runner.run_program, module), flags_parser=parse)


def _custom_task(name):
    """Returns the command of a task that another package provides, or ends with a message."""
    from bert_tf.cli.custom_task import CustomTaskCommand

    try:
        return CustomTaskCommand(name.removeprefix("train "))
    except ValueError as error:
        sys.exit(f"Error: {error}")


def _start_without(package, name, words):
    """Starts the doctor if a package is missing that the other commands need to read their flags."""
    if name != "doctor":
        sys.exit(f"Error: The package {package!r} is not installed. `bert-tf doctor` lists everything that is missing.")
    from bert_tf.cli import doctor
    from bert_tf.utils.settings import Settings

    doctor.main(Settings({"json": "--json" in words}))
