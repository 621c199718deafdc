"""Files that a code host reads: they agree with the package and with the lock."""

import re

import bert_tf
from tests.conftest import ROOT
from tools import versions


def _text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_and_the_module_of_bazel_have_the_version_of_the_package():
    assert re.search(r"^version: (\S+)$", _text("CITATION.cff"), re.MULTILINE)[1] == bert_tf.__version__
    assert f'    version = "{bert_tf.__version__}",\n' in _text("MODULE.bazel")


def test_pre_commit_runs_the_ruff_of_the_lock():
    locked = re.search(r"^ruff==([\d.]+)", _text("requirements.lock"), re.MULTILINE)[1]
    assert f"rev: v{locked}\n" in _text(".pre-commit-config.yaml")


def test_the_workflow_runs_what_a_change_must_pass_on_each_supported_python():
    workflow = _text(".github/workflows/ci.yml")
    assert "- run: .ci/run\n" in workflow and (ROOT / ".ci" / "run").exists()
    low, high = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', _text("pyproject.toml")).groups()
    locked, newest = re.search(r"\(3, (\d+)\) <= .* <= \(3, (\d+)\)", _text("Makefile")).groups()
    assert int(newest) == int(high) - 1
    assert re.findall(r"\"(3\.\d+)\"", workflow.partition("steps:")[0]) == [
        f"3.{minor}" for minor in range(int(locked), int(high))
    ]
    # The lock is for newer ones than the oldest, which is run with the oldest TensorFlow.
    (name,) = re.findall(r"- run: python -m tools.versions --only=(\S+)", workflow)
    assert {each.name: each.python for each in versions.COMBINATIONS}[name] == f"3.{low}"
