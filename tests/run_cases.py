"""Runs a program with several command lines in one process, since starting TensorFlow takes seconds.

`scripts.Cases` is the other end.
"""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import traceback

from absl import logging

from bert_tf.cli.main import start_program
from tests.full_disk import full_disk


def _status(name, arguments):
    try:
        start_program(name, arguments)
    except SystemExit as end:
        return 0 if end.code is None else end.code
    except Exception:  # what would end the program with a traceback is this case's result, not the end of the others
        traceback.print_exc()
        return 1
    return 0


def _files(arguments):
    """Returns {path: time of its last change} of what lies in the output directory."""
    folders = [flag.removeprefix("--output_dir=") for flag in arguments if flag.startswith("--output_dir=")]
    return {str(path): path.stat().st_mtime_ns for folder in folders for path in pathlib.Path(folder).rglob("*")}


def run(name, arguments, limit=None):
    """Returns what a case came to.

    Args:
        name: of the program.
        arguments: its command line.
        limit: bytes beyond which no file can grow, as on a full disk.

    Returns:
        {"status", "log": all that came over stdout and stderr, from C++ too, "written": the files in its --output_dir
        that it made, changed or took away}.
    """
    kept, before = [os.dup(1), os.dup(2)], _files(arguments)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            with full_disk(limit) if limit else contextlib.nullcontext():
                status = _status(name, arguments)
        finally:
            sys.stdout.flush()
            for copy, stream in zip(kept, (1, 2), strict=True):
                os.dup2(copy, stream)
                os.close(copy)
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    written = sorted(path for path, _ in before.items() ^ _files(arguments).items())
    return {"status": status, "log": text, "written": written}


def run_here(name, arguments):
    """Returns {"status", "log"} as `run` does, of a program in this very process, without what C++ writes.

    It is for programs that set nothing for the whole process but Keras's dtype policy, as those that train do.
    """
    import keras

    text, argv = io.StringIO(), sys.argv
    policy, level = keras.config.dtype_policy(), logging.get_absl_logger().level
    handler = logging.get_absl_handler().python_handler
    stream = handler.setStream(text)
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = _status(name, arguments)
    finally:
        handler.setStream(stream or sys.stderr)
        sys.argv = argv
        keras.config.set_dtype_policy(policy)
        logging.get_absl_logger().setLevel(level)  # 0 if none was set, which the verbosity does not tell from 30
    return {"status": status, "log": text.getvalue()}


def serve(connection):
    """Runs each case that comes over the pipe, the arguments of `run`, until None comes; sends back what it came to."""
    while (case := connection.recv()) is not None:
        connection.send(run(*case))
