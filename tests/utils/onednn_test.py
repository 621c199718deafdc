"""When oneDNN is turned on: with AVX2, before TensorFlow is imported, and never against the user."""

import os
import sys

import pytest

from bert_tf.utils import onednn

WITH, WITHOUT = "flags\t\t: fpu sse4_2 avx avx2\nbugs: none\n", "flags\t\t: fpu avx avx2x\n"


@pytest.mark.parametrize(
    ("info", "environment", "modules", "expected"),
    [
        (WITH, {}, {}, {"TF_ENABLE_ONEDNN_OPTS": "true"}),
        (WITHOUT, {}, {}, {}),
        ("", {}, {}, {}),
        (None, {}, {}, {}),
        (WITH, {"TF_ENABLE_ONEDNN_OPTS": "0"}, {}, {"TF_ENABLE_ONEDNN_OPTS": "0"}),
        (WITH, {"TF_ENABLE_ONEDNN_OPTS": "1"}, {}, {"TF_ENABLE_ONEDNN_OPTS": "1"}),
        (WITH, {}, {"tensorflow": sys}, {}),
    ],
    ids=["avx2", "no avx2", "no flags", "no file", "turned off", "turned on", "too late"],
)
def test_when_it_is_turned_on(info, environment, modules, expected, monkeypatch, tmp_path):
    if info is not None:
        (tmp_path / "cpuinfo").write_text(info)
    monkeypatch.setattr(onednn, "CPU_INFO", str(tmp_path / "cpuinfo"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "modules", modules)
    monkeypatch.setattr(os, "environ", dict(environment))
    onednn.turn_on()
    assert os.environ == expected


def test_it_is_left_alone_on_other_systems(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sys, "modules", {})
    monkeypatch.setattr(os, "environ", {})
    onednn.turn_on()
    assert os.environ == {}
