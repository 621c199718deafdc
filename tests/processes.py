"""Python programs in processes of their own, without TensorFlow's import, which takes longer than most of them.

Each is a fork of a process that has imported TensorFlow and Keras, and neither tensorflow_text nor a module of ours: a
program that forgot an import fails, as it does alone. A test of signals, or of the start itself, takes `subprocess`.
"""

import gc
import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

from tests.conftest import ROOT

LIMIT_S = 3600  # after which a program hangs, on however busy a machine

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tensorflow", "keras"])


def start(function, *arguments):
    """Starts function(*arguments) in a fork; returns the `Process`."""
    process = _FORKS.Process(target=_call, args=(dict(os.environ), function, arguments), daemon=False)
    process.start()
    return process


def pipe():
    """Returns the two ends of a pipe, one of them for a fork."""
    return _FORKS.Pipe()


def run(*words: str, env: dict | None = None) -> subprocess.CompletedProcess:
    """Runs what `python *words` would run, at the top of the checkout: a script, or -m and a module; then arguments."""
    words = [os.fspath(word) for word in words]
    with tempfile.TemporaryDirectory() as folder:
        process = start(_run, words, env or {}, folder)
        process.join(LIMIT_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        stdout, stderr = (pathlib.Path(folder, name).read_text("utf-8", "replace") for name in ("1", "2"))
    return subprocess.CompletedProcess(words, process.exitcode, stdout, stderr)


def _call(environment, function, arguments):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    gc.freeze()  # TensorFlow stays: no search for garbage has to look through it
    function(*arguments)


def _run(words, environment, folder):
    for stream in (1, 2):
        os.dup2(os.open(os.path.join(folder, str(stream)), os.O_CREAT | os.O_WRONLY | os.O_APPEND), stream)
    os.environ.update(environment)
    is_module = words[0] == "-m"
    sys.argv = words[is_module:]
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
