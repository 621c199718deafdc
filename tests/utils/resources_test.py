"""What the processor can do."""

import platform

import pytest

from bert_tf.utils import resources

X86 = """processor\t: 0
model name\t: A  Processor
flags\t\t: fpu AVX2 avx512_bf16
processor\t: 1
model name\t: Another
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp bf16\n"

OURS = {"TF_ENABLE_ONEDNN_OPTS": "true"}  # of `onednn.turn_on`


@pytest.mark.parametrize(
    ("text", "sets", "name"),
    [
        (X86, {"fpu", "avx2", "avx512_bf16"}, "A Processor"),
        (ARM, {"fp", "asimd", "asimddp", "bf16"}, "arm64"),
        (None, set(), "arm64"),
    ],
)
def test_linux_says_it_in_a_file(monkeypatch, tmp_path, text, sets, name):
    path = tmp_path / "cpuinfo"
    if text:
        path.write_text(text)
    monkeypatch.setattr(resources, "CPU_INFO", str(path))
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert resources.instruction_sets() == sets and resources.name() == name


def test_a_mac_says_it_by_sysctl(monkeypatch, tmp_path):
    program = tmp_path / "sysctl"
    program.write_text(
        '#!/bin/sh\nif [ "$1" = -n ]; then echo "Apple M2"; else\n'
        'echo "hw.optional.arm.FEAT_BF16: 1"; echo "hw.optional.arm.FEAT_SME: 0"; echo "hw.optional.neon: 1"; fi\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert resources.instruction_sets() == {"bf16", "neon"} and resources.name() == "Apple M2"


@pytest.mark.parametrize(
    ("sets", "environment", "answer"),
    [
        ({"avx512_bf16"}, {}, True),
        ({"amx_bf16"}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}, True),
        ({"avx512_bf16"}, {"ONEDNN_MAX_CPU_ISA": "ALL"}, True),
        ({"avx512_bf16"}, {"ONEDNN_MAX_CPU_ISA": "AVX2"}, False),
        ({"avx512_bf16"}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, False),
        ({"avx512_bf16"}, {"TF_ENABLE_ONEDNN_OPTS": "0"}, False),
        ({"avx512f", "avx2"}, {}, False),
        ({"bf16", "asimd"}, {}, False),
        (set(), {}, False),
    ],
)
def test_who_computes_in_bfloat16(sets, environment, answer):
    assert resources.computes_bfloat16(sets, environment) is answer


@pytest.mark.parametrize(
    ("machine", "sets", "environment", "answer"),
    [
        ("x86_64", {"avx2", "avx512_vnni"}, {}, True),
        ("x86_64", {"avx2"}, {}, False),
        ("x86_64", {"avx2"}, {"TF_ENABLE_ONEDNN_OPTS": "1"}, True),
        ("x86_64", {"avx2", "avx_vnni"}, {"TF_ENABLE_ONEDNN_OPTS": "0"}, False),
        ("aarch64", {"asimddp"}, {}, True),
    ],
)
def test_who_uses_onednn(machine, sets, environment, answer, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert resources.uses_onednn(sets, environment) is answer


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "on this CPU by default, because it has no instructions for int8"),
        (OURS, "on this CPU by default, because it has no instructions for int8"),
        ({"TF_ENABLE_ONEDNN_OPTS": "0"}, "on this CPU because of TF_ENABLE_ONEDNN_OPTS=0 in the environment"),
    ],
)
def test_why_there_is_no_int8(environment, why):
    assert f"{why}. Set TF_ENABLE_ONEDNN_OPTS=1 in" in resources.why_without_int8(environment)


@pytest.mark.parametrize(
    ("sets", "environment", "answer"),
    [
        ({"avx2", "avx512_vnni"}, {}, True),
        ({"avx2"}, {}, False),
        ({"avx2"}, {"TF_ENABLE_ONEDNN_OPTS": "1"}, True),  # as the user said
        ({"avx2"}, OURS, False),
        ({"avx2"}, OURS | {"TF_ENABLE_ONEDNN_OPTS": "1"}, True),
        ({"avx2", "avx_vnni"}, OURS, True),
        ({"avx2", "avx_vnni"}, {"TF_ENABLE_ONEDNN_OPTS": "0"}, False),
    ],
)
def test_what_int8_needs(sets, environment, answer, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert resources.permits_int8(sets, environment) is answer


def test_the_best_precision(monkeypatch):
    monkeypatch.setattr(resources, "computes_bfloat16", lambda: True)
    assert resources.best_precision() == "mixed_bfloat16"
    monkeypatch.setattr(resources, "computes_bfloat16", lambda: False)
    assert resources.best_precision() == "float32"
