"""Runs files of tests with pytest as a test of Bazel: the paths come as arguments, more arguments go to pytest.

The tests see a copy of what their target declares and nothing else of the checkout. Bazel hands over links; whoever
resolves one stands in the checkout, where there are files that nobody declared and that a cached result ignores.
"""

import os
import pathlib
import shutil
import sys
import tempfile

import pytest


class Deselected:
    """Counts what `-m` left out: a file with slow tests only has nothing to run, which is no failure."""

    count = 0

    def pytest_deselected(self, items):
        self.count += len(items)


def move_to(folder: pathlib.Path) -> None:
    """Makes `folder`/checkout the working directory and the place of our modules, for started processes too."""
    checkout, runfiles = folder / "checkout", pathlib.Path(os.environ["TEST_SRCDIR"])
    shutil.copytree(runfiles / os.environ["TEST_WORKSPACE"], checkout)
    os.chdir(checkout)
    left = (str(runfiles), str(pathlib.Path(__file__).resolve().parent))
    sys.path[:] = [str(checkout), *(path for path in sys.path if not path.startswith(left))]
    # Keras writes into the home, and a cache that only one user has must not decide which tests run.
    os.environ.update(PYTHONPATH=str(checkout), HOME=str(folder))


def run(folder: pathlib.Path, arguments) -> int:
    options = ["-m", "not slow", f"--rootdir={folder / 'checkout'}", f"--basetemp={folder / 'tmp'}"]
    options += ["-p", "no:cacheprovider"]
    if "XML_OUTPUT_FILE" in os.environ:
        options.append(f"--junitxml={os.environ['XML_OUTPUT_FILE']}")
    if "TESTBRIDGE_TEST_ONLY" in os.environ:  # bazel test --test_filter=...
        options += ["-k", os.environ["TESTBRIDGE_TEST_ONLY"]]
    deselected = Deselected()
    status = pytest.main([*options, *arguments], plugins=[deselected])
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED and deselected.count else int(status)


def main(arguments) -> int:
    # Not in TEST_TMPDIR: that path has 200 characters, which sockets do not take and messages are cut for.
    with tempfile.TemporaryDirectory(prefix="bert_tf-", ignore_cleanup_errors=True) as folder:
        move_to(pathlib.Path(folder).resolve())
        return run(pathlib.Path.cwd().parent, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
