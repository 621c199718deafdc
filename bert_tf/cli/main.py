"""`bert-tf COMMAND --flags` runs a command; `bert-tf` alone lists the commands."""

import functools
import itertools
import os
import sys
from collections.abc import Sequence

from bert_tf.cli import commands
from bert_tf.cli.closed_output import end_quietly_when_closed
from bert_tf.cli.commands import PROGRAMS as PROGRAMS
from bert_tf.cli.output_encoding import escape_unencodable_output

# Distributions whose versions determine how bert_tf behaves; --version and problem reports list them.
STANDS_ON = ("tensorflow", "keras", "tensorflow-text", "keras-hub", "numpy", "protobuf")


def main(argv: Sequence[str] | None = None):
    """Starts the command that the command line names.

    Args:
        argv: the words after `bert-tf`; None for this process's.
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
        words: its flags and arguments; if None, those of this process, a script that stands for the program.
        typed: the words that named it; if None, the name that messages use.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no information and no warnings of TensorFlow's C++
    from bert_tf.utils.lean_keras import import_keras_without_extras  # here: the list of commands needs no Keras

    import_keras_without_extras()
    escape_unencodable_output()
    with end_quietly_when_closed():
        try:
            from absl import app

            from bert_tf.cli import command_runner, usage
        except ModuleNotFoundError as error:
            _start_without(error.name, name, sys.argv[1:] if words is None else words)
            return

        if words is not None:
            sys.argv = [f"bert-tf {typed or commands.command_name(name)}", *words]
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

    doctor.main(doctor.DoctorSettings(json="--json" in words))
