"""The doctor: each finding by what was given it, and the whole program where all is well and where nothing is there."""

import json
import os
import subprocess
import sys

import numpy
import pytest

from bert_tf.cli import doctor
from bert_tf.cli.doctor import FAULT, NOTE, OK, WARNING, Finding
from tests.conftest import ROOT

GB = 2**30

# === Lines and JSON ===


def test_a_finding_is_a_line_with_its_remedy_below():
    findings = [
        Finding("one", OK, "fine"),
        Finding("two", NOTE, "fine too"),
        Finding("three", WARNING, "slow", "hurry"),
        Finding("four", FAULT, "broken", "mend it"),
    ]
    assert doctor.to_text(findings).splitlines() == [
        "ok       one              fine",
        "note     two              fine too",
        "warning  three            slow",
        "                          fix: hurry",
        "ERROR    four             broken",
        "                          fix: mend it",
        "",
        "Errors: 1, warnings: 1.",
    ]


# === Python and packages ===

NEEDS = {
    "bert-tf": [
        "tensorflow>=2.19,<2.22", "tensorflow-text>=2.19,!=2.21.0,<2.22", "tensorflow-serving-api>=2.19,<2.22",
        "keras>=3.10,<3.16", 'six; extra == "other"',
    ],
    "tensorflow": ["protobuf<8,>=6.31.1", "keras>=3.12.0", "numpy>=1.26.0", 'winrt; sys_platform == "nowhere"'],
    "tensorflow-text": ["tensorflow<2.22,>=2.21.0"],
    "tensorflow-serving-api": ["tensorflow<3,>=2.21.0"],
}  # fmt: skip
FITTING = {
    "tensorflow": "2.21.0", "tensorflow-text": "2.21.1", "keras": "3.15.1", "protobuf": "6.33.6", "numpy": "2.4.6",
    "tensorflow-serving-api": "2.21.0", "unrelated": "1",
}  # fmt: skip


def examine_packages(**changes):
    """Returns name -> finding where the versions are those that fit, some changed or, with None, missing."""
    versions = FITTING | {name.replace("_", "-"): each for name, each in changes.items()}
    there = {name: each for name, each in versions.items() if each}
    return {finding.name: finding for finding in doctor.examine_packages(there, lambda name: NEEDS.get(name, []))}


def test_packages_that_fit_are_one_line():
    (finding,) = examine_packages().values()
    assert finding.state == OK and "tensorflow 2.21.0, tensorflow-text 2.21.1" in finding.text


@pytest.mark.parametrize(
    ("changes", "name", "text", "remedy"),
    [
        ({"tensorflow_text": "2.20.1"}, "tensorflow-text",
         "tensorflow-text 2.20.1 does not match TensorFlow 2.21.0; it must have the same minor version",
         "pip install 'tensorflow-text>=2.21.1,<2.22'"),
        ({"tensorflow_text": "2.21.0"}, "tensorflow-text", "tensorflow-text 2.21.0 cannot be imported", ">=2.21.1"),
        ({"tensorflow_text": None}, "tensorflow-text", "not installed; ", "'tensorflow-text!=2.21.0,<2.22,>=2.19'"),
        ({"tensorflow": "2.18.1", "tensorflow_text": "2.18.1"}, "tensorflow",
         "TensorFlow 2.18.1 is installed; bert_tf requires TensorFlow 2.19 to 2.21", "'tensorflow>=2.19,<2.22'"),
        ({"tensorflow": "2.22.0"}, "tensorflow", "TensorFlow 2.22.0 is installed; bert_tf requires", ">=2.19,<2.22'"),
        ({"keras": "2.15.0"}, "keras", "2.15.0; ", "'keras<3.16,>=3.10,>=3.12.0'"),
        ({"protobuf": "5.29.6"}, "protobuf", "5.29.6; tensorflow needs", "'protobuf<8,>=6.31.1'"),
        ({"numpy": "1.24.0"}, "numpy", "1.24.0; tensorflow needs numpy>=1.26.0", "'numpy>=1.26.0'"),
        ({"protobuf": None}, "protobuf", "not installed; tensorflow needs", "pip install 'protobuf"),
    ],
)  # fmt: skip
def test_a_package_that_does_not_fit_is_a_fault_with_a_remedy(changes, name, text, remedy):
    found = examine_packages(**changes)
    found.pop("security", None)  # of a version that old
    (finding,) = found.values()
    assert (finding.name, finding.state) == (name, FAULT)
    assert finding.text.startswith(text) and remedy in finding.remedy


def test_a_package_that_does_not_match_tensorflow_is_the_one_to_change(monkeypatch):
    monkeypatch.setitem(NEEDS, "tensorflow-text", ["tensorflow<2.21,>=2.20.0"])
    found = examine_packages(tensorflow="2.20.0", tensorflow_text="2.20.1")
    api = found["tensorflow-serving-api"]
    assert api.text == "2.21.0; needs tensorflow<3,>=2.21.0, but TensorFlow 2.20.0 is installed"
    assert "pip install 'tensorflow-serving-api==2.20.*'" in api.remedy


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"keras": "3.12.0"}, "keras 3.12.0 has known vulnerabilities; fixed in >=3.14.0"),
        ({"protobuf": "6.31.1"}, "protobuf 6.31.1 has known vulnerabilities; fixed in >=6.33.5 or >=5.29.6,<6"),
    ],
)
def test_versions_with_security_holes_are_noted(changes, text):
    found = examine_packages(**changes)
    assert (found["security"].state, found["security"].text) == (NOTE, text) and found["packages"].state == OK


def test_without_tensorflow_only_what_is_known_to_be_missing_is_named():
    found = examine_packages(tensorflow=None, protobuf=None)
    assert set(found) == {"tensorflow"} and found["tensorflow"].text.startswith("not installed; ")


def test_two_distributions_of_tensorflow_are_a_fault():
    (finding,) = examine_packages(tensorflow_cpu="2.21.0").values()
    assert finding.text == "tensorflow and tensorflow-cpu overwrite each other's files"
    assert "pip uninstall --yes tensorflow tensorflow-cpu; then" in finding.remedy


def test_without_packaging_all_requirements_are_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    (finding,) = examine_packages().values()
    assert finding.state == FAULT and "pip install 'tensorflow>=2.19,<2.22'" in finding.remedy


@pytest.mark.parametrize(
    ("version", "state"), [((3, 9, 18), FAULT), ((3, 10, 0), OK), ((3, 13, 1), OK), ((3, 14, 0), FAULT)]
)
def test_pythons(version, state):
    finding = doctor.examine_python(version)
    assert finding.state == state and ".".join(map(str, version)) in finding.text
    assert (finding.remedy == "create an environment with Python 3.10 to 3.13") == (state == FAULT)


def test_the_pythons_and_packages_are_those_of_the_project():
    (oldest, newest) = doctor.PYTHONS
    wanted = f'requires-python = ">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"'
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert wanted in text and all(f'"{each}"' in text for each in doctor.requirements_of("bert-tf"))
    assert doctor.requirements_of("not-installed-anywhere") == []


# === Environment and machine ===


@pytest.mark.parametrize(
    ("name", "value", "state", "text"),
    [
        ("TF_USE_LEGACY_KERAS", "1", FAULT, "Keras 2"),
        ("TF_USE_LEGACY_KERAS", "True", FAULT, "Keras 2"),
        ("KERAS_BACKEND", "torch", FAULT, "another backend"),
        ("TF_ENABLE_ONEDNN_OPTS", "0", WARNING, "oneDNN is off"),
        ("ONEDNN_MAX_CPU_ISA", "AVX2", WARNING, "does not use all"),
        ("CUDA_VISIBLE_DEVICES", "", NOTE, "none if it is empty"),
        ("CUDA_VISIBLE_DEVICES", "1,2", NOTE, "only these GPUs"),
    ],
)
def test_a_variable_that_matters(name, value, state, text):
    (finding,) = doctor.examine_variables({name: value, "PATH": "/bin"})
    assert finding.state == state and text in finding.text and f"{name}={value}:" in finding.text
    assert finding.remedy == (f"unset {name}" if state in (FAULT, WARNING) else "")


@pytest.mark.parametrize(
    "harmless",
    [
        {},
        {"TF_USE_LEGACY_KERAS": "0"},
        {"KERAS_BACKEND": "tensorflow"},
        {"TF_ENABLE_ONEDNN_OPTS": "1"},
        {"ONEDNN_MAX_CPU_ISA": "ALL"},
    ],
)
def test_variables_that_change_nothing(harmless):
    assert not list(doctor.examine_variables(harmless))


@pytest.mark.parametrize(
    ("sets", "computes", "state", "text"),
    [
        ({"avx", "avx2", "avx512_bf16", "avx512_vnni"}, True, OK,
         "avx512_bf16, avx512_vnni; bfloat16 is faster on this machine"),
        ({"avx", "avx2", "avx_vnni"}, False, OK, "bfloat16 and int8 instructions: avx_vnni; bfloat16 is not faster"),
        ({"avx"}, False, WARNING, "bfloat16 is not faster on this machine; without AVX2 everything is slow"),
        ({"sse4_2"}, False, FAULT, "bfloat16 and int8 instructions: none; bfloat16 is not"),
    ],
)
def test_processors(monkeypatch, sets, computes, state, text):
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(doctor.resources, "computes_bfloat16", lambda sets: computes)
    finding, *_ = doctor.examine_machine(sets, 8 * GB, [])
    assert (finding.name, finding.state) == ("processor", state) and text in finding.text
    needed = finding.remedy.partition("use a machine whose CPU has ")[2].partition(",")[0]
    assert needed == {OK: "", WARNING: "AVX2", FAULT: "AVX"}[state]


def test_arm_needs_no_avx(monkeypatch):
    monkeypatch.setattr(doctor.platform, "machine", lambda: "aarch64")
    finding, *_ = doctor.examine_machine({"asimd", "asimddp", "i8mm", "bf16"}, 8 * GB, [])
    assert finding.state == OK and "bf16, i8mm, asimddp; bfloat16 is not faster" in finding.text


@pytest.mark.parametrize(
    ("free", "limits", "state", "text"),
    [
        (6 * GB, [], OK, "6.0 GB free"),
        (6 * GB, [4 * GB, 2**63], OK, "4.0 GB free"),
        (6 * GB, [GB], WARNING, "1.0 GB free"),
        (GB, [], WARNING, "1.0 GB free"),
    ],
)
def test_memory_is_what_the_machine_and_the_container_leave(free, limits, state, text):
    _, memory, _ = doctor.examine_machine({"avx"}, free, limits)
    assert (memory.name, memory.state, memory.text) == ("memory", state, text)


@pytest.mark.parametrize(("free", "state"), [(5 * GB, OK), (GB, WARNING)])
def test_disk(monkeypatch, free, state):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": free}))
    *_, disk = doctor.examine_machine({"avx"}, 8 * GB, [])
    assert (disk.name, disk.state, bool(disk.remedy)) == ("disk", state, state == WARNING)


# === TensorFlow, in a child process; it is a few lines of our own, and breaks as it is told to ===

TENSORFLOW = """
import types
__version__ = "2.21.0"
_devices = [types.SimpleNamespace(name="/physical_device:" + name) for name in {devices}]
config = types.SimpleNamespace(list_physical_devices=lambda: _devices)
sysconfig = types.SimpleNamespace(get_build_info=lambda: {{"cuda_version": "12.5.1"}})
def ones(shape, dtype):
    {ones}
    return types.SimpleNamespace(numpy=lambda: 0)
linalg = types.SimpleNamespace(matmul=lambda x, y: x)
"""
KERAS = """
import types
__version__ = "3.15.1"
backend = types.SimpleNamespace(backend=lambda: "{backend}")
saving = types.SimpleNamespace(get_custom_objects=dict)
"""


def fake_environment(folder, modules=None, backend="tensorflow", devices=("CPU:0",), ones="pass", **variables):
    """Writes the modules below `folder` and returns the environment variables with which Python finds them first.

    Args:
        folder: an empty one.
        modules: {name: source} of modules that are otherwise than a sound environment's.
        backend: of Keras.
        devices: names of those that TensorFlow sees.
        ones: a line of source that runs before each product.
        variables: further environment variables.
    """
    sound = {
        "google.protobuf": '__version__ = "6.33.6"',
        "h5py": '__version__ = "3.14.0"',
        "tensorflow": TENSORFLOW.format(devices=devices, ones=ones),
        "keras": KERAS.format(backend=backend),
        "tensorflow_text": '__version__ = "2.21.1"',
    }
    for name, source in (sound | (modules or {})).items():
        path = folder.joinpath(*name.split("."))
        path.mkdir(parents=True, exist_ok=True)
        (path / "__init__.py").write_text(source, encoding="utf-8")
    (folder / "numpy.py").write_text(f"__version__ = {numpy.__version__!r}")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return {**kept, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", **variables}


@pytest.fixture
def examine(tmp_path):
    """Returns the findings of a faked environment."""

    def examine(has_gpu=False, patience=600, **fake):
        return list(doctor.examine_tensorflow(fake_environment(tmp_path, **fake), has_gpu, patience))

    return examine


def test_a_sound_environment_has_no_fault(examine):
    imports, devices = examine()
    assert imports.state == OK and imports.text.endswith("tensorflow 2.21.0, keras 3.15.1, tensorflow_text 2.21.1")
    assert (devices.state, devices.text) == (OK, "CPU:0; TensorFlow is built for CUDA 12.5.1")


@pytest.mark.parametrize(
    ("module", "source", "text"),
    [
        ("tensorflow", "import absl_not_there", "No module named 'absl_not_there'"),
        ("tensorflow", "raise ImportError('libc.so.6: `GLIBC_2.27` not found')", "GLIBC_2.27"),
        ("tensorflow", "raise RuntimeError('something new')", "RuntimeError: something new"),
        ("tensorflow_text", "raise ImportError('undefined symbol: _ZN10tensorflow')", "undefined symbol"),
        ("tensorflow_text", "raise SystemExit('enough')", "SystemExit: enough"),
    ],
)
def test_an_import_that_fails(examine, module, source, text):
    (finding,) = examine(modules={module: f"print('is no result')\n{source}"})
    assert (finding.name, finding.state) == (module, FAULT) and text in finding.text
    assert "--force-reinstall' 'tensorflow>=2.19,<2.22'" in finding.remedy
    assert "'tensorflow-text>=2.19,!=2.21.0,<2.22'" in finding.remedy


@pytest.mark.parametrize(
    ("name", "said", "remedy"),
    [("SIGILL", "Illegal instruction", "AVX"), ("SIGKILL", "Killed", "more memory"),
     ("SIGSEGV", "Segmentation fault", "--force-reinstall")],
)  # fmt: skip
def test_an_import_that_kills_the_process(examine, name, said, remedy):
    die = f"import os, signal; print('F1 check failed: no luck', flush=True); os.kill(os.getpid(), signal.{name})"
    (finding,) = examine(modules={"tensorflow": die})
    assert finding.state == FAULT and remedy in finding.remedy
    assert finding.text == f"the process died at tensorflow: {said}; F1 check failed: no luck"


@pytest.mark.slow
def test_an_import_that_does_not_come_back(examine):
    (finding,) = examine(patience=2, modules={"tensorflow": "import time; time.sleep(600)"})
    assert finding.state == FAULT and finding.text.startswith("the process died at tensorflow: Alarm clock")


def test_a_product_that_kills_the_process(examine):
    (finding,) = examine(ones="import os, signal; dtype == 'bfloat16' and os.kill(os.getpid(), signal.SIGILL)")
    assert finding.text.startswith("the process died at a matrix product in bfloat16: Illegal instruction")


def test_keras_on_another_library(examine):
    _, keras, _ = examine(backend="jax")
    assert keras.state == FAULT and "the backend jax" in keras.text and "KERAS_BACKEND=tensorflow" in keras.remedy


@pytest.mark.parametrize(("devices", "names"), [(("CPU:0",), ["GPU", "devices"]), (("CPU:0", "GPU:0"), ["devices"])])
def test_a_gpu_that_tensorflow_does_not_see_is_a_fault(examine, devices, names):
    _, *found = examine(has_gpu=True, devices=devices)
    assert [each.name for each in found] == names and (found[0].state == FAULT) == ("GPU" in names)
    assert ("'tensorflow[and-cuda]==2.21.0'" in found[0].remedy) == ("GPU" in names)


def test_a_start_that_fails_at_once(examine):
    (finding,) = examine(modules={"json": "raise ImportError('shadowed')"})
    assert finding.text.startswith("the process died at its start: status 1") and "shadowed" in finding.text


# === The program ===


def start(*words, env=None):
    command = [sys.executable, "-m", "bert_tf", "doctor", *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def read_json(done):
    report = json.loads(done.stdout)
    assert set(report) == {"healthy", "findings"}
    return report["healthy"], {finding["name"]: finding for finding in report["findings"]}


def test_the_program_in_a_sound_environment(tmp_path):
    fake = fake_environment(tmp_path)
    fake["PYTHONPATH"] += f":{ROOT}"
    done = start("--json", env=fake)
    healthy, findings = read_json(done)
    assert (done.returncode, healthy) == (0, True), done.stdout + done.stderr
    assert {"Python", "packages", "processor", "memory", "disk", "imports", "devices"} <= set(findings)
    assert not done.stderr


def test_a_fault_is_a_status(tmp_path):
    modules = {"tensorflow_text": "raise ImportError('undefined symbol')"}
    fake = fake_environment(tmp_path, modules, TF_USE_LEGACY_KERAS="1")
    fake["PYTHONPATH"] += f":{ROOT}"
    done = start(env=fake)
    assert done.returncode == 1 and not done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("Errors: 2, ")
    remedies = [line.strip() for line in lines if "fix:" in line]
    assert remedies[0] == "fix: unset TF_USE_LEGACY_KERAS" and "tensorflow-text" in remedies[-1]


def test_it_works_where_nothing_is_installed(tmp_path):
    """Not even absl, which reads the flags of all other programs; -S leaves out what is."""
    bare = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONHOME": "", "VIRTUAL_ENV": ""}
    wrapper = "import sys; sys.executable = sys.argv.pop(1); from bert_tf.cli import main; main.main(sys.argv[1:])"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    command = [sys.executable, "-S", "-c", wrapper, str(python)]
    done = subprocess.run([*command, "doctor", "--json"], env=bare, capture_output=True, text=True, check=False)
    healthy, findings = read_json(done)
    assert done.returncode == 1 and not healthy and not done.stderr
    assert "No module named 'numpy'" in findings["numpy"]["text"] and findings["packages"]["state"] == FAULT
    refused = subprocess.run([*command, "ask"], env=bare, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert refused.stderr.startswith("Error: The package 'absl' is not installed")


@pytest.mark.slow
def test_the_real_thing():
    _, findings = read_json(start("--json"))
    assert findings["packages"]["state"] == findings["imports"]["state"] == findings["devices"]["state"] == "ok"
