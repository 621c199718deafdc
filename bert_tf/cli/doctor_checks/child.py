"""TensorFlow, tried in a child process: a crash there is a finding, not the end of the doctor."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.utils.greetings import is_greeting

PROBE = pathlib.Path(__file__).with_name("probe.py")
STAGES = ("imports", "devices", "products")
PATIENCE = 600.0  # seconds: on a slow disk the first import alone takes minutes
_LEVEL = 1  # as TF_CPP_MIN_LOG_LEVEL counts: no information, which explains no end
_TOLD = 300  # letters of what it said last


@dataclasses.dataclass(frozen=True)
class Report:
    """How far the child came.

    Attributes:
        lines: what it wrote: {"stage", ...}, see `probe`.
        ending: "" where it came to its end; else how it ended: "signal SIGILL", "status 1", "no end within 600 s".
        said: the end of what it printed in the meantime.
    """

    lines: tuple[dict[str, Any], ...]
    ending: str = ""
    said: str = ""

    def stage(self, name: str) -> list[dict[str, Any]]:
        """Returns the lines of one stage."""
        return [line for line in self.lines if line["stage"] == name]

    @property
    def last_begun(self) -> str:
        """What it was at when it ended, such as "import tensorflow"."""
        return next((line["what"] for line in reversed(self.lines) if line["stage"] == "begin"), "its start")


def ask(
    stages: Sequence[str] = STAGES, patience: float = PATIENCE, environment: Mapping[str, str] | None = None
) -> Report:
    """Runs the stages in a child and returns what is known afterwards; it ends with the child or kills it.

    Args:
        stages: of `probe`, in order.
        patience: seconds.
        environment: of the child; None: this process's.
    """
    environment = {"TF_CPP_MIN_LOG_LEVEL": str(_LEVEL), **(os.environ if environment is None else environment)}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stages.jsonl")
        command = [sys.executable, "-P", os.fspath(PROBE), path, *stages]
        options = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            done = subprocess.run(command, timeout=patience, **options)
            ending, said = _ending(done.returncode), done.stdout
        except subprocess.TimeoutExpired as late:
            ending, said = f"no end within {patience:.0f} s", late.stdout or b""
        lines = tuple(_read(path))
    return Report(lines, ending, _tail(said))


def _read(path):
    """Yields the lines of the child's file; it may have been killed before the first, or in the middle of one."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def _ending(status):
    if status >= 0:
        return f"status {status}" if status else ""
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _tail(said):
    lines = [line for line in map(bytes.strip, said.splitlines()) if line]
    told = [line.decode("utf-8", "replace") for line in lines if not is_greeting(line, _LEVEL, has_gpu=True)]
    return " / ".join(told)[-_TOLD:]
