"""docs/reference/versions_and_hardware.md and docs/reference/changelog.md against pyproject.toml and the locks."""

import json
import re

import pytest

import bert_tf
from bert_tf.cli.commands import COMMANDS
from tests import other_envs, toml
from tests.conftest import ROOT
from tools import install
from tools.docs import tables

PROJECT = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENTS = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
VERSIONS, CHANGELOG = "docs/reference/versions_and_hardware.md", "docs/reference/changelog.md"
_ROW = re.compile(r"^\| ([\w-]+) \| ([^|]+) \| ([\d.]*) ?\|$", re.MULTILINE)


def _text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def _pinned(lock):
    """Returns {package: version} of a lock's lines."""
    lines = [line.partition(";")[0].strip() for line in install.pins(_text(lock))]
    return dict(line.split("==") for line in lines)


def _name_and_range(requirement):
    return re.match(r"([\w-]+(?:\[\w+\])?)(.*)", requirement).groups()


RANGES = dict(map(_name_and_range, REQUIREMENTS))
ROWS = {name: (fits.strip(), locked) for name, fits, locked in _ROW.findall(_text(VERSIONS))}


@pytest.mark.parametrize("name", ROWS)
def test_versions_are_those_of_the_project(name):
    fits, locked = ROWS[name]
    if name == "Python":
        assert (fits, locked) == (PROJECT["requires-python"], "")
    else:
        assert fits == RANGES[name] and locked == _pinned("requirements.lock")[name]


RUNS = json.loads(_text("benchmarks/results/versions.json"))


def test_the_table_of_runs_is_made_from_what_was_run():
    text = _text(VERSIONS)
    assert text == tables.with_runs(text), "`python -m tools.docs.tables` writes it anew"
    assert not [run["name"] for run in RUNS if run["failed"] or run["moved"]]


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow-text", "tensorflow-serving-api", "keras", "protobuf"])
def test_the_oldest_and_the_newest_that_are_supported_were_at_least_started(name):
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    ran = sorted(Version(run["versions"][name]) for run in RUNS if run["name"] != "lock")
    fits = SpecifierSet(RANGES[name])
    (oldest,) = (Version(each.version) for each in fits if each.operator == ">=")
    assert ran[0].release[:2] == oldest.release[:2] and all(version in fits for version in ran)
    (bound,) = (Version(each.version) for each in fits if each.operator == "<")
    last = ran[-1]  # the bound is the next minor version, or the next major one
    assert bound in (Version(f"{last.major}.{last.minor + 1}"), Version(f"{last.major + 1}"))


def test_every_python_that_is_supported_was_at_least_started():  # with "lock", which alone has Python 3.11
    ran = {run["versions"]["python"].rpartition(".")[0] for run in RUNS}
    assert ran == {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python" in each}


def test_the_versions_that_must_go_together_are_there():
    together = {"Python", "tensorflow", "tensorflow-text", "keras", "tensorflow-serving-api"}
    bounded = {name for name, fits in map(_name_and_range, PROJECT["dependencies"]) if "<" in fits and "tensor" in name}
    assert together | bounded <= set(ROWS)


def test_versions_of_torch_and_transformers_are_those_of_the_slow_tests():
    text = " ".join(_text(VERSIONS).lower().split())
    for package in other_envs.TORCH[:2]:
        name, version = package.split("==")
        assert f"{name} {'.'.join(version.split('.')[:2])}" in text, package


def test_the_version_has_its_entry_of_changes():
    versions = re.findall(r"^## (\d+\.\d+\.\d+)\b", _text(CHANGELOG), re.MULTILINE)
    assert bert_tf.__version__ == versions[0] and len(set(versions)) == len(versions)


def test_every_program_is_among_the_changes():
    text = _text(CHANGELOG)
    names = [command.alias for command in COMMANDS.values()]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_the_lock_of_the_site_has_what_the_extra_wants():
    from packaging.requirements import Requirement

    pinned = _pinned("tools/docs/requirements.lock")
    for line in PROJECT["optional-dependencies"]["docs"]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(pinned[wanted.name]), line
    assert "tensorflow" not in pinned
