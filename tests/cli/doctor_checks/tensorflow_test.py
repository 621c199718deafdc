"""What the doctor says of a TensorFlow that is broken in this way or that; the faults are fakes, the child is real."""

import pytest

from bert_tf.cli import doctor
from bert_tf.cli.doctor import FAULT, NOTE, OK
from tests.cli.doctor_checks.fakes import environment


@pytest.fixture
def ask(tmp_path):
    """Returns what the child reports of a faked environment."""
    def report(patience=doctor.PATIENCE, **fake):
        return doctor.ask(patience=patience, environment=environment(tmp_path, **fake))

    return report


def imports_of(report):
    return {finding.name: finding for finding in doctor.examine_imports(report)}


def test_a_sound_environment_has_no_fault(ask):
    report = ask()
    assert not report.ending and report.stage("end")
    found = imports_of(report)
    assert found["imports"].state == OK and found["imports"].text.startswith("tensorflow 2.21.0 in ")
    cuda, devices = doctor.examine_devices(report, None, False)
    assert (cuda.state, cuda.text) == (NOTE, "TensorFlow is built for CUDA 12.5.1; no NVIDIA driver")
    assert (devices.state, devices.text) == (OK, "CPU")
    products = list(doctor.examine_products(report))
    assert [finding.name for finding in products] == ["float32", "bfloat16", "float16"]
    assert all(finding.state == OK and "768 x 768 on the CPU" in finding.text for finding in products)


@pytest.mark.parametrize(
    ("module", "source", "text", "remedy"),
    [
        ("tensorflow", "raise ModuleNotFoundError(\"No module named 'tensorflow'\")",
         "No module named 'tensorflow'", "pip install 'tensorflow>=2.21,<2.22'"),
        ("tensorflow", "import absl_not_there", "No module named 'absl_not_there'", "pip install 'absl_not_there'"),
        ("tensorflow", "raise ImportError('libc.so.6: `GLIBC_2.27` not found')", "GLIBC_2.27", "take a newer system"),
        ("tensorflow", "raise TypeError('Descriptors cannot be created directly.')", "Descriptors",
         "'protobuf>=6.31.1,<7'"),
        ("tensorflow", "raise ImportError('numpy.core.multiarray failed to import')", "multiarray",
         "'numpy>=1.26,<3'"),
        ("tensorflow", "raise RuntimeError('something new')", "RuntimeError: something new", "--force-reinstall"),
        ("keras", "raise ImportError('no Keras 2 here: tf_keras')", "tf_keras", "unset TF_USE_LEGACY_KERAS"),
        ("tensorflow_text", "raise ImportError('undefined symbol: _ZN10tensorflow')", "undefined symbol",
         "'tensorflow>=2.21,<2.22' 'tensorflow-text>=2.21.1,<2.22'"),
        ("tensorflow_text", "raise SystemExit('enough')", "SystemExit: enough", "tensorflow-text"),
    ],
)  # fmt: skip
def test_an_import_that_fails(ask, module, source, text, remedy):
    report = ask(modules={module: source})
    ((name, finding),) = imports_of(report).items()
    assert (name, finding.state) == (module, FAULT)
    assert text in finding.text and remedy in finding.remedy
    assert not list(doctor.examine_devices(report, None, False)) + list(doctor.examine_products(report))


@pytest.mark.parametrize(
    ("signal", "remedy"), [("SIGILL", "with AVX"), ("SIGKILL", "more memory"), ("SIGSEGV", "--force-reinstall")]
)
def test_an_import_that_kills_the_process(ask, signal, remedy):
    said = "I0000 00:00:1795400194.621923   26127 port.cc:153] oneDNN is on.\nF1 check failed: no luck"
    die = f"import os, signal; print({said!r}, flush=True); os.kill(os.getpid(), signal.{signal})"
    (finding,) = imports_of(ask(modules={"tensorflow": die})).values()
    assert finding.state == FAULT and remedy in finding.remedy
    assert f"import tensorflow ended the process: signal {signal}" in finding.text
    assert finding.text.endswith("the last it said: F1 check failed: no luck")


def test_an_import_that_does_not_come_back(ask):
    (finding,) = imports_of(ask(patience=3.0, modules={"tensorflow": "import time; time.sleep(600)"})).values()
    assert finding.state == FAULT and "no end within 3 s" in finding.text


def test_a_product_that_kills_the_process(ask):
    die = "import os, signal; dtype == 'bfloat16' and os.kill(os.getpid(), signal.SIGILL)"
    report = ask(cast=die)
    assert imports_of(report)["imports"].state == OK
    float32, crash = doctor.examine_products(report)
    assert (float32.name, crash.state) == ("float32", FAULT)
    assert "a product of matrices in bfloat16 ended the process: signal SIGILL" in crash.text


def test_keras_on_another_library(ask):
    keras, *_ = doctor.examine_devices(ask(backend="jax"), None, False)
    assert keras.state == FAULT and "computes with jax" in keras.text and "KERAS_BACKEND=tensorflow" in keras.remedy


CARD = {"name": "NVIDIA H100", "driver": "550.54.15"}


def test_a_gpu_that_tensorflow_sees(ask):
    report = ask(more_devices=', Device(device_type="GPU", name="")')
    cuda, devices = doctor.examine_devices(report, CARD, False)
    assert cuda.state == OK and cuda.text.endswith("driver 550.54.15")
    assert devices.text == "CPU, H100" and devices.values["devices"][1]["capability"] == "9.0"
    assert all("4096 x 4096 on the GPU" in finding.text for finding in doctor.examine_products(report))


@pytest.mark.parametrize(
    ("driver", "hidden", "state", "remedy"),
    [
        ("550.54.15", False, FAULT, "tensorflow[and-cuda]"),
        ("470.1", False, FAULT, "install NVIDIA's driver 525 or later"),
        ("550.54.15", True, NOTE, ""),
    ],
)
def test_a_gpu_that_tensorflow_does_not_see(ask, driver, hidden, state, remedy):
    cuda, _ = doctor.examine_devices(ask(), CARD | {"driver": driver}, hidden)
    assert cuda.state == state and remedy in cuda.remedy


def test_a_start_that_fails_at_once(tmp_path):
    fake = environment(tmp_path)
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text("raise ImportError('shadowed')")
    (finding,) = doctor.examine_imports(doctor.ask(environment=fake))
    assert finding.state == FAULT and "its start ended the process: status 1" in finding.text
    assert "shadowed" in finding.text
