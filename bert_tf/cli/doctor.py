"""Says whether this machine and its packages are fit for bert_tf, and what to do about what is not.

    bert-tf doctor

prints a line for each thing that it looked at and a remedy below each fault. The status is 1 if anything is broken.
It works where TensorFlow is missing or does not import. docs/doctor.md.
"""

import dataclasses
import importlib
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from bert_tf.utils import resources
from bert_tf.utils.settings import Flag, command_line

# === Doctor ===
# Flags of the doctor.


DOCTOR = (
    Flag("json", False, "Print JSON instead of lines: whether all is healthy, and the findings with their figures.",
         "bool"),  # fmt: skip
)


# === Findings ===
# What the doctor finds: one line each, and one remedy for each fault.


OK, NOTE, WARNING, FAULT = "ok", "note", "warning", "fault"
_WIDE = 16  # of the column of names


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line.

    Attributes:
        name: what was looked at, in a word or two.
        state: OK; NOTE: it works, and is worth knowing; WARNING: it works worse than it could; FAULT: it is broken.
        text: what was found.
        remedy: what to do; only a warning and a fault have one, and a fault always.
        values: the figures behind the text, for --json.
    """

    name: str
    state: str
    text: str
    remedy: str = ""
    values: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        assert bool(self.remedy) == (self.state in (WARNING, FAULT)), self


def to_text(findings: Iterable[Finding]) -> str:
    """Returns the lines that the program prints, and a last one that counts."""
    findings = list(findings)
    lines = [line for finding in findings for line in _lines(finding)]
    counts = {state: sum(finding.state == state for finding in findings) for state in (FAULT, WARNING)}
    told = [f"{count} {state}{'s' * (count > 1)}" for state, count in counts.items() if count]
    return "\n".join([*lines, "", f"{', '.join(told) or 'Nothing is wrong'}."])


def _lines(finding):
    state = finding.state.upper() if finding.state == FAULT else finding.state
    yield f"{state:<8} {finding.name:<{_WIDE}} {finding.text}"
    if finding.remedy:
        yield textwrap.indent(f"remedy: {finding.remedy}", " " * (_WIDE + 10))


def to_json(findings: Iterable[Finding]) -> dict[str, Any]:
    """Returns what --json prints: {"healthy": whether there is no fault, "findings": [their attributes]}."""
    findings = list(findings)
    return {"healthy": is_healthy(findings), "findings": [dataclasses.asdict(finding) for finding in findings]}


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Says whether nothing is broken; warnings do not count."""
    return all(finding.state != FAULT for finding in findings)


# === Child ===
# TensorFlow, tried in a child process: a crash there is a finding, not the end of the doctor.


PROBE = pathlib.Path(__file__).with_name("doctor_probe.py")
STAGES = ("imports", "devices", "products")
PATIENCE = 600.0  # seconds: on a slow disk the first import alone takes minutes
_LEVEL = 1  # as TF_CPP_MIN_LOG_LEVEL counts: no information, which explains no end
_TOLD = 300  # letters of what it said last


@dataclasses.dataclass(frozen=True)
class Report:
    """How far the child came.

    Attributes:
        lines: what it wrote: {"stage", ...}, see `probe`.
        ending: "" where it came to its end; else how it ended: "signal SIGILL", "status 1", "no end within 600 s".
        said: the end of what it printed in the meantime.
    """

    lines: tuple[dict[str, Any], ...]
    ending: str = ""
    said: str = ""

    def stage(self, name: str) -> list[dict[str, Any]]:
        """Returns the lines of one stage."""
        return [line for line in self.lines if line["stage"] == name]

    @property
    def last_begun(self) -> str:
        """What it was at when it ended, such as "import tensorflow"."""
        return next((line["what"] for line in reversed(self.lines) if line["stage"] == "begin"), "its start")


def ask(
    stages: Sequence[str] = STAGES, patience: float = PATIENCE, environment: Mapping[str, str] | None = None
) -> Report:
    """Runs the stages in a child and returns what is known afterwards; it ends with the child or kills it.

    Args:
        stages: of `probe`, in order.
        patience: seconds.
        environment: of the child; None: this process's.
    """
    environment = {"TF_CPP_MIN_LOG_LEVEL": str(_LEVEL), **(os.environ if environment is None else environment)}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stages.jsonl")
        command = [sys.executable, "-P", os.fspath(PROBE), path, *stages]
        options = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            done = subprocess.run(command, timeout=patience, **options)
            ending, said = _ending(done.returncode), done.stdout
        except subprocess.TimeoutExpired as late:
            ending, said = f"no end within {patience:.0f} s", late.stdout or b""
        lines = tuple(_read(path))
    return Report(lines, ending, _tail(said))


def _read(path):
    """Yields the lines of the child's file; it may have been killed before the first, or in the middle of one."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def _ending(status):
    if status >= 0:
        return f"status {status}" if status else ""
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _tail(said):
    lines = [line for line in map(bytes.strip, said.splitlines()) if line]
    told = [line.decode("utf-8", "replace") for line in lines if not re.match(rb"[IW]\d{4} |WARNING: All log", line)]
    return " / ".join(told)[-_TOLD:]


# === Machine ===
# The machine: its processor, memory, disk and graphics card, without TensorFlow.


AVX_NEEDED = "take a processor, or a kind of virtual machine, with AVX: TensorFlow's wheels are built for it"
_GB = 2**30
_ENOUGH_MEMORY = 2 * _GB  # a small BERT trains in it
_ENOUGH_DISK = 2 * _GB  # a few checkpoints of BERT-base, with the optimizer's numbers


def examine_processor(name: str, cores: int, sets: Collection[str], computes_bfloat16: bool) -> Finding:
    """Returns what the processor brings along for bfloat16 and int8.

    Args:
        name, cores, sets: as `processor` has them.
        computes_bfloat16: as `processor.computes_bfloat16`.
    """
    bfloat16 = [each for each in (*resources.BFLOAT16_SETS, "bf16") if each in sets]
    int8 = [each for each in resources.INT8_SETS if each in sets]
    text = f"{name}, {cores} core{'s' * (cores != 1)}; {_widest(sets)}"
    text += f"; bfloat16: {', '.join(bfloat16) or 'no instructions'}; int8: {', '.join(int8) or 'no instructions'}"
    if bfloat16 and not computes_bfloat16:
        text += "; TensorFlow does not use those for bfloat16 here"
    values = {"cores": cores, "bfloat16": bfloat16, "int8": int8, "computes_bfloat16": computes_bfloat16}
    if platform.machine() in ("x86_64", "AMD64") and sets and "avx" not in sets:
        return Finding("processor", FAULT, text, AVX_NEEDED, values)
    return Finding("processor", OK, text, values=values)


def _widest(sets):
    """Returns the widest vectors there are, as people call them."""
    kinds = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sve": "SVE", "asimd": "NEON", "neon": "NEON"}
    return next((told for name, told in kinds.items() if name in sets), platform.machine() or "unknown")


def examine_memory(total: int, free: int, limits: Collection[int]) -> Finding:
    """Returns how much memory there is.

    Args:
        total, free: bytes, of the machine.
        limits: bytes, of the control groups (a container) around this process.
    """
    limit = min(limits, default=total)
    text = f"{total / _GB:.1f} GB, {free / _GB:.1f} GB free"
    if limit < total:
        text += f"; the container may take {limit / _GB:.1f} GB"
    values = {"total": total, "free": free, "limit": limit}
    if min(free, limit) >= _ENOUGH_MEMORY:
        return Finding("memory", OK, text, values=values)
    remedy = "give the container more memory" if limit < _ENOUGH_MEMORY <= free else "end other programs"
    return Finding("memory", WARNING, text, f"{remedy}: training a small BERT takes {_ENOUGH_MEMORY // _GB} GB", values)


def examine_disk(folder: str, free: int) -> Finding:
    """Returns how much room there is where the doctor was started.

    Args:
        folder: its path.
        free: bytes.
    """
    text, values = f"{free / _GB:.1f} GB free in {folder}", {"folder": folder, "free": free}
    if free >= _ENOUGH_DISK:
        return Finding("disk", OK, text, values=values)
    return Finding("disk", WARNING, text, "free space, or work in another folder: checkpoints take gigabytes", values)


def examine() -> list[Finding]:
    """Returns what there is to say of this machine."""
    sets, here = resources.instruction_sets(), os.getcwd()
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    libc = " ".join(platform.libc_ver()).strip()
    return [
        Finding("system", NOTE if platform.system() == "Windows" else OK, f"{system}{', ' * bool(libc)}{libc}"),
        examine_processor(resources.name(), resources.cores(), sets, resources.computes_bfloat16(sets)),
        examine_memory(resources.total_memory(), resources.free_memory(), resources.group_limits()),
        examine_disk(here, shutil.disk_usage(here).free),
    ]


def graphics_card() -> dict[str, Any] | None:
    """Returns {"name", "driver"} of the first NVIDIA GPU that the driver knows; None where there is none."""
    options = command_line({"query-gpu": "name,driver_version", "format": "csv,noheader"})
    try:
        done = subprocess.run(["nvidia-smi", *options], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):  # no driver, or one that hangs
        return None
    name, comma, driver = done.stdout.partition("\n")[0].rpartition(", ")
    return {"name": name, "driver": driver} if not done.returncode and comma else None


# === Packages ===
# Which packages are there, and which do not fit together: by what they say of themselves, without an import.


PYTHONS = ((3, 11), (3, 13))  # the oldest and the newest
_PROJECT = pathlib.Path(__file__).resolve().parents[3] / "pyproject.toml"
# Of each group one must be there; a second brings the same modules, and files of both end up mixed.
_SAME_MODULES = (
    ("tensorflow", "tensorflow-cpu", "tf-nightly", "tensorflow-intel", "intel-tensorflow", "tensorflow-rocm"),
    ("tensorflow-text", "tensorflow-text-nightly"),
    ("keras", "keras-nightly"),
)


def examine_python(version: tuple[int, ...] = sys.version_info) -> Finding:
    """Returns what there is to say of the interpreter."""
    told, (oldest, newest) = ".".join(map(str, version[:3])), PYTHONS
    values = {"version": told, "executable": sys.executable}
    if oldest <= tuple(version[:2]) <= newest:
        return Finding("Python", OK, f"{told}, {sys.executable}", values=values)
    first, last = (".".join(map(str, each)) for each in PYTHONS)
    remedy = f"make an environment with Python {first} to {last}, in a checkout by `make setup PYTHON=python{last}`"
    return Finding("Python", FAULT, f"{told}; bert_tf needs {first} to {last}", remedy, values)


def pip_install(*requirements: str) -> str:
    """Returns the command that installs them into the environment of this process."""
    words = " ".join(f"'{each}'" for each in requirements)
    return f"{sys.executable} -m pip install {words}"


def requirements_of(name: str) -> list[str] | None:
    """Returns what a distribution says it needs, such as "numpy>=1.26"; None where it is not installed.

    Of bert_tf in a checkout it is what pyproject.toml says now, not what it said when it was installed.
    """
    if name == "bert-tf" and _PROJECT.exists():
        import tomllib

        return tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return None


def installed() -> dict[str, list[str]]:
    """Returns {name, small letters with hyphens: [version]}; several versions mean that remains of others lie there."""
    found: dict[str, list[str]] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name and distribution.version not in found.setdefault(_plain(name), []):
            found[_plain(name)].append(distribution.version)
    return found


def examine_packages(
    versions: Mapping[str, list[str]] | None = None,
    requirements: Callable[[str], list[str] | None] = requirements_of,
) -> Iterator[Finding]:
    """Yields a finding for each package that is missing, does not fit or is there twice, or one that all is well.

    Args:
        versions: as of `installed`; None: of this environment.
        requirements: as `requirements_of`.
    """
    versions = installed() if versions is None else versions
    faults = [*_missing_or_wrong(versions, requirements), *_twice(versions)]
    yield from faults
    if not faults:
        named = ("tensorflow", "tensorflow-text", "keras", "numpy", "protobuf")
        told = ", ".join(f"{name} {versions[name][0]}" for name in named if name in versions)
        values = {name: each[0] for name, each in sorted(versions.items())}
        yield Finding("packages", OK, f"{told}; all that they need is there and fits", values=values)


def _missing_or_wrong(versions, requirements):
    parse = _requirement_class()
    if parse is None:
        text = "versions cannot be compared without the package `packaging`"
        yield Finding("packages", FAULT, text, pip_install("packaging"))
        return
    for name, needs in sorted(_needs("bert-tf", versions, requirements, parse).items()):
        there = versions.get(name, [])
        wrong = {who: spec for who, spec in needs.items() if there and not spec.contains(there[0], prereleases=True)}
        if there and not wrong:
            continue
        who, spec = next(iter((wrong or needs).items()))
        remedy = pip_install(name + ",".join(sorted({str(each) for each in needs.values() if str(each)})))
        text = f"{there[0]} is there" if there else "not installed"
        values = {"installed": there, "needed": {each: str(spec) for each, spec in needs.items()}}
        yield Finding(name, FAULT, f"{text}; {who} needs {name}{spec}", remedy, values)


def _needs(root, versions, requirements, parse):
    """Returns {name: {who needs it: specifier}} of all that `root` needs, and what that needs in turn."""
    needs, open_, seen = {}, [root], set()
    while open_:
        who = open_.pop()
        for text in requirements(who) or []:
            each = parse(text)
            if each.marker is not None and not each.marker.evaluate({"extra": ""}):
                continue
            name = _plain(each.name)
            needs.setdefault(name, {})[who] = each.specifier
            if name in versions and name not in seen:
                seen.add(name)
                open_.append(name)
    return needs


def _twice(versions):
    for names in _SAME_MODULES:
        there = [name for name in names if name in versions]
        if len(there) > 1:
            text = f"{' and '.join(there)} bring the same modules, and their files are mixed"
            remedy = f"{sys.executable} -m pip uninstall --yes {' '.join(there)}; then {pip_install(names[0])}"
            yield Finding(names[0], FAULT, text, remedy)
    for name, each in sorted(versions.items()):
        if len(each) > 1:
            text = f"{' and '.join(each)} are there at once, the first before the others"
            yield Finding(name, FAULT, text, f"{sys.executable} -m pip uninstall --yes {name}, until none is left; "
                          f"then {pip_install(name)}")  # fmt: skip


def _requirement_class():
    """Returns `packaging`'s Requirement, that which pip brings where it is missing, or None."""
    for module in ("packaging.requirements", "pip._vendor.packaging.requirements"):
        try:
            return importlib.import_module(module).Requirement
        except ImportError:
            continue
    return None


def _plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# === Variables ===
# Environment variables that change what TensorFlow does, often set long ago and forgotten.


@dataclasses.dataclass(frozen=True)
class _Variable:
    """What a variable may say, and what follows.

    Attributes:
        matters: tells of a value whether it changes anything.
        state: of the finding if so.
        meaning: what it does then.
    """

    matters: Callable[[str], bool]
    state: str
    meaning: str


def _on(value):
    return value.strip().lower() in ("1", "true", "t", "yes", "y", "on")


def _off(value):
    return value.strip().lower() in ("0", "false", "f", "no", "n", "off")


def _any(value):
    return bool(value.strip())


_VARIABLES = {
    "TF_USE_LEGACY_KERAS": (
        _Variable(_on, FAULT, "tf.keras is Keras 2, which bert_tf cannot use beside Keras 3"),
    ),
    "KERAS_BACKEND": (
        _Variable(lambda value: value not in ("", "tensorflow"), FAULT, "Keras computes with another library"),
    ),
    "TF_ENABLE_ONEDNN_OPTS": (
        _Variable(_off, WARNING, "products on the CPU do without oneDNN: slower, much so in bfloat16"),
    ),
    "ONEDNN_MAX_CPU_ISA": (
        _Variable(lambda value: value.lower() not in ("", "all", "default"), WARNING,
                  "oneDNN leaves instructions of this processor unused"),
    ),
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": (
        _Variable(lambda value: value == "python", WARNING, "messages are read many times more slowly"),
    ),
    "CUDA_VISIBLE_DEVICES": (
        _Variable(lambda value: value in ("", "-1"), NOTE, "no GPU is used"),
        _Variable(_any, NOTE, "only these GPUs are used"),
    ),
    "XLA_FLAGS": (_Variable(_any, NOTE, "the XLA compiler is told so; an unknown flag in it ends the process"),),
    "TF_XLA_FLAGS": (_Variable(_any, NOTE, "TensorFlow tells XLA so"),),
    "NVIDIA_TF32_OVERRIDE": (_Variable(_off, NOTE, "float32 on GPUs is exact and several times slower"),),
    "TF_DETERMINISTIC_OPS": (_Variable(_on, NOTE, "operations are deterministic, and some of them slower"),),
    "TF_NUM_INTRAOP_THREADS": (_Variable(_any, NOTE, "so many threads compute one operation"),),
    "TF_NUM_INTEROP_THREADS": (_Variable(_any, NOTE, "so many operations are computed at once"),),
    "OMP_NUM_THREADS": (_Variable(_any, NOTE, "so many threads compute one operation of numpy and others"),),
    "LD_LIBRARY_PATH": (_Variable(_any, NOTE, "libraries here go before those that pip installed, CUDA's among them"),),
}  # fmt: skip


def examine_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yields a finding for each variable that changes something, or one that says there is none.

    Args:
        environment: os.environ, or what stands for it.
    """
    found = False
    for name, meanings in _VARIABLES.items():
        value = environment.get(name)
        meant = None if value is None else next((each for each in meanings if each.matters(value)), None)
        if meant:
            found = True
            remedy = f"unset {name}" if meant.state in (FAULT, WARNING) else ""
            yield Finding("environment", meant.state, f"{name}={value}: {meant.meaning}", remedy, {name: value})
    if not found:
        yield Finding("environment", OK, f"no variable changes what TensorFlow does ({len(_VARIABLES)} looked for)")


# === Tensorflow ===
# TensorFlow as the child found it: does it import, what does it see, how fast is it in each precision?


TENSORFLOW, TEXT = "tensorflow>=2.21,<2.22", "tensorflow-text>=2.21.1,<2.22"
_WITH_CUDA = pip_install("tensorflow[and-cuda]>=2.21,<2.22")
_AGAIN = pip_install("--force-reinstall", "--no-deps", "{}")
# What an error says -> the remedy; the first that is found in it counts, in any case of letters.
_REMEDIES = (
    (r"no module named '?tensorflow_text", pip_install(TEXT)),
    (r"no module named '?([\w.]+)", None),  # the module itself
    (r"glibc(xx)?_\d", "take a newer system, or a container of one: TensorFlow's wheels need glibc 2.27 or later"),
    (r"descriptors cannot|gencode|protobuf", pip_install("protobuf>=6.31.1,<7")),
    (r"_array_api|numpy\.core\.multiarray|compiled using numpy|numpy\.dtype size", pip_install("numpy>=1.26,<3")),
    (r"tf[_-]keras|legacy.keras|keras 2", "unset TF_USE_LEGACY_KERAS"),
    (r"libcu|libnv|libcudnn", _WITH_CUDA),
)
_DISTRIBUTIONS = {"google.protobuf": "protobuf", "tensorflow_text": TEXT, "tensorflow": TENSORFLOW}
_OF_SIGNALS = {
    "signal SIGILL": AVX_NEEDED,
    "signal SIGKILL": "give the machine or the container more memory, 2 GB at least: Linux ends what takes more",
}
_PAYS = 1.2  # times float32's speed, from which another precision is worth a flag


def examine_imports(report: Report) -> Iterator[Finding]:
    """Yields a finding on what was imported, and one on what was not."""
    lines = report.stage("import")
    good, bad = [line for line in lines if "error" not in line], [line for line in lines if "error" in line]
    for line in bad:
        module, error = line["module"], " ".join(line["error"].split())
        yield Finding(module, FAULT, f"does not import: {error[:500]}", remedy_of(module, error), line)
    if not bad and not any(line["module"] == "tensorflow_text" for line in lines):
        yield _crash(report)
    elif good and not bad:
        versions = {line["module"]: line["version"] for line in good}
        seconds = next(line["seconds"] for line in good if line["module"] == "tensorflow")
        told = f"tensorflow {versions['tensorflow']} in {seconds:.1f} s, tensorflow_text {versions['tensorflow_text']}"
        yield Finding("imports", OK, f"{told}, keras {versions['keras']}", values=versions | {"seconds": seconds})


def remedy_of(module: str, error: str) -> str:
    """Returns what to do about an import that fails.

    Args:
        module: that was imported.
        error: what was raised, as text.
    """
    for pattern, remedy in _REMEDIES:
        if found := re.search(pattern, error.lower()):
            missing = found[1] if remedy is None else None
            return remedy or pip_install(_DISTRIBUTIONS.get(missing, missing.partition(".")[0]))
    if module == "tensorflow_text":  # its libraries are built for one minor version of TensorFlow
        return pip_install(TENSORFLOW, TEXT)
    return _AGAIN.format(_DISTRIBUTIONS.get(module, module))


def _crash(report):
    text = f"{report.last_begun} ended the process: {report.ending or 'too early'}"
    if report.said:
        text += f"; the last it said: {report.said}"
    remedy = _OF_SIGNALS.get(report.ending, pip_install("--force-reinstall", TENSORFLOW, TEXT))
    return Finding("imports", FAULT, text, remedy, {"at": report.last_begun, "ending": report.ending})


def examine_devices(report: Report, card: dict[str, Any] | None, hidden: bool) -> Iterator[Finding]:
    """Yields what TensorFlow sees of GPUs and drivers, and whether Keras computes with it.

    Args:
        report: of the child.
        card: the GPU that the driver knows: {"name", "driver"}; None: there is none.
        hidden: CUDA_VISIBLE_DEVICES hides all GPUs.
    """
    for line in report.stage("devices"):
        if line["backend"] != "tensorflow":
            remedy = 'set KERAS_BACKEND=tensorflow, or "backend": "tensorflow" in ~/.keras/keras.json'
            yield Finding("Keras", FAULT, f"computes with {line['backend']}; bert_tf needs TensorFlow", remedy)
        gpus = [device for device in line["devices"] if device["kind"] == "GPU"]
        yield _cuda(line, card, gpus, hidden)
        names = [device["name"] or device["kind"] for device in line["devices"]]
        yield Finding("devices", OK, ", ".join(names), values={"devices": line["devices"]})


_LEAST_DRIVERS = {12: 525, 13: 580}  # CUDA -> the oldest driver of Linux that runs it


def _cuda(line, card, gpus, hidden):
    version = str(line["cuda_version"] or "")
    values = {"cuda": version, "cudnn": line["cudnn_version"], "driver": card and card["driver"], "gpus": len(gpus)}
    built = f"TensorFlow is built for CUDA {version}" if line["is_cuda_build"] else "TensorFlow is built without CUDA"
    if card is None or gpus or hidden:
        seen = f"driver {card['driver']}" if card else "no NVIDIA driver"
        return Finding("CUDA", OK if gpus else NOTE, f"{built}; {seen}", values=values)
    text, least = f"{card['name']} is there, driver {card['driver']}, but TensorFlow does not see it", 0
    if version.partition(".")[0].isdigit():
        least = _LEAST_DRIVERS.get(int(version.partition(".")[0]), 0)
    if not line["is_cuda_build"] or not card["driver"].partition(".")[0].isdigit():
        return Finding("CUDA", FAULT, f"{text}: {built}", _WITH_CUDA, values)
    if int(card["driver"].partition(".")[0]) < least:
        text += f": {built}, which needs driver {least} or later"
        return Finding("CUDA", FAULT, text, f"install NVIDIA's driver {least} or later", values)
    text += f": {built}, whose libraries are missing or of another version"
    return Finding("CUDA", FAULT, text, _WITH_CUDA, values)


def examine_products(report: Report) -> Iterator[Finding]:
    """Yields how fast a product of matrices is in each precision, and what follows for `precision`."""
    lines = {line["dtype"]: line for line in report.stage("product")}
    for dtype, line in lines.items():
        speed = f"{line['gflops']:,.0f} GFLOP/s" if line["gflops"] >= 1 else f"{line['gflops']} GFLOP/s"
        text = f"{speed}, {line['size']} x {line['size']} on the {line['device']}"
        if dtype != "float32" and lines["float32"]["gflops"]:
            times = line["gflops"] / lines["float32"]["gflops"]
            text += f", {times:.1f} times float32: mixed_{dtype} {_verdict(dtype, line, times)}"
        yield Finding(dtype, OK, text, values=line)
    if report.ending and report.stage("devices"):
        text = f"{report.last_begun} ended the process: {report.ending}; {report.said}"
        yield Finding("products", FAULT, text, pip_install("--force-reinstall", TENSORFLOW), {"ending": report.ending})


def _verdict(dtype, line, times):
    if times >= _PAYS:
        return "is faster here"
    if line["device"] == "CPU" and dtype == "bfloat16" and resources.computes_bfloat16():
        return "should be faster here, which this busy machine did not show"
    return "is not faster here"


# === Checkup ===
# The whole examination, in the order in which one thing explains the next.


def examine_checkup(environment: Mapping[str, str], patience: float = PATIENCE) -> Iterator[Finding]:
    """Yields what is found; what is quick comes first.

    TensorFlow is imported in a child and not here, so that it may be missing, or crash.

    Args:
        environment: os.environ; the child is given it.
        patience: seconds until the child must have ended.
    """
    yield examine_python()
    yield from examine_packages()
    yield from examine_variables(environment)
    yield from examine()
    yield from _of_tensorflow(ask(patience=patience, environment=environment), environment)


def _of_tensorflow(report, environment):
    yield from examine_imports(report)
    hidden = environment.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    yield from examine_devices(report, graphics_card(), hidden)
    yield from examine_products(report)


# === Doctor ===


FLAGS = DOCTOR


def main(settings):
    """Prints the findings; ends with status 1 where there is a fault."""

    findings = list(examine_checkup(os.environ))
    print(json.dumps(to_json(findings), indent=2) if settings.json else to_text(findings), flush=True)
    if not is_healthy(findings):
        sys.exit(1)
