"""Programs of one statement, each in a process of its own."""

import os
import subprocess
import sys

from tests.conftest import ROOT


def start_program(statement, environment=None, path=ROOT, encoding=None):
    """Starts, in a process of its own, a program whose `main` is one statement; modules in `path` come first."""
    code = (
        f"import os, sys, types; sys.path.insert(0, {os.fspath(path)!r})\n"
        "from bert_tf.cli import main\n"
        "def of_mine(settings):\n"
        f"    {statement}\n"
        "program = types.SimpleNamespace(__doc__='It is mine.', FLAGS=(), main=of_mine)\n"
        "main.commands.load_command = lambda name: program\n"
        "main.start_program('split', [])\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, encoding=encoding)
