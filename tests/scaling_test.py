"""The measurement with several worker processes (benchmarks/scaling/workers.py) leaves none behind."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

# A program of its own: its flags are global. The first worker fails or has ended; the second would run for an hour.
_FAILS = """
import subprocess, sys
import workers
workers.FLAGS(["workers", f"--output_dir={sys.argv[1]}"])
begun = [subprocess.Popen([sys.executable, "-c", text]) for text in ("exit(1)", "import time; time.sleep(3600)")]
workers.start, workers.last_step = lambda *_: begun, lambda _: 0
try:
    workers.finish("a", begun) if sys.argv[2] == "finish" else workers.run_killed("a", 2)
except RuntimeError as error:
    print(error)
print([each.returncode for each in begun])
for each in begun:
    each.kill()
"""


@pytest.mark.parametrize(("name", "message"), [
    ("finish", "log-0: no such file"), ("run_killed", "A worker has ended before one was killed; see "),
])  # fmt: skip
def test_a_worker_that_fails_ends_the_others(name, message, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log-0").write_text("no such file", encoding="utf-8")
    command = [sys.executable, "-c", _FAILS, str(tmp_path), name]
    done = subprocess.run(command, cwd=ROOT / "benchmarks" / "scaling", capture_output=True, text=True, check=True,
                          timeout=60)  # fmt: skip
    assert message in done.stdout and done.stdout.splitlines()[-1] == "[1, -9]"
