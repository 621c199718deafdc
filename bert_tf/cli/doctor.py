"""Check Python, packages, CPU, GPU and memory, and suggest fixes.

    bert-tf doctor

Prints one line per check, with a fix below each problem. Exits with status 1 if
anything is broken. Works even if TensorFlow is missing or cannot be imported.
"""

import ast
import dataclasses
import importlib
import inspect
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import metadata
from typing import ClassVar, NamedTuple

from bert_tf.utils import memory, resources
from bert_tf.utils.requirements import DISTRIBUTIONS, find_misfit, lacks, pip_install
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class DoctorSettings(UserSettings):
    """Output format of the findings."""

    GROUP: ClassVar[str] = "Output"

    json: bool = option(
        False,
        "Print JSON instead of lines: whether everything is healthy, and the findings.",
        essential=True,
    )


SETTINGS = DoctorSettings
FLAGS = flags_of(SETTINGS)
OK, NOTE, WARNING, FAULT = "ok", "note", "warning", "fault"
PYTHONS = ((3, 10), (3, 13))  # the oldest and the newest
_PROJECT = pathlib.Path(__file__).parents[2] / "pyproject.toml"
_TENSORFLOWS = {*DISTRIBUTIONS, "tf-nightly"}
# Versions without known vulnerabilities, for packages of which bert_tf also accepts older versions.
WITHOUT_HOLES = {
    "keras": (">=3.14.0",),
    "protobuf": (">=6.33.5", ">=5.29.6,<6"),
    "tensorflow": (">=2.21.0",),
}
_VARIABLES = {  # name: (pattern of the values that matter, state, what follows from them)
    "TF_USE_LEGACY_KERAS": ("1|t|true|y|yes|on", FAULT, "tf.keras is Keras 2, which is incompatible with Keras 3"),
    "KERAS_BACKEND": ("(?!tensorflow$).+", FAULT, "Keras uses another backend"),
    "TF_ENABLE_ONEDNN_OPTS": ("0|f|false|n|no|off", WARNING, "oneDNN is off on the CPU: bfloat16 is slow"),
    "ONEDNN_MAX_CPU_ISA": ("(?!(all|default)$).+", WARNING, "oneDNN does not use all instructions of the CPU"),
    "CUDA_VISIBLE_DEVICES": (".*", NOTE, "only these GPUs are visible; none if it is empty or -1"),
}
_ENOUGH = 2 * 2**30  # bytes; of memory: a small BERT trains in it; of disk: a few checkpoints of BERT-base
_NO_AVX = "use a machine whose CPU has AVX, which TensorFlow's wheels require"
_NO_AVX2 = "use a machine whose CPU has AVX2"
_SIGNALS = {signal.SIGILL: _NO_AVX, signal.SIGKILL: "give the machine, or the container, more memory"}


class Finding(NamedTuple):
    """A line of the report: what was looked at, OK, NOTE, WARNING or FAULT, what was found, and what to do about it."""

    name: str
    state: str
    text: str
    remedy: str = ""


def main(settings: DoctorSettings):
    """Prints the findings, the quick checks first; exits with status 1 if there is an error."""
    distributions = reversed(list(metadata.distributions()))  # of several versions the first counts
    findings = [
        examine_python(sys.version_info[:3]),
        *examine_packages({plain_name(each.name): each.version for each in distributions if each.name}),
        *examine_variables(os.environ),
        *examine_machine(resources.instruction_sets(), memory.free_memory(), memory.group_limits()),
        *examine_tensorflow(os.environ, resources.has_nvidia_gpu()),
    ]
    healthy = all(finding.state != FAULT for finding in findings)
    report = {"healthy": healthy, "findings": [finding._asdict() for finding in findings]}
    print(json.dumps(report, indent=2) if settings.json else to_text(findings), flush=True)
    sys.exit(0 if healthy else 1)


def to_text(findings: Sequence[Finding]) -> str:
    """Returns a line for each finding, with its fix below it, and a last line that counts errors and warnings."""
    lines, states = [], [finding.state for finding in findings]
    for name, state, text, remedy in findings:
        lines.append(f"{state.replace(FAULT, 'ERROR'):<8} {name:<16} {text}")
        lines += [f"{'':26}fix: {remedy}"] if remedy else []
    return "\n".join([*lines, "", f"Errors: {states.count(FAULT)}, warnings: {states.count(WARNING)}."])


def examine_python(version: tuple[int, ...]) -> Finding:
    """Returns whether bert_tf runs on the interpreter of this (major, minor, micro) version."""
    text, (oldest, newest) = f"{'.'.join(map(str, version))}, {sys.executable}, {platform.platform()}", PYTHONS
    if oldest <= version[:2] <= newest:
        return Finding("Python", OK, text)
    return Finding("Python", FAULT, text, "create an environment with Python {}.{} to {}.{}".format(*oldest, *newest))


def plain_name(distribution: str) -> str:
    """Returns the name as package indices normalize it: small letters and hyphens."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def requirements_of(name: str) -> list[str]:
    """Returns what a distribution needs, such as "numpy>=1.26"; a checkout of bert-tf itself by its pyproject.toml."""
    if name == "bert-tf" and _PROJECT.exists():
        # An array of strings looks the same in TOML and in Python, and Python 3.10 cannot read TOML.
        text = _PROJECT.read_text(encoding="utf-8")
        return ast.literal_eval(re.search(r"^dependencies = (\[.*?^\])", text, re.MULTILINE | re.DOTALL)[1])
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []


def examine_packages(versions: Mapping[str, str], requirements: Callable = requirements_of) -> Iterator[Finding]:
    """Yields a fault for each package, of {name: version}, that is missing or does not fit, or else one line."""
    try:
        from packaging.requirements import Requirement
        from packaging.specifiers import SpecifierSet
    except ImportError:
        yield Finding("packages", FAULT, "`packaging` is not installed", pip_install(*requirements("bert-tf")))
        return
    needs, queue = {}, ["bert-tf"]  # {package: {who needs it: the versions that fit}}
    for who in queue:
        for each in map(Requirement, requirements(who)):
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                name = plain_name(each.name)
                queue += [name] * (name in versions and name not in needs)
                needs.setdefault(name, {})[who] = each.specifier
    faults, misfit = [], find_misfit(versions)
    if misfit:
        faults.append(Finding(misfit.package, FAULT, misfit.reason, pip_install(misfit.requirement)))
        needs = {name: fits for name, fits in needs.items() if name not in ("tensorflow", "tensorflow-text")}
    for name, fits in sorted(needs.items()):
        there = versions.get(name)
        if wrong := [who for who in fits if there is None or not fits[who].contains(there, prereleases=True)]:
            faults.append(_unmet(name, there, fits, wrong[0], versions))
    if len(names := sorted(_TENSORFLOWS & versions.keys())) > 1:
        remedy = f"{sys.executable} -m pip uninstall --yes {' '.join(names)}; then {pip_install(names[0])}"
        faults.append(Finding(names[0], FAULT, f"{' and '.join(names)} overwrite each other's files", remedy))
    text = ", ".join(f"{name} {versions.get(name)}" for name in ("tensorflow", "tensorflow-text", "keras", "numpy"))
    yield from faults or [Finding("packages", OK, f"{text}; all requirements are satisfied")]
    for name, safe in WITHOUT_HOLES.items():
        if name in versions and not any(SpecifierSet(each).contains(versions[name]) for each in safe):
            text = f"{name} {versions[name]} has known vulnerabilities; fixed in {' or '.join(safe)}"
            yield Finding("security", NOTE, text)


def _unmet(name, there, fits, who, versions):
    """Returns the finding of a package that is not what `who` needs; another version of `who` may be the remedy."""
    if name == "tensorflow" and there and who != "bert-tf":  # TensorFlow stays: the other packages must match it
        minor = ".".join(there.split(".")[:2])
        text = f"{versions[who]}; needs tensorflow{fits[who]}, but TensorFlow {there} is installed"
        return Finding(who, FAULT, text, pip_install(f"{who}=={minor}.*"))
    remedy = pip_install(name + ",".join(sorted(filter(None, map(str, fits.values())))))
    return Finding(name, FAULT, f"{there or 'not installed'}; {who} needs {name}{fits[who]}", remedy)


def examine_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yields a finding for each environment variable that changes what TensorFlow does."""
    for name, (pattern, state, meaning) in _VARIABLES.items():
        value = environment.get(name)
        if value is not None and re.fullmatch(pattern, value.strip().lower()):
            yield Finding("environment", state, f"{name}={value}: {meaning}", f"unset {name}" if state != NOTE else "")


def examine_machine(instructions: Collection[str], free: int, limits: Collection[int]) -> Iterator[Finding]:
    """Yields findings on CPU, memory and disk, from instruction sets, free bytes, and limits of containers."""
    fast = [each for each in (*resources.BFLOAT16_SETS, "bf16", *resources.INT8_SETS) if each in instructions]
    text = f"{resources.name()}, {resources.cores()} cores; bfloat16 and int8 instructions: {', '.join(fast) or 'none'}"
    text += f"; bfloat16 is {'' if resources.computes_bfloat16(instructions) else 'not '}faster on this machine"
    if lacks("avx", instructions):
        yield Finding("processor", FAULT, f"{text}; it has no AVX", _NO_AVX)
    elif lacks("avx2", instructions):
        yield Finding("processor", WARNING, f"{text}; without AVX2 everything is slow", _NO_AVX2)
    else:
        yield Finding("processor", OK, text)
    for name, there in (("memory", min([free, *limits])), ("disk", shutil.disk_usage(".").free)):
        remedy = f"free some: training a small BERT takes {_ENOUGH >> 30} GB" if there < _ENOUGH else ""
        yield Finding(name, WARNING if remedy else OK, f"{there / 2**30:.1f} GB free", remedy)


def examine_tensorflow(environment: Mapping[str, str], has_gpu: bool, patience: int = 600) -> Iterator[Finding]:
    """Yields what a child process finds, in which TensorFlow may be missing, crash, or hang for `patience` seconds."""
    # Like -P, which Python 3.10 does not have: nothing is imported from the current directory.
    code = "import sys\nsys.path = [each for each in sys.path if each]\nimport importlib, json, signal\n"
    code += f"{inspect.getsource(_probe)}\n_probe({patience})"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, errors="replace")
    found = json.loads((done.stdout.splitlines() or ['{"at": "its start"}'])[-1])
    again = pip_install("--force-reinstall", *(each for each in requirements_of("bert-tf") if "tensorflow" in each))
    if done.returncode:
        ending = f"status {done.returncode}" if done.returncode > 0 else signal.strsignal(-done.returncode)
        text = f"the process died at {found.get('at', 'its end')}: {ending}; {' '.join(done.stderr.split())[-300:]}"
        yield Finding("TensorFlow", FAULT, text, _SIGNALS.get(-done.returncode, again))
    elif "error" in found:
        yield Finding(found["at"], FAULT, f"cannot be imported: {found['error'][:500]}", again)
    else:
        yield Finding("imports", OK, ", ".join(found["imports"]))
        if found["backend"] != "tensorflow":
            remedy = 'set KERAS_BACKEND=tensorflow, or "backend": "tensorflow" in ~/.keras/keras.json'
            yield Finding("Keras", FAULT, f"uses the backend {found['backend']}; bert_tf requires tensorflow", remedy)
        text = f"{', '.join(found['devices'])}; TensorFlow is built for CUDA {found['cuda']}"
        if has_gpu and "GPU:" not in text:
            remedy = pip_install(f"tensorflow[and-cuda]=={found['tensorflow']}")
            remedy += "; CUDA 12 needs driver 525, CUDA 13 needs 580"
            yield Finding("GPU", FAULT, "the NVIDIA driver finds one, but TensorFlow does not", remedy)
        yield Finding("devices", OK, text)


def _probe(patience):
    """Imports and computes what may end the process: the program of the child, which prints what it is at."""
    signal.alarm(patience)
    output, sys.stdout = sys.stdout, sys.stderr  # what modules print is no result
    imports = []
    for name in ("numpy", "google.protobuf", "h5py", "tensorflow", "keras", "tensorflow_text"):
        print(json.dumps({"at": name}), file=output, flush=True)
        try:
            imports.append(f"{name} {importlib.import_module(name).__version__}")
        except BaseException as error:  # whatever it is, it is what the user asked about
            print(json.dumps({"at": name, "error": f"{type(error).__name__}: {error}"}), file=output)
            return
    tf = sys.modules["tensorflow"]
    for dtype in ("float32", "bfloat16"):
        print(json.dumps({"at": f"a matrix product in {dtype}"}), file=output, flush=True)
        tf.linalg.matmul(tf.ones([768, 768], dtype), tf.ones([768, 768], dtype)).numpy()
    found = {"imports": imports, "tensorflow": tf.__version__, "backend": sys.modules["keras"].backend.backend()}
    found["devices"] = [each.name.removeprefix("/physical_device:") for each in tf.config.list_physical_devices()]
    found["cuda"] = tf.sysconfig.get_build_info().get("cuda_version")
    print(json.dumps(found), file=output)
