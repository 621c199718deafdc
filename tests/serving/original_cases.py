"""Runs TensorFlow Serving's own end-to-end test of its server against ours: its file, unmodified, from its sources.

BERT_TF_SERVING_SOURCE is a checkout of github.com/tensorflow/serving, of which nothing is copied. As a program it takes
the names of cases, or runs all: `python -m tests.serving.original_cases TensorflowModelServerTest.testClassify`. With
tf_keras installed and TF_USE_LEGACY_KERAS=1, the cases of Keras have the Keras 2 that they were written for.
"""

import importlib.util
import os
import pathlib
import runpy
import shlex
import socket
import sys
import tempfile
import types

from tests.conftest import ROOT

SOURCE = "BERT_TF_SERVING_SOURCE"
_PATIENCE = 600  # seconds in which a server must be ready, on however busy a machine
# Flags of what is on by default there, and must be asked for here.
_FLAGS = ("--enable_profiler",)


def main(cases: list[str]):
    """Runs the cases and ends the process with unittest's status."""
    source = pathlib.Path(os.environ[SOURCE], "tensorflow_serving").resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TEST_SRCDIR"] = folder
        _lay_out(pathlib.Path(folder, "tf_serving", "tensorflow_serving"), source)
        _prepare_imports(source)
        test = str(source / "model_servers" / "tensorflow_model_server_test.py")
        sys.argv = [test, f"--test_tmpdir={folder}", *cases]
        runpy.run_path(test, run_name="__main__")


def _lay_out(tree, source):
    """Makes what the test expects Bazel to have built: its data, and our server as the program of theirs."""
    program = tree / "model_servers" / "tensorflow_model_server"
    program.parent.mkdir(parents=True)
    (tree / "servables").symlink_to(source / "servables")
    command = shlex.join([sys.executable, "-m", "bert_tf", "serve", *_FLAGS])
    program.write_text(f'#!/bin/sh\ncd {shlex.quote(str(ROOT))} && exec {command} "$@"\n')
    program.chmod(0o755)


def _prepare_imports(source):
    """Lets the test import its base from the sources, its messages from the package, and a picker of ports."""
    import tensorflow_serving

    tensorflow_serving.__path__.append(str(source))
    if importlib.util.find_spec("portpicker") is None:
        sys.modules["portpicker"] = types.SimpleNamespace(pick_unused_port=_free_port)
    from tensorflow_serving.model_servers.test_util import tensorflow_model_server_test_base

    tensorflow_model_server_test_base.WAIT_FOR_SERVER_READY_INT_SECS = _PATIENCE


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    main(sys.argv[1:])
