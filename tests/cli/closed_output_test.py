"""A program whose output nobody reads ends quietly."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT


def start_unread(*command):
    """Returns the status and the errors of a process of whose output nobody reads a line."""
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    return process.wait(), said


@pytest.mark.parametrize("words", [[], ["--version"], ["split", "--help"], ["run_squad", "--help"]])
def test_output_that_nobody_reads_ends_a_program_quietly(words):
    assert start_unread("-m", "bert_tf", *words) == (141, "")  # as SIGPIPE ends others: `bert-tf --help | head`


def test_a_program_that_prints_into_a_closed_pipe_ends_quietly():
    code = (
        "import types\n"
        "from bert_tf.cli import main\n"
        "def prints(settings):\n"
        "    [print('line') for _ in range(100_000)]\n"
        "of_mine = types.SimpleNamespace(__doc__='It prints.', FLAGS=(), main=prints)\n"
        "main.commands.load_command = lambda name: of_mine\n"
        "main.start_program('split', [])\n"
    )
    assert start_unread("-c", code) == (141, "")


@pytest.mark.parametrize("error", ["BrokenPipeError(32, 'of a socket')", "KeyError('x')"])
def test_other_errors_are_told_although_nobody_reads_the_output(error):
    code = (
        "from bert_tf.cli.closed_output import end_quietly_when_closed\n"
        "import sys\n"
        "with end_quietly_when_closed():\n"
        f"    raise {error}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and error.partition("(")[0] in done.stderr
    if "KeyError" in error:
        status, said = start_unread("-c", code)
        assert status == 1 and "KeyError" in said and "BrokenPipe" not in said
