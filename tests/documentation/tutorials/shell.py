"""bash in which `bert-tf` starts at once: each is a fork of one process that has imported TensorFlow.

The `bert-tf` on its PATH is a small script. It hands its words, folder, environment and standard streams to that
process over a socket, passes signals on, and ends with the status of the fork, so that bash sees what it always sees.
"""

import importlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from bert_tf.cli.main import main
from tests import processes
from tests.conftest import ROOT

_SCRIPT = """#!{python} -SE
import json, os, signal, socket, sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({path!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(request)
    answer = connection.makefile()
    process = int(answer.readline())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(process, number))
    status = answer.readline()
sys.exit(int(status) if status else "bert-tf ended without a status")
"""
# What most programs import.
PROGRAMS = ("tensorflow_text", "bert_tf.cli.command_runner", "bert_tf.runs.run_task")


class Shell:
    """Runs bash in `folder`, which may be set anew; to be used in a `with`.

    Args:
        preloaded: modules that are imported once, and not in each program's fork.
    """

    def __init__(self, preloaded=()):
        self.folder, self.staying = None, []
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="sh"))  # a socket's path must be short
        self.control, other = processes.pipe()
        self.process = processes.start(_serve, str(self.place / "socket"), other, preloaded)
        other.close()
        assert self.control.recv() == "ready"
        self._write("bert-tf", _SCRIPT.format(python=sys.executable, path=str(self.place / "socket")))
        self._write("python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        path = os.pathsep.join([str(self.place), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(paths)}

    def run(self, text: str) -> subprocess.CompletedProcess:
        """Runs lines of bash, up to the first that fails."""
        command = ["bash", "-e", "-o", "pipefail", "-c", text]
        return subprocess.run(command, timeout=processes.LIMIT_S, **self._settings())

    def stay(self, text: str, sign: str):
        """Starts one command, and returns once a line of its log has `sign`; it runs on until the shell ends.

        Raises:
            AssertionError: it ended before that.
        """
        log = open(self.place / f"log{len(self.staying)}", "w+", encoding="utf-8")  # noqa: SIM115, stop() closes it
        settings = {**self._settings(), "stdout": log, "stderr": log}
        process = subprocess.Popen(["bash", "-c", f"exec {text}"], **settings)
        self.staying.append((process, log))
        while sign not in (printed := pathlib.Path(log.name).read_text("utf-8")):
            assert process.poll() is None, printed
            time.sleep(0.05)

    def stop(self):
        """Ends what was told to stay, by SIGTERM; returns [(status, log)]."""
        ended = []
        while self.staying:
            process, log = self.staying.pop()
            process.terminate()
            process.wait(processes.LIMIT_S)
            log.seek(0)
            ended.append((process.returncode, log.read()))
            log.close()
        return ended

    def _settings(self):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return {"cwd": self.folder, "env": self.environment, "text": True, **pipes}

    def _write(self, name, text):
        (self.place / name).write_text(text, encoding="utf-8")
        (self.place / name).chmod(0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.control.close()
        self.process.join()
        shutil.rmtree(self.place)


def _serve(path, control, preloaded):
    """Forks for each connection, until `control` is closed."""
    for name in preloaded:
        importlib.import_module(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that no fork that has ended waits for us
        control.send("ready")
        while True:
            ready, _, _ = select.select([listener, control], [], [])
            if control in ready:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                control.close()
                _answer(connection)
            connection.close()


def _answer(connection):
    """Is, in a fork, the program that one connection asks for; tells its status and ends."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        words = _receive(connection)
        connection.sendall(b"%d\n" % os.getpid())
        status = _status(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(b"%d\n" % status)
        os._exit(status)


def _receive(connection):
    """Takes over streams, folder and environment of the one who asks; returns the words of the command line."""
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    request = b""
    while len(request) < int.from_bytes(size, "big"):
        request += connection.recv(1 << 16)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    words, folder, environment = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return words


def _status(words):
    """Runs `bert-tf *words`; returns the status that the interpreter would end with."""
    try:
        main(words)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0
