"""`bert-tf NAME --flags`: starts the program of that name; alone, it lists them."""

import ast
import contextlib
import functools
import importlib
import io
import os
import pathlib
import select
import sys
from collections.abc import Sequence

import bert_tf

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


# === Main ===


PROGRAMS = (
    "demo",
    "doctor",
    "run_classifier",
    "run_squad",
    "run_tagger",
    "run_multiple_choice",
    "run_embedder",
    "run_glue",
    "tune",
    "split",
    "check_data",
    "score_squad",
    "compare",
    "find_label_errors",
    "probe",
    "see",
    "run_pretraining",
    "pretrain_small",
    "fill_mask",
    "score_text",
    "extract_features",
    "embed",
    "search",
    "predict",
    "train_vocabulary",
    "extend_vocabulary",
    "surgery",
    "create_pretraining_data",
    "convert",
    "export",
    "verify",
    "serve",
    "ask",
    "load_test",
)


def main(argv: Sequence[str] | None = None):
    """Starts what the command line names.

    Args:
        argv: the words after `bert-tf`; None: this process's.
    """
    with end_quietly_when_closed():
        _start_or_list(sys.argv[1:] if argv is None else list(argv))


def _start_or_list(words):
    if not words or words[0] in ("--help", "-h", "help"):
        print(list_programs())
    elif words[0] == "--version":
        print(f"bert_tf {bert_tf.__version__}")
    elif words[0] in PROGRAMS:
        start_program(words[0], words[1:])
    else:
        import difflib  # here: the listing and the other programs do without

        near = difflib.get_close_matches(words[0], PROGRAMS, 1)
        remedy = f"did you mean {near[0]}?" if near else "`bert-tf` alone lists them."
        sys.exit(f"Error: The name of a program must be one of {', '.join(PROGRAMS)}. Received {words[0]!r}; {remedy}")


def start_program(name: str, words: Sequence[str] | None = None):
    """Runs one program to its end.

    Args:
        name: one of `PROGRAMS`.
        words: its flags and arguments; None: those of this process, a script that stands for the program.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no information and no warnings of TensorFlow's C++
    with end_quietly_when_closed():
        try:
            from absl import app

            from bert_tf.cli import program
        except ModuleNotFoundError as error:
            _start_without(error.name, name, sys.argv[1:] if words is None else words)
            return

        if words is not None:
            sys.argv = [f"bert-tf {name}", *words]
        module = importlib.import_module(f"bert_tf.cli.{name}")
        with program.defined_flags(module):
            parse = functools.partial(program.parse_command_line, module)
            app.run(functools.partial(program.run_program, module), flags_parser=parse)


def _start_without(package, name, words):
    """Starts the doctor where a package is missing that reads the flags of programs; no other can do without."""
    if name != "doctor":
        sys.exit(f"Error: The package {package!r} must be installed. It is not; `bert-tf doctor` says what else is.")
    from bert_tf.cli import doctor
    from bert_tf.utils.settings import Settings

    doctor.main(Settings({"json": "--json" in words}))


def list_programs() -> str:
    """Returns what `bert-tf` alone prints: a line for each program."""
    wide = max(map(len, PROGRAMS))
    lines = [f"  {name:<{wide}}  {_summary(name)}" for name in PROGRAMS]
    return "\n".join([
        "Usage: bert-tf NAME --flags        (or: python -m bert_tf NAME --flags)",
        "",
        *lines,
        "",
        "`bert-tf NAME --help` explains the flags of a program, `bert-tf --version` says which bert_tf this is.",
    ])  # fmt: skip


def _summary(name):
    """Returns the first line of a program's docstring; read and not imported, since some bring in TensorFlow."""
    source = pathlib.Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)).splitlines()[0]
