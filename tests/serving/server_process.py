"""A server in a process of its own: what it costs, what it logs, how it ends.

BERT_TF_SERVE_FLAGS has flags for it, such as --enable_batching.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from tests.conftest import ROOT


class ServerProcess:
    """`bert-tf serve` of the model "film", or of what `flags` say where there is no base path.

    Attributes:
        port: of gRPC.
        rest_port: of REST.
        process: a `subprocess.Popen`.
    """

    def __init__(self, base_path: os.PathLike | None, log: pathlib.Path, *flags: str):
        models = [] if base_path is None else [f"--model_base_path={base_path}", "--model_name=film"]
        command = [sys.executable, "-m", "bert_tf", "serve", *models, "--port=0", "--rest_api_port=0", *flags,
                   *os.environ.get("BERT_TF_SERVE_FLAGS", "").split()]  # fmt: skip
        self._log = log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, cwd=ROOT)
        found = wait_for(self._listens, 600)  # XLA may compile for minutes
        self.port, self.rest_port = int(found[1]), int(found[2])

    def _listens(self):
        assert self.alive(), f"the server has ended: {self.log()[-2000:]}"
        return re.search(r"gRPC on [^ ]+:(\d+), REST on \w+://[^ ]+:(\d+)/", self.log())

    def alive(self) -> bool:
        return self.process.poll() is None

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def memory(self, what: str = "VmRSS") -> float:
        """Returns MiB in memory now; with "VmHWM" the most there has ever been."""
        return self._status(what) / 1024

    def threads(self) -> int:
        return self._status("Threads")

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def _status(self, what):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{what}:\s+(\d+)", text, re.M)[1])


@contextlib.contextmanager
def running(base_path: os.PathLike | None, log: pathlib.Path, *flags: str) -> Iterator[ServerProcess]:
    """Yields a ServerProcess that has ended when the block ends."""
    server = ServerProcess(base_path, log, *flags)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def wait_for(condition: Callable, seconds: float):
    """Returns what condition() gives as soon as it is true.

    Raises:
        TimeoutError: it has not become true in time.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise TimeoutError(f"after {seconds} s this was still not so: {condition.__name__}")
