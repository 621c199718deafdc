"""Scripts as a user runs them, in processes of their own: to their end, or killed and started again."""

import os
import re
import signal
import subprocess
import sys

import numpy as np

from bert_tf.checkpoints.tf1 import read_tensors
from tests import processes, run_cases
from tests.conftest import ROOT

STEP = re.compile(r"step (\d+)/(\d+)  loss")
CONTINUED = re.compile(r"Continuing this run from step (\d+): ")


def start(arguments, script="run_classifier.py"):
    """Starts the script; its log comes line by line from `stderr`."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.Popen(
        [sys.executable, script, *arguments], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )


def run(arguments, script="run_classifier.py"):
    """Returns the log of a run that must succeed."""
    ended = processes.run(script, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


class Cases:
    """A process that runs one command line after the other, of the program `name`; to be used in a `with`."""

    def __init__(self, name):
        self.name, (self.connection, other) = name, processes.pipe()
        self.process = processes.start(run_cases.serve, other)
        other.close()

    def run(self, arguments, limit=None, name=None):
        """Returns {"status", "log", "written"}: see `run_cases.run`; `name`: of another program."""
        self.connection.send((name or self.name, list(arguments), limit))
        return self.connection.recv()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.send(None)
        self.process.join()


def run_programs(name, cases):
    """Runs a program with each list of arguments, all in one process; returns [{"status", "log", "written"}]."""
    with Cases(name) as program:
        return [program.run(arguments) for arguments in cases]


def run_here(name, home, cases):
    """Runs a program with {case: arguments}, HOME's path in them, in this very process; returns {case: result}."""
    return {case: run_cases.run_here(name, at(home, arguments)) for case, arguments in cases.items()}


def at(home, arguments):
    """Returns the arguments with HOME's path in them."""
    return [argument.replace("HOME", str(home)) for argument in arguments]


def run_named(name, home, cases):
    """Runs a program with {case: arguments}, HOME's path in them, as `run_programs` does; returns {case: result}."""
    return dict(zip(cases, run_programs(name, [at(home, arguments) for arguments in cases.values()]), strict=True))


def run_and_kill(arguments, step, script="run_classifier.py"):
    """Kills the run with SIGKILL as soon as it reports `step` or a later one; returns the log up to there."""
    log = []
    with start(arguments, script) as process:
        for line in process.stderr:
            log.append(line)
            if (match := STEP.search(line)) and int(match[1]) >= step:
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL, "".join(log)
    return "".join(log)


def last_step(log):
    return int(STEP.findall(log)[-1][0])


def check_continues(log, killed, every):
    """The log proves that the run went on after the last checkpoint, no more than `every` steps back."""
    (begun,) = map(int, CONTINUED.findall(log))
    assert begun > 0 and begun % every == 0 and begun >= last_step(killed) - every
    assert int(STEP.findall(log)[0][0]) > begun


def files(folder):
    """Returns every file below a folder: {path from there: its bytes}."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def assert_same_tensors(one, other):
    """Asserts that two checkpoints hold the same, to the bit."""
    one, other = read_tensors(os.fspath(one)), read_tensors(os.fspath(other))
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
