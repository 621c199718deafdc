"""Runs this repository's scripts as a user does, reads what they leave, and compares it."""

import math
import os
import pathlib
import statistics
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


def compare(name, a, b):
    """Returns one line about scores `a` of ours and `b` of torch's."""
    error = math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
    difference = statistics.mean(a) - statistics.mean(b)
    return (
        f"{name:9} {len(a):2} seeds: ours {statistics.mean(a):.4f}  torch {statistics.mean(b):.4f}  difference "
        f"{difference:+.4f}  standard error {error:.4f} ({difference / error:+.1f} of them)"
    )
