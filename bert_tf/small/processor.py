"""What the processor of this machine computes in."""

import pathlib

_BFLOAT16 = {"avx512_bf16", "amx_bf16"}  # as Linux calls them
_CPUINFO = pathlib.Path("/proc/cpuinfo")


def best_precision(cpuinfo: pathlib.Path = _CPUINFO) -> str:
    """Returns "mixed_bfloat16" where the processor multiplies in bfloat16, else "float32", also where nobody says."""
    if not cpuinfo.exists():
        return "float32"
    lines = (line.partition(":") for line in cpuinfo.read_text(encoding="utf-8").splitlines())
    known = {word for name, _, words in lines if name.strip() == "flags" for word in words.split()}
    return "mixed_bfloat16" if known & _BFLOAT16 else "float32"
