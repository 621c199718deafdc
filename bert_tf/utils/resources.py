"""Processors: the CPU's name, cores and instruction sets, whether TensorFlow computes in bfloat16 on it, and a GPU."""

import glob
import os
import pathlib
import platform
import subprocess
from collections.abc import Collection, Mapping

from bert_tf.utils.onednn import CPU_INFO, OURS, VARIABLE

# Instructions that multiply and add in so few bits, as Linux calls them on x86 and on ARM.
BFLOAT16_SETS = ("amx_bf16", "avx512_bf16")
INT8_SETS = ("amx_int8", "avx512_vnni", "avx_vnni", "i8mm", "asimddp")
# Instructions of x86 with which TensorFlow uses oneDNN by default.
_WITH_ONEDNN = ("avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16")
# What ONEDNN_MAX_CPU_ISA may say so that oneDNN still takes the first of them.
_WITH_BFLOAT16 = ("avx512_core_bf16", "avx512_core_fp16", "avx512_core_amx", "avx10_1_512", "all", "default")


def instruction_sets() -> frozenset[str]:
    """Returns the CPU's instruction sets in lowercase, named as in Linux, or as in sysctl on a Mac.

    On ARM Macs "FEAT_BF16" is "bf16", as in Linux. Empty if the system does not report them.
    """
    if platform.system() == "Darwin":
        lines = _sysctl("hw.optional").splitlines()
        there = [line.partition(":")[0] for line in lines if line.endswith(": 1")]
        return frozenset(name.rpartition(".")[2].removeprefix("FEAT_").lower() for name in there)
    words = _cpu_info("flags") or _cpu_info("Features")
    return frozenset(words.lower().split())


def name() -> str:
    """Returns the CPU's model name, or its architecture if the system does not report it."""
    brand = _sysctl("-n", "machdep.cpu.brand_string") if platform.system() == "Darwin" else _cpu_info("model name")
    return " ".join(brand.split()) or platform.machine() or "unknown"


def cores() -> int:
    """Returns the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def uses_onednn(sets: Collection[str] | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether TensorFlow uses oneDNN on this machine; without TF_ENABLE_ONEDNN_OPTS, which `onednn.turn_on`
    may set, the instruction sets of x86 decide.

    Args:
        sets, environment: as in `computes_bfloat16`.
    """
    if VARIABLE in environment or not _is_x86():
        return environment.get(VARIABLE, "1").lower() not in ("0", "false")
    sets = instruction_sets() if sets is None else sets
    return any(each in sets for each in _WITH_ONEDNN)


def permits_int8(sets: Collection[str] | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether int8 products are computed by oneDNN: with instructions for int8, or without if the user says so.

    Without oneDNN, TensorFlow's kernels for int8 return nothing; without instructions, results are less exact.

    Args:
        sets, environment: as in `computes_bfloat16`.
    """
    if not _is_turned_on_by_us(environment):
        return uses_onednn(sets, environment)
    sets = instruction_sets() if sets is None else sets
    return uses_onednn(sets, environment) and any(each in sets for each in INT8_SETS)


def why_without_int8(environment: Mapping[str, str] = os.environ) -> str:
    """Returns why int8 products are not computed where `permits_int8` is false, and how to turn them on.

    Args:
        environment: as in `computes_bfloat16`.
    """
    reason = "by default, because it has no instructions for int8"
    if VARIABLE in environment and not _is_turned_on_by_us(environment):
        reason = f"because of {VARIABLE}={environment[VARIABLE]} in the environment"
    return (
        f"which is not used for int8 on this CPU {reason}. Set {VARIABLE}=1 in the environment (results are less exact "
        "on CPUs without instructions for int8)"
    )


def _is_turned_on_by_us(environment):
    return environment.get(VARIABLE) == OURS


def _is_x86():
    return platform.machine().lower() in ("x86_64", "amd64")


def computes_bfloat16(sets: Collection[str] | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the CPU has instructions for bfloat16 products, which make them faster than float32.

    On x86 without such instructions, oneDNN converts back and forth, or TensorFlow's plain kernels take over: both are
    slower than float32. The same holds if oneDNN is disabled or restricted. On other architectures, including ARM, the
    result is false: TensorFlow's wheels do not guarantee them there. Accelerators are not considered.

    Args:
        sets: from `instruction_sets`. If None, those of this machine.
        environment: environment with TF_ENABLE_ONEDNN_OPTS and ONEDNN_MAX_CPU_ISA.
    """
    if not uses_onednn(sets, environment):
        return False
    most = environment.get("ONEDNN_MAX_CPU_ISA", "all").lower()
    sets = instruction_sets() if sets is None else sets
    return most.startswith(_WITH_BFLOAT16) and any(each in sets for each in BFLOAT16_SETS)


def best_precision() -> str:
    """Returns "mixed_bfloat16" if this machine's CPU computes in it, otherwise "float32"; ignores GPUs."""
    return "mixed_bfloat16" if computes_bfloat16() else "float32"


def _cpu_info(key):
    """Returns a value of the first core from /proc/cpuinfo, or ""."""
    path = pathlib.Path(CPU_INFO)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip() == key), "")


def _sysctl(*words):
    """Returns the output of `sysctl`, or "" if it is missing."""
    try:
        return subprocess.run(["sysctl", *words], capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):  # a cut-down system: what is not known is left out
        return ""


def nvidia_gpus() -> list[str]:
    """Returns the models of NVIDIA's GPUs and the version of their driver, as Linux reports them; [] if it does not."""
    models = [path.read_text() for path in sorted(pathlib.Path("/proc/driver/nvidia/gpus").glob("*/information"))]
    lines = [line for text in models for line in text.splitlines() if line.startswith("Model")]
    version = pathlib.Path("/proc/driver/nvidia/version")
    return [*lines, *(version.read_text().splitlines()[:1] if lines and version.exists() else [])]


def has_nvidia_gpu(environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the NVIDIA driver offers a GPU that is not hidden, whatever TensorFlow makes of it."""
    return bool(glob.glob("/dev/nvidia[0-9]*")) and environment.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
