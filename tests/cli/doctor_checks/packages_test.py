"""Packages that are missing, too old, there twice, or of another maker."""

import pytest

from bert_tf.cli import doctor
from bert_tf.cli.doctor import FAULT, OK

NEEDS = {
    "bert-tf": [
        "tensorflow>=2.21,<2.22", "tensorflow-text>=2.21.1,<2.22", "keras>=3.15,<3.16", 'six; extra == "other"',
    ],
    "tensorflow": ["protobuf<8,>=6.31.1", "keras>=3.12.0", "numpy>=1.26.0", 'winrt; sys_platform == "nowhere"'],
    "tensorflow-text": ["tensorflow<2.22,>=2.21.0"],
}  # fmt: skip
FITTING = {
    "tensorflow": ["2.21.0"], "tensorflow-text": ["2.21.1"], "keras": ["3.15.1"], "protobuf": ["6.33.6"],
    "numpy": ["2.4.6"], "unrelated": ["1"],
}  # fmt: skip


def examine(**changes):
    """Returns name -> finding where the versions are those that fit, some changed or, with None, missing."""
    versions = FITTING | {name.replace("_", "-"): each for name, each in changes.items()}
    there = {name: each for name, each in versions.items() if each}
    return {finding.name: finding for finding in doctor.examine_packages(there, NEEDS.get)}


def test_what_fits_is_one_line():
    (finding,) = examine().values()
    assert finding.state == OK and "tensorflow 2.21.0, tensorflow-text 2.21.1" in finding.text
    assert finding.values["unrelated"] == "1"


@pytest.mark.parametrize(
    ("changes", "name", "text", "remedy"),
    [
        ({"tensorflow_text": ["2.20.1"]}, "tensorflow-text",
         "2.20.1 is there; bert-tf needs tensorflow-text<2.22,>=2.21.1", "pip install 'tensorflow-text<2.22,>=2.21.1'"),
        ({"tensorflow_text": ["2.21.0"]}, "tensorflow-text", "2.21.0 is there", ">=2.21.1"),
        ({"tensorflow": ["2.20.0"]}, "tensorflow", "2.20.0 is there", "'tensorflow<2.22,>=2.21,<2.22,>=2.21.0'"),
        ({"keras": ["2.15.0"]}, "keras", "2.15.0 is there", "'keras<3.16,>=3.15,>=3.12.0'"),
        ({"protobuf": ["5.29.0"]}, "protobuf", "5.29.0 is there; tensorflow needs", "'protobuf<8,>=6.31.1'"),
        ({"numpy": ["1.24.0"]}, "numpy", "1.24.0 is there; tensorflow needs numpy>=1.26.0", "'numpy>=1.26.0'"),
        ({"protobuf": None}, "protobuf", "not installed; tensorflow needs", "pip install 'protobuf"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_a_fault_with_a_remedy(changes, name, text, remedy):
    (finding,) = examine(**changes).values()
    assert (finding.name, finding.state) == (name, FAULT)
    assert text in finding.text and remedy in finding.remedy


def test_without_tensorflow_only_what_is_known_to_be_missing_is_named():
    assert set(examine(tensorflow=None, protobuf=None)) == {"tensorflow"}


def test_packages_with_the_same_modules():
    (finding,) = examine(tensorflow_cpu=["2.21.0"]).values()
    assert finding.text == "tensorflow and tensorflow-cpu bring the same modules, and their files are mixed"
    assert "pip uninstall --yes tensorflow tensorflow-cpu; then" in finding.remedy


def test_remains_of_another_version():
    (finding,) = examine(keras=["3.15.1", "3.12.0"]).values()
    assert finding.name == "keras" and finding.text.startswith("3.15.1 and 3.12.0 are there at once")


def test_versions_cannot_be_compared_without_packaging(monkeypatch):
    monkeypatch.setattr(doctor, "_requirement_class", lambda: None)
    (finding,) = examine().values()
    assert finding.state == FAULT and finding.remedy.endswith("-m pip install 'packaging'")


@pytest.mark.parametrize(
    ("version", "state"), [((3, 10, 2), FAULT), ((3, 11, 0), OK), ((3, 13, 1), OK), ((3, 14, 0), FAULT)]
)
def test_pythons(version, state):
    finding = doctor.examine_python(version)
    assert finding.state == state and ".".join(map(str, version)) in finding.text


def test_the_pythons_are_those_of_the_project():
    from tests.conftest import ROOT

    (oldest, newest) = doctor.PYTHONS
    wanted = f'requires-python = ">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"'
    assert wanted in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_this_environment_fits():
    """The one that the tests run in: it has what requirements.lock says."""
    assert [finding.state for finding in doctor.examine_packages()] == [OK]
