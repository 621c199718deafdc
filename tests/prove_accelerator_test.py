"""`make prove-gpu`: each step is a process of its own, and one that fails or hangs leaves the others their results."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tools.docs import accelerators

MACHINE = {"mode": "rehearsal", "devices": ["a CPU"], "tensorflow": "2", "keras": "3", "python": "3"}
PASSES = """
import json, pathlib, sys
speed = {"what": "training", "size": "2 x 128", "rows": 8, "length": 32, "precision": "mixed_bfloat16", "xla": True,
         "sequences_per_second": 1234.5, "tflops": 0.5}
figures = {"summary": "a | b", "tflops": {"bfloat16": 2.0}, "speeds": [speed]}
pathlib.Path(sys.argv[1], "figures.json").write_text(json.dumps(figures))
"""
FAILS = "print('measured'); raise SystemExit('the losses differ')"
HANGS = "import time; print('begun', flush=True); time.sleep(3600)"


@pytest.fixture
def prove(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import prove_accelerator

    return prove_accelerator


def _run(prove, folder, programs, budget_s=600, machine=MACHINE, revision="abc", again=False):
    """Runs steps of these Python programs, each with the limit behind it; returns their outcomes."""
    steps = [prove.Step(name, f"shows {name}", limit) for name, (_, limit) in programs.items()]

    def command(step, place):
        return [sys.executable, "-S", "-c", programs[step.name][0], str(place)]

    return dict(zip(programs, prove.prove(steps, command, folder, machine, revision, budget_s, again), strict=True))


def test_a_step_that_fails_or_hangs_keeps_the_others(prove, tmp_path, capsys):
    programs = {"resume": (FAILS, 300), "memory": (HANGS, 2), "product": (PASSES, 300)}
    outcomes = _run(prove, tmp_path, programs)
    assert {name: each["status"] for name, each in outcomes.items()} == {
        "resume": "failed", "memory": "failed", "product": "passed",
    }  # fmt: skip
    assert outcomes["resume"]["message"] == "the losses differ"
    assert outcomes["memory"]["message"].startswith("stopped after 2 s; last line: ")
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["left", "step", "result", "time"] and len(said) == 4
    assert all(line.split()[1] == "s" and int(line.split()[0]) <= 600 for line in said[1:])
    assert said[1].endswith("the losses differ") and said[3].endswith("a | b")
    report = prove.make_report(tmp_path, MACHINE, "def", 10, 3.0)
    assert list(report["steps"]) == [step.name for step in prove.STEPS]
    assert report["steps"]["tests"]["status"] == "not run"
    (speed,) = report["steps"]["product"]["figures"]["speeds"]
    assert speed["share_of_product"] == 0.25
    text = accelerators.page(report)
    assert "| `resume`: stopped and resumed with --deterministic | failed |" in text
    assert "| a \\| b; revision abc |" in text and "| 8 x 32 | mixed_bfloat16 | on | 1,234.5 | 0.5 | 25% |" in text
    assert "Rehearsal on a CPU" in text and "1,786 for inference, BERT-base, 8 x 128" in text


def test_what_has_passed_on_the_same_machine_is_kept(prove, tmp_path, capsys):
    first = {"product": (PASSES, 300), "resume": (FAILS, 300)}
    _run(prove, tmp_path, first)
    again = {"product": (FAILS, 300), "resume": (PASSES, 300)}
    outcomes = _run(prove, tmp_path, again, revision="def").values()
    assert [(each["status"], each["revision"]) for each in outcomes] == [("passed", "abc"), ("passed", "def")]
    assert "kept, of revision abc; --again repeats it" in capsys.readouterr().out
    other = MACHINE | {"tensorflow": "3"}
    assert [each["status"] for each in _run(prove, tmp_path, again, machine=other).values()] == ["failed", "passed"]


def test_without_time_no_step_is_begun(prove, tmp_path):
    outcomes = _run(prove, tmp_path, {"product": (PASSES, 300)}, budget_s=0)
    assert outcomes["product"]["status"] == "not run"
    assert outcomes["product"]["message"] == "the time budget was used up"


def test_without_time_an_earlier_pass_stays_if_it_is_of_the_same_machine(prove, tmp_path):
    _run(prove, tmp_path, {"product": (PASSES, 300)})
    for machine, status, stays in ((MACHINE, "passed", True), (MACHINE | {"tensorflow": "3"}, "not run", False)):
        outcomes = _run(prove, tmp_path, {"product": (PASSES, 300)}, budget_s=0, machine=machine, again=True)
        assert outcomes["product"]["status"] == "not run"
        step = prove.make_report(tmp_path, machine, "def", 10, 0.0)["steps"]["product"]
        assert step["status"] == status and bool(step["figures"]) == stays


def _command_line(prove, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["prove_accelerator.py", *words])
    prove.main()


def test_the_steps_are_listed(prove, monkeypatch, capsys):
    _command_line(prove, monkeypatch, "--dry_run")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [each.name for each in prove.STEPS]
    _command_line(prove, monkeypatch, "--dry_run", "--tpu", "--steps=resume,product")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["product", "resume"]
    _command_line(prove, monkeypatch, "--dry_run", "--tpu")
    on_tpu = [each.name for each in prove.STEPS if each.on_tpu]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == on_tpu


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "No GPU found: nvidia-smi lists none. ARGS=--rehearse runs the same steps on the CPU"),
        (("--tpu",), "No TPU found: this machine has none of /dev/accel"),
    ],
)
def test_a_missing_device_is_one_sentence(prove, monkeypatch, words, message):
    monkeypatch.setattr(prove, "gpus", list)
    monkeypatch.setattr(prove.glob, "glob", lambda pattern: [])
    with pytest.raises(SystemExit, match=message):
        _command_line(prove, monkeypatch, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tpu", "--rehearse"), "not allowed with"),
        (("--steps=product,speed",), "--steps must be among product, "),
        (("--steps=",), "--steps must be among product, "),
        (("--tpu", "--steps=product,memory"), "resume, pretraining with --tpu; got memory"),
        (("--budget_minutes=0",), "--budget_minutes must be a number above 0; got 0"),
        (("--budget_minutes=nan",), "--budget_minutes must be a number above 0; got nan"),
        (("--results=x.md",), "--results must be a file that ends in .json, as its page ends in .md; got x.md"),
    ],
)
def test_wrong_options_are_refused(prove, monkeypatch, capsys, words, message):
    with pytest.raises(SystemExit):
        _command_line(prove, monkeypatch, *words)
    assert message in capsys.readouterr().err


def test_the_folder_of_results_is_made_before_the_first_step(prove, monkeypatch, tmp_path):
    results = tmp_path / "missing" / "folder" / "r.json"
    monkeypatch.setattr(prove, "prove", lambda *_: iter([{"status": "passed"}] if results.parent.is_dir() else []))
    with pytest.raises(SystemExit, match="False"):
        _command_line(prove, monkeypatch, "--rehearse", f"--output_dir={tmp_path}/out", f"--results={results}")
    assert json.loads(results.read_text(encoding="utf-8"))["mode"] == "rehearsal"
    assert results.with_suffix(".md").exists()


def test_every_step_is_there(prove, monkeypatch):
    import accelerator_commands
    import accelerator_steps

    for step in prove.STEPS:
        function = getattr(accelerator_steps, step.name, None) or getattr(accelerator_commands, step.name)
        assert function.__doc__, step.name


@pytest.mark.skipif("TEST_SRCDIR" in os.environ, reason="Bazel shows a test only a part of the others")
def test_the_tests_of_devices_are_there(prove):
    import accelerator_commands

    assert all((ROOT / path).exists() for path in accelerator_commands.TESTS)


def test_the_guide_shows_all_results():
    text = accelerators.PAGE.read_text(encoding="utf-8")
    assert text == accelerators.filled(text), "`python -m tools.docs.accelerators` writes them"
    names = [path.name for path in accelerators.RESULTS.glob("accelerator-*.json")]
    assert [name for name in names if f"<!-- {name} -->" not in text] == []


def test_no_step_of_the_rehearsal_failed():
    report = json.loads((accelerators.RESULTS / "accelerator-rehearsal.json").read_text(encoding="utf-8"))
    assert "failed" not in {step["status"] for step in report["steps"].values()}


def test_make_installs_from_a_folder_alone():
    command = ["make", "--dry-run", "-W", "requirements.lock", "setup", "UV=/x/uv", "WHEELS=wheels"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "tools/install.py requirements.lock" in done.stdout and "/x/uv" not in done.stdout
