"""Programs that answer soon, run in the process of the test: Python's start would take longer."""

import contextlib
import io
import subprocess
import sys
from unittest import mock

from absl import logging

from bert_tf.cli.main import start_program


def run_program(name: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess:
    """Runs a program with `text` as its standard input; returns its status and what it wrote."""
    stdin, stdout, stderr = io.TextIOWrapper(io.BytesIO(text.encode())), io.StringIO(), io.StringIO()
    handler, level = logging.get_absl_handler().python_handler, logging.get_absl_logger().level
    stream, status = handler.setStream(stderr), 0
    try:
        with (
            mock.patch.object(sys, "stdin", stdin),
            mock.patch.object(sys, "argv", sys.argv),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            start_program(name, arguments)
    except SystemExit as end:
        status = end.code or 0
    finally:
        handler.setStream(stream or sys.stderr)
        logging.get_absl_logger().setLevel(level)
    return subprocess.CompletedProcess(arguments, status, stdout.getvalue(), stderr.getvalue())
