"""--precision=auto: what the hardware decides, and that a run keeps it."""

import json

import pytest
import tensorflow as tf

from bert_tf.runs.devices import with_precision
from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.options import RunOptions
from bert_tf.training import devices


def _settings(folder, precision="auto", **given):
    settings = fine_tuning_settings(RunOptions)(output_dir=str(folder), **given)
    return settings.give({"precision": precision})


@pytest.fixture
def machine(monkeypatch):
    """Returns a function that makes this a machine with these GPUs, by compute capability, and this CPU."""

    def make(*capabilities, cpu="float32"):
        monkeypatch.setattr(devices, "best_precision", lambda: cpu)
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(range(len(capabilities))))
        details = [{} if each is None else {"compute_capability": each} for each in capabilities]
        monkeypatch.setattr(tf.config.experimental, "get_device_details", details.__getitem__)

    return make


@pytest.mark.parametrize(
    ("capabilities", "cpu", "precision", "reason"),
    [
        ((), "mixed_bfloat16", "mixed_bfloat16", "the CPU multiplies in bfloat16"),
        ((), "float32", "float32", "the CPU does not multiply in bfloat16"),
        (((8, 0),), "float32", "mixed_bfloat16", "the GPU multiplies in bfloat16"),
        (((9, 0), (7, 5)), "mixed_bfloat16", "float32", "the GPU does not multiply in bfloat16; `precision=mixed_flo"),
        ((None,), "mixed_bfloat16", "float32", "the GPU does not multiply"),
    ],
)
def test_the_hardware_decides(machine, tmp_path, caplog, capabilities, cpu, precision, reason):
    machine(*capabilities, cpu=cpu)
    with caplog.at_level("INFO", "absl"):
        settings = with_precision(_settings(tmp_path))
    assert settings.precision == precision and settings.given_values() == {"precision": precision}
    assert caplog.messages[-1].startswith(f"`precision=auto`: {precision}, because {reason}")


def test_a_tpu_multiplies_in_bfloat16(machine, tmp_path):
    machine()
    assert with_precision(_settings(tmp_path, distribution_strategy="tpu")).precision == "mixed_bfloat16"


def test_a_run_keeps_what_it_started_with(machine, tmp_path, caplog):
    machine(cpu="mixed_bfloat16")
    (tmp_path / "run.json").write_text(json.dumps({"settings": {"precision": "float32"}}))
    with caplog.at_level("INFO", "absl"):
        assert with_precision(_settings(tmp_path)).precision == "float32"
    assert caplog.messages == ["`precision=auto`: float32, as at the start of this run."]
    assert with_precision(_settings(tmp_path, overwrite_output_dir=True)).precision == "mixed_bfloat16"
    assert with_precision(_settings(tmp_path, "mixed_float16")).precision == "mixed_float16"


def test_workers_of_several_machines_must_agree(tmp_path):
    with pytest.raises(ValueError, match="`precision=auto` cannot be combined with `distribution_strategy=multi_w"):
        with_precision(_settings(tmp_path, distribution_strategy="multi_worker"))
