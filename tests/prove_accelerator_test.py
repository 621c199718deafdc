"""`make prove-gpu`: each step is a process of its own, and one that fails or hangs leaves the others their results."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
from unittest import mock

import pytest

from tests.conftest import ROOT
from tools.docs import accelerators

TENSORFLOW = importlib.metadata.version("tensorflow")
MACHINE = {"mode": "rehearsal", "devices": ["a CPU"], "tensorflow": "2", "keras": "3", "python": "3"}
PASSES = """
import json, pathlib, sys
speed = {"what": "training", "size": "2 x 128", "rows": 8, "length": 32, "precision": "mixed_bfloat16", "xla": True,
         "sequences_per_second": 1234.5, "tflops": 0.5}
table = {"columns": ["Kernel", "Times", "Microseconds"], "rows": [["`a|b`", 12, 1234.56], ["c", 2, 0.12345]]}
figures = {"summary": "a | b", "tflops": {"bfloat16": 2.0}, "speeds": [speed], "tables": {"Largest": table}}
pathlib.Path(sys.argv[1], "figures.json").write_text(json.dumps(figures))
"""
SKIPS = "print('no GPU'); raise SystemExit(77)"
FAILS = "print('measured'); raise SystemExit('the losses differ')"
HANGS = "import time; print('begun', flush=True); time.sleep(3600)"


@pytest.fixture
def prove(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import prove_accelerator

    with mock.patch.dict(os.environ):  # the steps' processes take over what it sets, and no other test may
        yield prove_accelerator


def _run(prove, folder, programs, budget_s=600, machine=MACHINE, revision="abc", again=False):
    """Runs steps of these Python programs, each with the limit behind it; returns their outcomes."""
    steps = [prove.Step(name, f"shows {name}", limit) for name, (_, limit) in programs.items()]

    def command(step, place):
        return [sys.executable, "-S", "-c", programs[step.name][0], str(place)]

    return dict(zip(programs, prove.prove(steps, command, folder, machine, revision, budget_s, again), strict=True))


@pytest.mark.slow
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
    assert "Largest:\n\n| Kernel | Times | Microseconds |\n| --- | --- | --- |\n| `a\\|b` | 12 | 1,234.6 |\n" in text
    assert "| c | 2 | 0.123 |" in text and "expected" not in text
    assert "; expected 680 TFLOP/s in bfloat16; " in accelerators.page(report | {"mode": "gpu"})
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


def test_what_a_machine_cannot_make_is_no_failure_and_is_tried_again(prove, tmp_path, capsys):
    assert _run(prove, tmp_path, {"torch": (SKIPS, 300)})["torch"]["status"] == "skipped"
    assert capsys.readouterr().out.splitlines()[-1].endswith("no GPU")
    assert _run(prove, tmp_path, {"torch": (PASSES, 300)})["torch"]["status"] == "passed"


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
        (("--tpu", "--steps=product,memory"), "precisions, resume with --tpu; got memory"),
        (("--peer_python=/missing/python",), "--peer_python must be a Python interpreter; got /missing/python"),
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


def test_every_step_is_there_and_the_page_has_what_is_expected_of_it(prove):
    import accelerator_commands
    import accelerator_speeds
    import accelerator_steps

    page = accelerators.PAGE.read_text(encoding="utf-8")
    for step in prove.STEPS:
        modules = accelerator_steps, accelerator_speeds, accelerator_commands
        (function,) = {getattr(module, step.name, None) for module in modules} - {None}
        assert function.__doc__, step.name
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{step.name}` | "))
        assert row.endswith(f"| {step.expected} |" if step.expected else "| |"), row


def test_what_a_step_costs_comes_first(prove):
    first = [step.name for step in prove.STEPS[:5]]
    assert first == ["product", "fine_tuning", "profile", "pretraining", "inference"]


def test_programs_are_kept_unless_the_user_says_otherwise(prove, monkeypatch, tmp_path):
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=0")
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
    prove.keep_programs(tmp_path / "a folder")
    assert os.environ["TF_XLA_FLAGS"] == f"--tf_xla_persistent_cache_directory='{tmp_path}/a folder'"
    choices = tmp_path / "a folder" / "kernel_choices"
    assert choices.is_dir()
    assert os.environ["XLA_FLAGS"] == (
        f"--xla_gpu_per_fusion_autotune_cache_dir='{choices}' --xla_gpu_autotune_level=0"
    )


@pytest.mark.slow
@pytest.mark.skipif(TENSORFLOW[:5] != "2.21.", reason="the flags are those of TensorFlow 2.21")
def test_tensorflow_knows_all_flags_of_xla(prove, monkeypatch, tmp_path):
    import accelerator_speeds

    monkeypatch.setenv("XLA_FLAGS", " ".join(accelerator_speeds.XLA_FLAGS))
    monkeypatch.delenv("TF_XLA_FLAGS", raising=False)
    prove.keep_programs(tmp_path / "a folder")
    code = "import tensorflow as tf; tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1))"
    for flag in ("", " --xla_gpu_unknown=1"):  # ends the process
        environment = {**os.environ, "XLA_FLAGS": os.environ["XLA_FLAGS"] + flag}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert bool(done.returncode) == bool(flag), done.stderr[-2000:]
    assert "Unknown flag in XLA_FLAGS: --xla_gpu_unknown=1" in done.stderr


def test_flags_that_fail_leave_the_others_their_speeds(prove, monkeypatch, tmp_path):
    import accelerator_speeds
    from accelerator_run import Run

    def few_layers(command, env, **_):
        folder, flags = pathlib.Path(command[-1]), env["XLA_FLAGS"]
        speed = {"sequences_per_second": 300.0 if "triton" in flags else 200.0, "first_seconds": 7.0}
        (folder / "figures.json").write_text(json.dumps({"speeds": [speed]}))
        return subprocess.CompletedProcess(command, "min_graph_size" in flags, stderr="...\nF0000 no such flag\n")

    monkeypatch.setattr(accelerator_speeds.subprocess, "run", few_layers)
    run = Run("rehearsal", tmp_path)
    accelerator_speeds.xla_flags(run)
    (table,) = run.figures["tables"].values()
    assert [row[1:] for row in table["rows"]] == [
        (200.0, 1.0, 7.0, ""), ("", "", "", "F0000 no such flag"), (300.0, 1.5, 7.0, ""),
    ]  # fmt: skip
    assert run.figures["summary"] == "2 of 3 ran; fastest: --xla_gpu_enable_triton_gemm=false"


def test_ours_stands_beside_the_peer_in_the_same_shape_and_precision(prove, tmp_path):
    import accelerator_speeds
    from accelerator_run import Run, config_of

    (tmp_path / "fine_tuning").mkdir()
    (tmp_path / "torch").mkdir()
    shared = {"rows": 8, "length": 32, "precision": "mixed_bfloat16"}
    ours = [shared | change | {"sequences_per_second": speed} for change, speed in (
        ({"xla": False}, 1.0), ({"xla": True, "rows": 16}, 2.0), ({"xla": True}, 300.0),
    )]  # fmt: skip
    (tmp_path / "fine_tuning" / "figures.json").write_text(json.dumps({"speeds": ours}))
    run = Run("rehearsal", tmp_path / "torch")
    answer = {"times": [9.0, 0.02], "versions": {"torch": "2"}}
    accelerator_speeds._add_peer(run, config_of("bert-tiny"), (8, 32), answer)
    accelerator_speeds._add_peer(run, config_of("bert-tiny"), (4, 64), answer)  # of which there is none of ours
    assert [speed["sequences_per_second"] for speed in run.figures["speeds"]] == [400.0, 200.0]
    assert run.figures["tables"]["Beside PyTorch"]["rows"] == [("8 x 32", 300.0, 400.0, 0.75)]
    assert run.figures["summary"] == "ours 0.75 with 8 x 32 times as fast as PyTorch"


def test_attention_is_called_in_a_compiled_program(prove, monkeypatch):
    import fused_attention
    import tensorflow as tf

    inputs, lengths = [tf.ones([2, 3, 16, 8], tf.bfloat16)] * 3, tf.constant([3, 16])
    for padding, mask in ((None, "NO_MASK"), (lengths, "PADDING")):
        of = fused_attention.forward_and_backward.experimental_get_compiler_ir
        program = of(fused_attention.fused, inputs, inputs[0], padding)(stage="hlo")
        calls = [line for line in program.splitlines() if "custom-call(" in line]
        targets = [f'custom_call_target="__cudnn$fmhaSoftmax{kind}"' for kind in ("", "Backward")]
        assert all(target in call for target, call in zip(targets, calls, strict=True)), calls
        assert all(f'"mask_type": "{mask}"' in call for call in calls)
    monkeypatch.setattr(fused_attention, "TOKENS", 64)
    length, _, milliseconds, *nothing, error = fused_attention.compare(32, True)
    assert length == 32 and milliseconds > 0 and set(nothing) == {""}, "the plain form runs on a CPU"
    assert "No registered implementation" in error
    with pytest.raises(SystemExit, match="needs a GPU; TensorFlow sees none"):
        fused_attention.main()


@pytest.mark.skipif("TEST_SRCDIR" in os.environ, reason="Bazel shows a test only a part of the others")
def test_the_tests_of_devices_are_there(prove):
    import accelerator_commands

    assert all((ROOT / path).exists() for path in accelerator_commands.TESTS)


def test_the_page_shows_all_results():
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
