"""Run the fast tests with other versions of Python, TensorFlow, Keras and protobuf, each in its own environment.

    .venv/bin/python -m tools.versions                                    # all of them: `make test-versions`
    .venv/bin/python -m tools.versions --only=tensorflow-2.19 --python=3.10=/opt/python3.10/bin/python3
    .venv/bin/python -m tools.versions --tests="tests/export -x"          # only some tests

An environment is .venv-versions/NAME and is made once. What was run is kept in benchmarks/results/versions.json, from
which `python -m tools.docs.tables` writes the table of docs/reference/versions_and_hardware.md. Up to 45 minutes of two
cores and 3 GB of disk for each combination.
"""

import argparse
import datetime
import hashlib
import importlib.util
import json
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "versions.json"
ENVIRONMENTS = ROOT / ".venv-versions"
PACKAGES = ("tensorflow", "tensorflow-text", "tensorflow-serving-api", "keras", "keras-nlp", "protobuf", "numpy",
            "tensorboard", "apache-beam")  # fmt: skip
ALL = "all fast tests"
TOLERANCE = 1e-5  # of a probability of an export, between the environment that wrote it and another
_TESTS = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "not slow", "-q")
_VERSIONS = """
import importlib.metadata, json, platform, sys
versions = {name: importlib.metadata.version(name) for name in sys.argv[1:]}
print(json.dumps({"python": platform.python_version(), **versions}))
"""


class Combination(NamedTuple):
    """An environment: its name, the version of Python, and the packages that it pins, TensorFlow first."""

    name: str
    python: str
    pins: tuple[str, ...]


# The oldest and the newest of each, and between them what pip chooses for Python 3.10, which has no newer Keras.
COMBINATIONS = (
    Combination("tensorflow-2.19", "3.10", (
        "tensorflow==2.19.1", "tensorflow-text==2.19.0", "tensorflow-serving-api==2.19.1", "keras==3.10.0",
        "keras-nlp==0.25.1", "protobuf==5.29.6",
    )),
    Combination("tensorflow-2.20", "3.12", (
        "tensorflow==2.20.0", "tensorflow-text==2.20.1", "tensorflow-serving-api==2.20.0", "keras==3.12.4",
        "keras-nlp==0.25.1", "protobuf==6.33.6",
    )),
    Combination("tensorflow-2.21", "3.13", (
        "tensorflow==2.21.0", "tensorflow-text==2.21.1", "tensorflow-serving-api==2.21.0", "keras==3.15.1",
        "keras-nlp==0.32.0", "protobuf==6.33.6",
    )),
    Combination("lock", "3.11", ()),  # this very environment, if its Python is this one
)  # fmt: skip


def find_python(combination: Combination, named: Mapping[str, str]) -> str | None:
    """Returns the interpreter of a combination, or None: the one named for its version, pythonX.Y on PATH, or ours."""
    version = combination.python
    if combination.pins:
        return named.get(version) or shutil.which(f"python{version}")
    return sys.executable if platform.python_version().startswith(f"{version}.") else None


def run(*command: str | os.PathLike, **options) -> str:
    """Returns the output of a command, run at the root of the checkout.

    Raises:
        RuntimeError: it failed; the message has the end of what it said.
    """
    words = list(map(os.fspath, command))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        said = (done.stdout + done.stderr)[-3000:]
        raise RuntimeError(f"{' '.join(words)[:200]} ended with {done.returncode}:\n{said}")
    return done.stdout


def python_of(combination: Combination) -> pathlib.Path:
    """Returns where the Python of a combination's environment is, or will be."""
    return ENVIRONMENTS / combination.name / "bin" / "python" if combination.pins else pathlib.Path(sys.executable)


def find_environments() -> dict[str, str]:
    """Returns {combination: Python} of all environments that are complete and up to date."""
    has_tensorflow = importlib.util.find_spec("tensorflow") is not None  # here, in what "lock" stands for
    ready = {each: _ready(each) if each.pins else has_tensorflow and find_python(each, {}) for each in COMBINATIONS}
    return {each.name: str(python_of(each)) for each in COMBINATIONS if ready[each]}


def _made_of(combination):
    """Returns a hash of all that decides what is in an environment."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + repr(combination).encode()).hexdigest()


def _ready(combination, interpreter=None):
    """Returns what is known of an environment that is complete and made of what is asked for today, or None.

    An interpreter, if it is given, must be the one that it was made with.
    """
    try:
        known = json.loads((ENVIRONMENTS / combination.name / "ready.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a file that was cut off is one of an environment to make again
        known = {}
    is_same = interpreter is None or known.get("interpreter") == _where(interpreter)
    return known if is_same and known.get("made_of") == _made_of(combination) else None


def _where(interpreter):
    return os.path.realpath(shutil.which(interpreter) or interpreter)


def make_environment(combination: Combination, interpreter: str) -> tuple[str, list[str]]:
    """Makes the environment of a combination unless it is there, made with this interpreter.

    Returns its Python, and what TensorFlow would move to.

    TensorFlow comes first and alone, as in an image that has it already; the package must leave it as it is.
    """
    folder, python = ENVIRONMENTS / combination.name, str(python_of(combination))
    if known := _ready(combination, interpreter):
        return python, known["moved"]
    made_of = {"made_of": _made_of(combination), "interpreter": _where(interpreter)}
    run(interpreter, "-m", "venv", "--clear", folder)
    install(python, combination.pins[0])
    moved = moved_by_installing(python)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(combination.pins) + "\n", encoding="utf-8")
    install(python, "--constraint", constraints, "--editable", ".[dev]")
    run(python, "-m", "pip", "check")
    _replace(folder / "ready.json", made_of | {"moved": moved})
    return python, moved


def _replace(path, value):
    """Writes JSON whole, or not at all."""
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    aside.replace(path)


def install(python: str, *words: str | os.PathLike):
    """Installs into an environment, with uv if it is on PATH, which takes a third of pip's time."""
    uv = shutil.which("uv")
    run(*((uv, "pip", "install", "--python", python) if uv else (python, "-m", "pip", "install")), "--quiet", *words)


def moved_by_installing(python: str) -> list[str]:
    """Returns what would take the place of the TensorFlow that is there if the package were installed: [] if it stays.

    It is installed as docs/get_started/installation.md says: with a constraint, for without one pip prefers the newest
    tensorflow-text, and the TensorFlow that goes with it.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, kept = pathlib.Path(folder) / "report.json", pathlib.Path(folder) / "kept.txt"
        frozen = run(python, "-m", "pip", "freeze").splitlines()
        kept.write_text("\n".join(line for line in frozen if line.startswith("tensorflow")), encoding="utf-8")
        run(python, "-m", "pip", "install", "--quiet", "--dry-run", "--constraint", kept, "--report", report, ".")
        planned = json.loads(report.read_text(encoding="utf-8"))["install"]
    packages = (each["metadata"] for each in planned)
    return [f"{each['name']} {each['version']}" for each in packages if each["name"] == "tensorflow"]


def run_tests(python: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Runs the fast tests; returns their counts, the names of those that failed, and the reasons of skipped ones."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1"}
        command = [python, "-m", "pytest", *_TESTS, f"--junit-xml={report}", *arguments]
        begin = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        seconds = time.monotonic() - begin
        return {**read_report(report, done.returncode), "seconds": round(seconds)}


def read_report(path: str | os.PathLike, status: int) -> dict[str, Any]:
    """Returns the counts of the report that pytest wrote.

    Raises:
        RuntimeError: pytest did not finish: its exit status is neither 0 (all passed) nor 1 (some failed), so the
            report may lack tests; or there is no report.
    """
    if status not in (0, 1) or not os.path.exists(path):
        raise RuntimeError(f"pytest ended with {status}{'' if os.path.exists(path) else ', and no report'}; see above")
    return count(xml.etree.ElementTree.parse(path).getroot())


def count(report: xml.etree.ElementTree.Element) -> dict[str, Any]:
    """Returns the counts of a report in JUnit's format."""
    found = {"passed": 0, "failed": [], "skipped": {}}
    for case in report.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            found["failed"].append(f"{case.get('classname')}.{case.get('name')}")
        elif (skipped := case.find("skipped")) is not None:
            reason = skipped.get("message") or ""
            found["skipped"][reason] = found["skipped"].get(reason, 0) + 1
        else:
            found["passed"] += 1
    return found


def exchange(pythons: Mapping[str, str], folder: pathlib.Path) -> dict[str, dict[str, float]]:
    """Has each environment export a classifier, and each ask all; returns {reader: {writer: largest difference}}.

    An environment in which that fails is left out, and the failure is printed.
    """
    written, found = {}, {}
    for name, python in pythons.items():
        (folder / name).mkdir()
        try:
            run(python, "-m", "tests.export.exchange", "write", folder / name)
            written[name] = python
        except RuntimeError as error:
            print(f"{name}, writing an export: {error}")
    for name, python in written.items():
        try:
            out = run(python, "-m", "tests.export.exchange", "read", *(folder / writer for writer in written))
        except RuntimeError as error:
            print(f"{name}, reading the exports: {error}")
            continue
        told = json.loads(out.splitlines()[-1])
        found[name] = {pathlib.Path(writer).name: value for writer, value in told.items()}
    return found


def keep(entries: Iterable[Mapping[str, Any]], path: pathlib.Path = RESULTS):
    """Puts the entries into the file of results, in the place of older ones of the same names.

    What some of the tests found does not take the place of what all of them did. In an entry, "moved": None means that
    it was not checked whether TensorFlow would be moved, and "exports": {} that none was compared.
    """
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    both = {entry["name"]: entry for entry in before}
    for entry in entries:
        if entry["tests"] == ALL or both.get(entry["name"], {}).get("tests") != ALL:
            both[entry["name"]] = entry
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, [both[name] for name in sorted(both)])


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.versions", description=__doc__.partition("\n")[0])
    names = [each.name for each in COMBINATIONS]
    parser.add_argument("--only", action="append", choices=names, help="a combination to run; may be repeated")
    parser.add_argument("--python", action="append", default=[], metavar="X.Y=PATH",
                        help="where a Python is; may be repeated for others")  # fmt: skip
    parser.add_argument("--tests", default="", help="arguments for pytest, such as tests/export, instead of all tests")
    options = parser.parse_args(words)
    used = [each.python for each in COMBINATIONS if each.pins and each.name in (options.only or names)]
    named = {}
    for each in options.python:
        version, is_pair, path = each.partition("=")
        if not (is_pair and path):
            parser.error(f"--python must have the form 3.10=/path/to/python3.10; got {each}")
        if version not in used or version in named:
            known = f"{', '.join(used) or 'none'}; \"lock\" always runs with {sys.executable}"
            parser.error(f"--python must name a version that is run, and each only once: {known}; got {each}")
        named[version] = path
    options.python = named
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; returns 1 if a combination has a fault or none was run."""
    options = parse(words)
    entries, ended = [], {"run": 0, "not run": 0, "failed": 0}
    for combination in COMBINATIONS:
        if options.only and combination.name not in options.only:
            continue
        interpreter = find_python(combination, options.python)
        if interpreter is None:
            version, ours = combination.python, platform.python_version()
            why = f"there is no python{version} on PATH; --python={version}=/path/to/python names one."
            why = why if combination.pins else f"it is made for Python {version}. This one is {ours}."
            print(f"{combination.name}: not run, because {why}")
            ended["not run"] += 1
            continue
        try:
            entries.append(run_combination(combination, interpreter, options.tests))
            ended["run"] += 1
        except RuntimeError as error:  # of one environment: the others are run all the same
            print(f"{combination.name}: {error}")
            ended["failed"] += 1
    with tempfile.TemporaryDirectory() as folder:
        differences = exchange(find_environments(), pathlib.Path(folder)) if entries else {}
    for entry in entries:
        entry["exports"] = differences.get(entry["name"], {})
        print(summary(entry))
    if entries:
        keep(entries)
    print(f"Combinations: {', '.join(f'{number} {what}' for what, number in ended.items())}.")
    return int(not entries or bool(ended["failed"]) or any(map(is_faulty, entries)))


def run_combination(combination: Combination, interpreter: str, arguments: str) -> dict[str, Any]:
    """Returns what the file of results has of a combination, but for its exports."""
    python, moved = make_environment(combination, interpreter) if combination.pins else (interpreter, None)
    versions = json.loads(run(python, "-c", _VERSIONS, *PACKAGES))
    print(f"{combination.name}: {', '.join(f'{name} {version}' for name, version in versions.items())}", flush=True)
    today = datetime.date.today().isoformat()
    counts = run_tests(python, shlex.split(arguments))
    known = {"name": combination.name, "date": today, "versions": versions, "moved": moved}
    return {**known, "tests": arguments or ALL, **counts}


def is_faulty(entry: Mapping[str, Any]) -> bool:
    """Returns whether a test failed, none passed, an export differs, none was compared, or TensorFlow was moved."""
    differences, good = entry["exports"].values(), entry["passed"] and not entry["failed"] and not entry["moved"]
    return bool(not good or not differences or max(differences) > TOLERANCE)


def summary(entry: Mapping[str, Any]) -> str:
    """Returns the lines that tell what an entry found."""
    counts = f"{entry['passed']} passed, {len(entry['failed'])} failed, {sum(entry['skipped'].values())} skipped"
    lines = [f"{entry['name']}, {entry['tests']}: {counts}, {entry['seconds']} s"]
    lines += [f"  failed: {name}" for name in entry["failed"]]
    lines += [f"  export of {name}: differs by {value:.1g}" for name, value in entry["exports"].items()]
    lines += ["  exports: not compared"] if not entry["exports"] else []
    lines += [f"  installing the package would install {each}" for each in entry["moved"] or ()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
