"""Environment variables that change what TensorFlow does."""

import pytest

from bert_tf.cli import doctor
from bert_tf.cli.doctor import FAULT, NOTE, OK, WARNING


@pytest.mark.parametrize(
    ("name", "value", "state", "text"),
    [
        ("TF_USE_LEGACY_KERAS", "1", FAULT, "Keras 2"),
        ("TF_USE_LEGACY_KERAS", "True", FAULT, "Keras 2"),
        ("KERAS_BACKEND", "torch", FAULT, "another library"),
        ("TF_ENABLE_ONEDNN_OPTS", "0", WARNING, "without oneDNN"),
        ("ONEDNN_MAX_CPU_ISA", "AVX2", WARNING, "unused"),
        ("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python", WARNING, "more slowly"),
        ("CUDA_VISIBLE_DEVICES", "", NOTE, "no GPU is used"),
        ("CUDA_VISIBLE_DEVICES", "-1", NOTE, "no GPU is used"),
        ("CUDA_VISIBLE_DEVICES", "1,2", NOTE, "only these GPUs"),
        ("XLA_FLAGS", "--xla_dump_to=/tmp", NOTE, "XLA"),
        ("TF_NUM_INTRAOP_THREADS", "1", NOTE, "threads"),
    ],
)
def test_a_variable_that_matters(name, value, state, text):
    (finding,) = doctor.examine_variables({name: value, "PATH": "/bin"})
    assert finding.state == state and text in finding.text and f"{name}={value}:" in finding.text
    assert finding.remedy == (f"unset {name}" if state in (FAULT, WARNING) else "")
    assert finding.values == {name: value}


@pytest.mark.parametrize(
    "harmless",
    [
        {},
        {"TF_USE_LEGACY_KERAS": "0"},
        {"KERAS_BACKEND": "tensorflow"},
        {"TF_ENABLE_ONEDNN_OPTS": "1"},
        {"ONEDNN_MAX_CPU_ISA": "ALL"},
        {"XLA_FLAGS": ""},
    ],
)
def test_variables_that_change_nothing(harmless):
    (finding,) = doctor.examine_variables(harmless)
    assert finding.state == OK
