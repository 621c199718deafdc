"""Every process must collect the same tests: pytest-xdist refuses to run what two of its processes name differently."""

import os
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT

# Collects argv[2:] with a clock that is argv[1] seconds fast. The difference is there however long the imports take.
_COLLECT = """
import sys, time
now, fast = time.time, float(sys.argv[1])
time.time = lambda: now() + fast
import pytest
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-m", "", *sys.argv[2:]]))
"""
_STRANGE = """
import gzip, pytest

@pytest.mark.parametrize("data", [b"same", gzip.compress(b"the second is in it")])
def test_clock(data): pass

@pytest.mark.parametrize("name", set(map(str, range(99))))
def test_hashes(name): pass
"""


def _start(seed, fast, *arguments):
    return subprocess.Popen([sys.executable, "-c", _COLLECT, str(fast), *map(str, arguments)], cwd=ROOT, text=True,
                            env={**os.environ, "PYTHONHASHSEED": str(seed)}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)  # fmt: skip


def _collected(*arguments):
    """Returns what two processes collect that differ in clock and hashes: at once, since most of it is imports."""
    one = _start(1, 0, *arguments)
    time.sleep(1.1)  # for clocks other than time.time
    other = _start(2, 86_400, *arguments)
    outputs = [process.communicate()[0] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], "\n".join(output[-4000:] for output in outputs)
    return [[line for line in output.splitlines() if "::" in line] for output in outputs]


@pytest.mark.slow  # pytest-xdist compares its two processes in every run, too
@pytest.mark.skipif("TEST_SRCDIR" in os.environ, reason="Bazel shows a test only a part of the others")
def test_two_processes_collect_the_same_tests():
    one, other = _collected("tests")
    differing = sorted(set(one) ^ set(other))
    assert not differing, "give these parameters ids:\n" + "\n".join(differing)
    assert one == other, "the order differs: sort these parameters"
    assert len(one) > 2000 and len(one) == len(set(one))


def test_names_made_of_the_clock_and_orders_of_a_set_are_seen(tmp_path):
    (tmp_path / "strange_test.py").write_text(_STRANGE, encoding="utf-8")
    one, other = _collected(f"--rootdir={tmp_path}", tmp_path)
    assert len(one) == len(other) == 2 + 99
    assert sum("test_clock" in name for name in set(one) ^ set(other)) == 2
    assert set(one[2:]) == set(other[2:]) and one[2:] != other[2:]
