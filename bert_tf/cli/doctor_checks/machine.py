"""The machine: its processor, memory, disk and graphics card, without TensorFlow."""

import os
import platform
import shutil
import subprocess
from collections.abc import Collection
from typing import Any

from bert_tf.cli.doctor_checks.findings import FAULT, NOTE, OK, WARNING, Finding
from bert_tf.utils import memory_limits, processor
from bert_tf.utils.settings import command_line

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
    bfloat16 = [each for each in (*processor.BFLOAT16_SETS, "bf16") if each in sets]
    int8 = [each for each in processor.INT8_SETS if each in sets]
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
    sets, here = processor.instruction_sets(), os.getcwd()
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    libc = " ".join(platform.libc_ver()).strip()
    return [
        Finding("system", NOTE if platform.system() == "Windows" else OK, f"{system}{', ' * bool(libc)}{libc}"),
        examine_processor(processor.name(), processor.cores(), sets, processor.computes_bfloat16(sets)),
        examine_memory(memory_limits.total_memory(), memory_limits.free_memory(), memory_limits.group_limits()),
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
