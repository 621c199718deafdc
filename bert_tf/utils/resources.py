"""Memory, processors with their instruction sets, and the versions of packages."""

import ctypes
import importlib.metadata
import os
import pathlib
import platform
import subprocess
from collections.abc import Collection, Iterable, Mapping

import bert_tf

# === Memory ===
# How much memory there is: what the machine has free, and what a container allows.


def free_memory() -> int:
    """Returns the bytes that are free or would be freed, and what this process has already; elsewhere than on Linux
    all that the machine has."""
    if os.path.exists("/proc/meminfo"):
        return kilobytes("/proc/meminfo", "MemAvailable") + kilobytes("/proc/self/status", "VmRSS")
    return total_memory()


def total_memory() -> int:
    """Returns the bytes of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def kilobytes(path: str, name: str) -> int:
    """Returns as bytes what the line "name:  123 kB" of a file says; 0 where the system has no such file."""
    if not os.path.exists(path):
        return 0
    with open(path, encoding="ascii", errors="replace") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:")), 0)


def group_limits(groups: str | os.PathLike = "/proc/self/cgroup", root: str | os.PathLike = "/sys/fs/cgroup"):
    """Returns the limits, in bytes, of the control groups that this process is in; version 1 and version 2.

    A line of `groups` is "4:memory:/a/b" (version 1) or "0::/a/b" (version 2); groups above limit those below. Inside a
    container the path may be that of the host, and then the root that is seen here is the process's own group.
    """
    if not os.path.exists(groups):
        return []
    with open(groups, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    limits = []
    for number, controllers, path in lines:
        if "memory" not in controllers.split(",") and number != "0":
            continue
        top, name = (root, "memory.max") if number == "0" else (f"{root}/memory", "memory.limit_in_bytes")
        parts = [part for part in path.split("/") if part]
        files = [os.path.join(top, *parts[:depth], name) for depth in range(len(parts) + 1)]
        limits += [limit for limit in map(_limit, files) if limit is not None]
    return limits


def _limit(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="ascii") as file:
        text = file.read().strip()
    return int(text) if text.isdigit() else None  # "max": none


# === Processor ===
# What the processor can do: its name, its instruction sets, and whether TensorFlow computes in bfloat16 on it.


CPU_INFO = "/proc/cpuinfo"
# Instructions that multiply and add in so few bits, as Linux calls them on x86 and on ARM.
BFLOAT16_SETS = ("amx_bf16", "avx512_bf16")
INT8_SETS = ("amx_int8", "avx512_vnni", "avx_vnni", "i8mm", "asimddp")
# What ONEDNN_MAX_CPU_ISA may say so that oneDNN still takes the first of them.
_WITH_BFLOAT16 = ("avx512_core_bf16", "avx512_core_fp16", "avx512_core_amx", "avx10_1_512", "all", "default")


def instruction_sets() -> frozenset[str]:
    """Returns the names of what the processor has, small letters: those of Linux, or of sysctl on a Mac.

    On ARM Macs "FEAT_BF16" is "bf16", as Linux has it. Empty where the system does not say.
    """
    if platform.system() == "Darwin":
        lines = _sysctl("hw.optional").splitlines()
        there = [line.partition(":")[0] for line in lines if line.endswith(": 1")]
        return frozenset(name.rpartition(".")[2].removeprefix("FEAT_").lower() for name in there)
    words = _cpu_info("flags") or _cpu_info("Features")
    return frozenset(words.lower().split())


def name() -> str:
    """Returns the maker's name of the processor; that of its architecture where the system does not say."""
    brand = _sysctl("-n", "machdep.cpu.brand_string") if platform.system() == "Darwin" else _cpu_info("model name")
    return " ".join(brand.split()) or platform.machine() or "unknown"


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_onednn(environment: Mapping[str, str] = os.environ) -> bool:
    """Says whether TensorFlow may use oneDNN, as it does by itself where its wheel holds it."""
    return environment.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() not in ("0", "false")


def computes_bfloat16(sets: Collection[str] | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Says whether products of bfloat16 are made by instructions of the processor, and so faster than float32's.

    On x86 without such instructions oneDNN converts back and forth, or TensorFlow's plain kernels take over: both are
    slower than float32. So are they where oneDNN is switched off or held back. Elsewhere, on ARM too, the answer is
    no: TensorFlow's wheels do not promise them there. Of accelerators this says nothing.

    Args:
        sets: of `instruction_sets`; None: those of this machine.
        environment: TF_ENABLE_ONEDNN_OPTS and ONEDNN_MAX_CPU_ISA count.
    """
    if not has_onednn(environment):
        return False
    most = environment.get("ONEDNN_MAX_CPU_ISA", "all").lower()
    sets = instruction_sets() if sets is None else sets
    return most.startswith(_WITH_BFLOAT16) and any(each in sets for each in BFLOAT16_SETS)


def best_precision() -> str:
    """Returns "mixed_bfloat16" where this machine's processor computes in it, else "float32"; GPUs are not asked."""
    return "mixed_bfloat16" if computes_bfloat16() else "float32"


def _cpu_info(key):
    """Returns what /proc/cpuinfo says of the first core; "" where it does not."""
    path = pathlib.Path(CPU_INFO)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip() == key), "")


def _sysctl(*words):
    """Returns what `sysctl` prints; "" where there is none."""
    try:
        return subprocess.run(["sysctl", *words], capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):  # a cut-down system: what is not known is left out
        return ""


# === Packages ===


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Returns {package: version} of Python, of this one and of those named; one that is not installed is left out."""
    found = {"python": platform.python_version(), "bert_tf": bert_tf.__version__}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def return_free_memory():
    """Returns this process's freed memory to the system if the C library can (glibc), which would otherwise keep it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
