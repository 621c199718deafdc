"""Runs this repository's scripts as a user does, and reads what they leave."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(*command, **environment) -> None:
    """Runs `python COMMAND` at the root of the repository; its log goes to standard error."""
    line = [sys.executable, *map(str, command)]
    subprocess.run(line, cwd=ROOT, stdout=sys.stderr, check=True, env={**os.environ, **environment})


def scores(folder) -> dict[str, float]:
    """Returns {name: value} of a run's eval_results.txt."""
    lines = pathlib.Path(folder, "eval_results.txt").read_text(encoding="utf-8").splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}
