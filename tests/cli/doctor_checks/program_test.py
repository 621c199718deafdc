"""`bert-tf doctor` as it is started, where all is well and where nothing is there."""

import json
import subprocess
import sys

import pytest

from tests.cli.doctor_checks.fakes import environment
from tests.conftest import ROOT


def start(*words, python=(), env=None):
    command = [sys.executable, *python, "-m", "bert_tf", "doctor", *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def found(done):
    told = json.loads(done.stdout)
    assert set(told) == {"healthy", "findings"}
    return told["healthy"], {finding["name"]: finding for finding in told["findings"]}


def test_a_sound_environment(tmp_path):
    fake = environment(tmp_path)
    fake["PYTHONPATH"] += f":{ROOT}"
    done = start("--json", env=fake)
    healthy, findings = found(done)
    assert (done.returncode, healthy) == (0, True), done.stdout + done.stderr
    assert {"Python", "packages", "environment", "processor", "memory", "disk", "imports", "float32"} <= set(findings)
    assert not done.stderr


def test_a_fault_is_a_status(tmp_path):
    fake = environment(tmp_path, {"tensorflow_text": "raise ImportError('undefined symbol')"}, TF_USE_LEGACY_KERAS="1")
    fake["PYTHONPATH"] += f":{ROOT}"
    done = start(env=fake)
    assert done.returncode == 1 and not done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "2 faults."
    remedies = [line.strip() for line in lines if "remedy:" in line]
    assert remedies[0] == "remedy: unset TF_USE_LEGACY_KERAS" and "tensorflow-text" in remedies[1]


def test_it_works_where_nothing_is_installed(tmp_path):
    """Not even absl, which reads the flags of all other programs; -S leaves out what is."""
    bare = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONHOME": "", "VIRTUAL_ENV": ""}
    wrapper = (
        "import sys; sys.executable = sys.argv.pop(1); from bert_tf.cli import main; main.main(sys.argv[1:])"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    command = [sys.executable, "-S", "-c", wrapper, str(python)]
    done = subprocess.run([*command, "doctor", "--json"], env=bare, capture_output=True, text=True, check=False)
    healthy, findings = found(done)
    assert done.returncode == 1 and not healthy and not done.stderr
    assert "No module named 'numpy'" in findings["numpy"]["text"]
    refused = subprocess.run([*command, "ask"], env=bare, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert refused.stderr.startswith("Error: The package 'absl' must be installed")


@pytest.mark.slow
def test_the_real_thing():
    done = start("--json")
    _, findings = found(done)
    assert findings["imports"]["state"] == "ok" and findings["float32"]["values"]["gflops"] > 0
