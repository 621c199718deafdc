"""Available memory: of the machine, and within the limits of a container."""

import ctypes
import os


def free_memory() -> int:
    """Returns the bytes of memory that are free or can be freed, plus those of this process; on systems other than
    Linux, the machine's total memory."""
    if os.path.exists("/proc/meminfo"):
        return kilobytes("/proc/meminfo", "MemAvailable") + kilobytes("/proc/self/status", "VmRSS")
    return total_memory()


def total_memory() -> int:
    """Returns the machine's memory in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def kilobytes(path: str, name: str) -> int:
    """Returns the value of the line "name:  123 kB" of a file in bytes; 0 if the system has no such file."""
    if not os.path.exists(path):
        return 0
    with open(path, encoding="ascii", errors="replace") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:")), 0)


def group_limits(groups: str | os.PathLike = "/proc/self/cgroup", root: str | os.PathLike = "/sys/fs/cgroup"):
    """Returns the memory limits, in bytes, of this process's control groups, of version 1 and 2.

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


def return_free_memory():
    """Returns this process's freed memory to the system if the C library can (glibc), which would otherwise keep it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
