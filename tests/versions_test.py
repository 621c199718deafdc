"""What `make test-versions` counts and keeps, how it speaks of a Python that is missing, and its table."""

import json
import xml.etree.ElementTree

import pytest

from tools import versions
from tools.docs import tables

REPORT = """<testsuites><testsuite>
  <testcase classname="tests.a_test" name="test_good" time="0.1"/>
  <testcase classname="tests.a_test" name="test_bad[1]"><failure message="no">...</failure></testcase>
  <testcase classname="tests.b_test" name="test_broken"><error message="no">...</error></testcase>
  <testcase classname="tests.b_test" name="test_left"><skipped message="needs a GPU"/></testcase>
  <testcase classname="tests.b_test" name="test_left_too"><skipped message="needs a GPU"/></testcase>
</testsuite></testsuites>"""
ENTRY = {
    "name": "tensorflow-2.19", "date": "2026-01-02", "moved": [], "seconds": 300, "passed": 3, "failed": [],
    "tests": "all fast tests", "skipped": {"needs a GPU": 2}, "exports": {"lock": 2e-7, "tensorflow-2.19": 0.0},
    "versions": {"python": "3.10.12", "tensorflow": "2.19.1", "tensorflow-text": "2.19.0", "keras": "3.10.0",
                 "protobuf": "5.29.6", "numpy": "2.1.3"},
}  # fmt: skip


def test_a_report_is_counted():
    assert versions.count(xml.etree.ElementTree.fromstring(REPORT)) == {
        "passed": 1, "failed": ["tests.a_test.test_bad[1]", "tests.b_test.test_broken"], "skipped": {"needs a GPU": 2}
    }  # fmt: skip


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_the_report_of_an_unfinished_run_is_not_counted(tmp_path, status):
    path = tmp_path / "report.xml"
    with pytest.raises(RuntimeError, match="pytest ended with 1, and no report"):
        versions.read_report(path, 1)
    path.write_text(REPORT, encoding="utf-8")
    assert versions.read_report(path, 1)["passed"] == 1
    with pytest.raises(RuntimeError, match=f"pytest ended with {status}; see above"):
        versions.read_report(path, status)


def test_an_entry_takes_the_place_of_an_older_one(tmp_path):
    path = tmp_path / "results" / "versions.json"
    versions.keep([ENTRY, {"name": "lock", "tests": "tests/export"}], path)
    versions.keep([ENTRY | {"passed": 4}], path)
    versions.keep([ENTRY | {"passed": 1, "tests": "tests/export"}], path)  # some tests: all of them say more
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert [(each["name"], each.get("passed")) for each in kept] == [("lock", None), ("tensorflow-2.19", 4)]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("change", "faulty", "said"),
    [
        ({}, False, "3 passed, 0 failed, 2 skipped, 300 s"),
        ({"failed": ["tests.a_test.test_bad"]}, True, "failed: tests.a_test.test_bad"),
        ({"passed": 0}, True, "0 passed, 0 failed, 2 skipped, 300 s"),
        ({"moved": ["tensorflow 2.21.0"]}, True, "installing the package would install tensorflow 2.21.0"),
        ({"moved": None}, False, "3 passed, 0 failed, 2 skipped, 300 s"),
        ({"exports": {"lock": 1e-3}}, True, "export of lock: differs by 0.001"),
        ({"exports": {}}, True, "exports: not compared"),
    ],
)
def test_faults_of_an_entry(change, faulty, said):
    assert versions.is_faulty(ENTRY | change) == faulty and said in versions.summary(ENTRY | change)


def test_a_python_that_is_missing_is_said_and_counted(monkeypatch, capsys):
    monkeypatch.setattr(versions.shutil, "which", lambda name: None)
    assert versions.main(["--only=tensorflow-2.19"]) == 1
    said, counts = capsys.readouterr().out.splitlines()
    assert said.startswith("tensorflow-2.19: not run, because there is no python3.10 on PATH; --python=3.10=")
    assert counts == "Combinations: 0 run, 1 not run, 0 failed."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--python=3.10"], "--python must have the form 3.10=/path/to/python3.10; got 3.10"),
        (["--python=3.10="], "--python must have the form 3.10=/path/to/python3.10; got 3.10="),
        (["--python=3.14=/x"], "that is run, and each only once: 3.10, 3.12, 3.13; \"lock\" always runs with "),
        (["--python=3.11=/x"], "got 3.11=/x"),
        (["--python=3.10=/x", "--python=3.10=/y"], "and each only once: 3.10, "),
        (["--only=tensorflow-2.20", "--python=3.10=/x"], "only once: 3.12; "),
        (["--only=lock", "--python=3.11=/x"], "only once: none; "),
    ],
)
def test_a_python_that_would_not_be_used_is_refused(capsys, words, message):
    with pytest.raises(SystemExit):
        versions.parse(words)
    assert message in capsys.readouterr().err


def test_an_environment_is_made_again_with_another_interpreter(monkeypatch, tmp_path):
    made, combination = [], versions.COMBINATIONS[0]

    def run(*words):
        if "venv" in words:
            made.append(words[0])
            words[-1].mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(versions, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(versions, "run", run)
    monkeypatch.setattr(versions, "moved_by_installing", lambda python: [])
    for interpreter in ("/a/python", "/a/python", "/b/python", "/b/../b/python"):
        versions.make_environment(combination, interpreter)
        assert combination.name in versions.find_environments()
    assert made == ["/a/python", "/b/python"]


def test_a_file_that_is_cut_off_is_not_that_of_an_environment(monkeypatch, tmp_path):
    combination, path = versions.COMBINATIONS[0], tmp_path / versions.COMBINATIONS[0].name / "ready.json"
    path.parent.mkdir()
    path.write_text('{"made_of":', encoding="utf-8")
    monkeypatch.setattr(versions, "ENVIRONMENTS", tmp_path)
    assert combination.name not in versions.find_environments()
    versions._replace(path, ["whole"])
    monkeypatch.setattr(versions.pathlib.Path, "replace", lambda *_: pytest.fail("stopped before it"))
    with pytest.raises(pytest.fail.Exception):
        versions._replace(path, ["another"])
    assert json.loads(path.read_text(encoding="utf-8")) == ["whole"]


def test_an_environment_that_cannot_be_made_does_not_end_the_others(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(versions, "ENVIRONMENTS", tmp_path)
    assert versions.main(["--only=tensorflow-2.20", "--python=3.12=false"]) == 1
    out = capsys.readouterr().out
    assert "tensorflow-2.20: false -m venv" in out and "0 run, 0 not run, 1 failed" in out


def test_the_lock_is_of_one_python(monkeypatch, capsys):
    monkeypatch.setattr(versions.platform, "python_version", lambda: "3.12.3")
    assert versions.main(["--only=lock"]) == 1 and "lock" not in versions.find_environments()
    assert capsys.readouterr().out.startswith("lock: not run, because it is made for Python 3.11. This one is 3.12.3.")


def test_environments_that_are_not_up_to_date_are_not_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(versions, "ENVIRONMENTS", tmp_path)
    (old, new, *_), written = versions.COMBINATIONS, "ready.json"
    for each, made_of in ((old, "of another pyproject.toml"), (new, versions._made_of(new))):
        (tmp_path / each.name).mkdir()
        (tmp_path / each.name / written).write_text(json.dumps({"made_of": made_of, "moved": []}), encoding="utf-8")
    assert {old.name, new.name} & versions.find_environments().keys() == {new.name}


def test_an_environment_that_cannot_write_or_read_exports_is_left_out(monkeypatch, capsys, tmp_path):
    def run(python, _, module, what, *folders):
        if what == python:  # such as "write", which is the fault of this one
            raise RuntimeError("no such op")
        return json.dumps({str(folder): 0.0 for folder in folders})

    monkeypatch.setattr(versions, "run", run)
    found = versions.exchange({"a": "write", "b": "read", "c": "good"}, tmp_path)
    assert found == {"c": {"b": 0.0, "c": 0.0}}
    said = capsys.readouterr().out.splitlines()
    assert said == ["a, writing an export: no such op", "b, reading the exports: no such op"]


def test_the_table_of_runs():
    line = tables.runs_table([ENTRY]).splitlines()[2]
    assert line.startswith("| Python 3.10.12 | 2.19.1 | 2.19.0 | 3.10.0 | 5.29.6 | 2.1.3 | all fast ones | 3 | 0 | 2 |")
    assert line.endswith("| same answers | 2026-01-02 |")
    assert "| some | 3 |" in tables.runs_table([ENTRY | {"tests": "tests/export"}])
    assert "| not run |" in tables.runs_table([ENTRY | {"exports": {}, "moved": None}])
    assert "| differ by 0.001 |" in tables.runs_table([ENTRY | {"exports": {"lock": 1e-3}}])
