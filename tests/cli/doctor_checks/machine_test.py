"""Processor, memory, disk and graphics card."""

import pytest

from bert_tf.cli import doctor
from bert_tf.cli.doctor import FAULT, OK, WARNING

GB = 2**30


@pytest.mark.parametrize(
    ("sets", "computes", "state", "text"),
    [
        ({"avx", "avx2", "avx512f", "avx512_bf16", "avx512_vnni"}, True, OK,
         "AVX-512; bfloat16: avx512_bf16; int8: avx512_vnni"),
        ({"avx", "avx2", "avx_vnni"}, False, OK, "AVX2; bfloat16: no instructions; int8: avx_vnni"),
        ({"avx", "avx512_bf16"}, False, OK, "TensorFlow does not use those for bfloat16 here"),
        ({"sse4_2"}, False, FAULT, "no instructions"),
    ],
)  # fmt: skip
def test_processors(monkeypatch, sets, computes, state, text):
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    finding = doctor.examine_processor("A Processor", 2, sets, computes)
    assert finding.state == state and finding.text.startswith("A Processor, 2 cores; ") and text in finding.text
    assert finding.values["computes_bfloat16"] == computes


def test_arm_needs_no_avx(monkeypatch):
    monkeypatch.setattr(doctor.platform, "machine", lambda: "aarch64")
    finding = doctor.examine_processor("Arm", 1, {"asimd", "asimddp", "i8mm", "bf16"}, False)
    assert finding.state == OK
    assert "1 core; NEON; bfloat16: bf16; int8: i8mm, asimddp; TensorFlow does not" in finding.text


@pytest.mark.parametrize(
    ("free", "limits", "state", "text"),
    [
        (6 * GB, [], OK, "8.0 GB, 6.0 GB free"),
        (6 * GB, [4 * GB, 2**63], OK, "8.0 GB, 6.0 GB free; the container may take 4.0 GB"),
        (6 * GB, [GB], WARNING, "the container may take 1.0 GB"),
        (GB, [], WARNING, "8.0 GB, 1.0 GB free"),
    ],
)
def test_memory(free, limits, state, text):
    finding = doctor.examine_memory(8 * GB, free, limits)
    assert (finding.state, finding.text) == (state, finding.text) and text in finding.text
    if state == WARNING:
        assert ("container" in finding.remedy) == bool(limits)


def test_disk():
    assert doctor.examine_disk("/here", 5 * GB).text == "5.0 GB free in /here"
    assert doctor.examine_disk("/here", GB).state == WARNING


def test_this_machine_is_looked_at():
    assert [finding.name for finding in doctor.examine()] == ["system", "processor", "memory", "disk"]


@pytest.mark.parametrize(
    ("script", "card"),
    [
        ("echo 'NVIDIA H100, 550.54.15'; echo 'second, 1'", {"name": "NVIDIA H100", "driver": "550.54.15"}),
        ("echo 'NVIDIA-SMI has failed'; exit 9", None),
        ("exit 0", None),
    ],
)  # fmt: skip
def test_the_graphics_card_is_what_the_driver_says(monkeypatch, tmp_path, script, card):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert doctor.graphics_card() == card


def test_without_a_driver_there_is_no_card(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.graphics_card() is None
