"""Runs files of tests with pytest as a test of Bazel: each path among the arguments in a process of its own.

The tests see a copy of what their target declares and nothing else of the checkout. Bazel hands over links; whoever
resolves one stands in the checkout, where there are files that nobody declared and that a cached result ignores.

TensorFlow's import takes longer than most files, so it is done once, and each file gets a fork of that process. What
the fork has beyond a fresh process is TensorFlow, Keras and pytest: neither a module of ours nor tensorflow_text, so
that a file which forgot an import fails, as it does alone. TensorFlow does not survive a fork once it has computed
something; the parent never does.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from xml.etree import ElementTree

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


def share(files: list[str]) -> list[str]:
    """Returns the files of this process: all, or every n-th where Bazel runs the target in n parts."""
    if "TEST_SHARD_STATUS_FILE" in os.environ:
        pathlib.Path(os.environ["TEST_SHARD_STATUS_FILE"]).touch()  # Bazel asks for a sign that the parts differ
    return files[int(os.environ.get("TEST_SHARD_INDEX", 0)) :: int(os.environ.get("TEST_TOTAL_SHARDS", 1))]


def import_tensorflow() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # as tests/conftest.py has it
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    ours = sorted(n for n in sys.modules if n.partition(".")[0] in ("bert_tf", "tests", "tensorflow_text"))
    assert not ours, f"whoever forgets to import these would not be found out: {ours}"


def run(folder: pathlib.Path, file: str) -> int:
    """Runs one file in this process; returns pytest's status. `folder` gets the report and the tests' files."""
    options = ["-m", "not slow", f"--rootdir={pathlib.Path.cwd()}", f"--basetemp={folder / 'tmp'}"]
    options += ["-p", "no:cacheprovider", f"--junitxml={folder / 'report.xml'}"]
    if "TESTBRIDGE_TEST_ONLY" in os.environ:  # bazel test --test_filter=...
        options += ["-k", os.environ["TESTBRIDGE_TEST_ONLY"]]
    deselected = Deselected()
    status = pytest.main([*options, file], plugins=[deselected])
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED and deselected.count else int(status)


def run_in_fork(folder: pathlib.Path, file: str) -> tuple[int, float]:
    """Returns the exit status of a process that runs the file, below zero if a signal ended it, and its CPU seconds."""
    folder.mkdir()
    sys.stdout.flush()
    with warnings.catch_warnings():
        # Python warns of threads: the only ones are those of numpy's OpenBLAS, which starts them anew after a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        _, status, usage = os.wait4(process, 0)
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    status = 1
    try:
        status = run(folder, file)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # never back into the parent's code, which would remove the parent's folder


def write_report(path: str, folders: dict[str, pathlib.Path], statuses: dict[str, int]) -> None:
    """Puts the files' reports into the one that Bazel reads; a file that died before it wrote one gets an error."""
    whole = ElementTree.Element("testsuites")
    for file, folder in folders.items():
        if (folder / "report.xml").exists():
            whole.extend(ElementTree.parse(folder / "report.xml").getroot())
        else:
            suite = ElementTree.SubElement(whole, "testsuite", name=file, tests="1", errors="1")
            case = ElementTree.SubElement(suite, "testcase", name=file)
            ElementTree.SubElement(case, "error", message=f"ended with {statuses[file]}, without a report")
    ElementTree.ElementTree(whole).write(path, encoding="utf-8", xml_declaration=True)


def run_all(folder: pathlib.Path, files: list[str]) -> int:
    """Runs the files one after another; prints what became of each, and returns 1 if any failed."""
    folders = {file: folder / str(number) for number, file in enumerate(files)}
    statuses, lines = {}, []
    for file in files:
        begin = time.monotonic()
        statuses[file], cpu = run_in_fork(folders[file], file)
        said = "passed" if not statuses[file] else f"FAILED with {statuses[file]}"
        lines.append(f"{time.monotonic() - begin:7.1f} s  {cpu:7.1f} s of CPU  {file}  {said}")
    print("", *lines, sep="\n", flush=True)
    if "XML_OUTPUT_FILE" in os.environ:
        write_report(os.environ["XML_OUTPUT_FILE"], folders, statuses)
    return int(any(statuses.values()))


def main(files) -> int:
    # Not in TEST_TMPDIR: that path has 200 characters, which sockets do not take and messages are cut for.
    with tempfile.TemporaryDirectory(prefix="bert_tf-", ignore_cleanup_errors=True) as folder:
        begin = time.monotonic()
        move_to(pathlib.Path(folder).resolve())
        import_tensorflow()
        print(f"{time.monotonic() - begin:7.1f} s  for the copy and TensorFlow's import", flush=True)
        return run_all(pathlib.Path.cwd().parent, share(files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
