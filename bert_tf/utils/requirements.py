"""Checks that TensorFlow, tensorflow-text and the CPU are compatible, without importing any of them.

If they are not, an import ends in an undefined symbol, a missing operation or the end of the process. This check takes
about a millisecond, and reports the problem and its fix before that happens.
"""

import platform
import re
import sys
from collections.abc import Collection, Mapping
from typing import NamedTuple

# TensorFlow's minor version: the matching tensorflow-text, of which 2.21.0 cannot be imported.
TEXT = {"2.19": "tensorflow-text==2.19.*", "2.20": "tensorflow-text==2.20.*", "2.21": "tensorflow-text>=2.21.1,<2.22"}
_BROKEN_TEXT = {"2.21.0"}
# Other builds of the same sources: the first that is installed is TensorFlow.
DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "intel-tensorflow", "tensorflow-rocm")


class Misfit(NamedTuple):
    """A package that does not fit, why, and the requirement to install in its place."""

    package: str
    reason: str
    requirement: str


def find_misfit(versions: Mapping[str, str]) -> Misfit | None:
    """Returns what is wrong with TensorFlow or tensorflow-text in {package: version}; None if nothing is."""
    name = next((each for each in DISTRIBUTIONS if each in versions), None)
    if name is None:
        return None  # the import says that it is missing
    version, oldest, newest = versions[name], min(TEXT, key=_numbers), max(TEXT, key=_numbers)
    minor = _minor(version)
    if minor not in TEXT:
        above = f"{newest.partition('.')[0]}.{_numbers(newest)[1] + 1}"
        reason = f"TensorFlow {version} is installed; bert_tf requires TensorFlow {oldest} to {newest}"
        return Misfit(name, reason, f"{name}>={oldest},<{above}")
    text = versions.get("tensorflow-text")
    if text is not None and _minor(text) != minor:
        reason = f"tensorflow-text {text} does not match TensorFlow {version}; it must have the same minor version"
        return Misfit("tensorflow-text", reason, TEXT[minor])
    if text in _BROKEN_TEXT:
        return Misfit("tensorflow-text", f"tensorflow-text {text} cannot be imported", TEXT[minor])
    return None


def pip_install(*requirements: str) -> str:
    """Returns the command that installs requirements into the environment of this process."""
    return " ".join([sys.executable, "-m pip install", *(f"'{each}'" for each in requirements)])


def lacks(instructions: str, sets: Collection[str]) -> bool:
    """Returns whether an x86 CPU lacks an instruction set; False if the system does not report them."""
    return platform.machine() in ("x86_64", "AMD64") and bool(sets) and instructions not in sets


def check():
    """Raises ValueError, with instructions, if TensorFlow, tensorflow-text or the CPU is incompatible."""
    from bert_tf.utils import resources

    if misfit := find_misfit(_installed()):
        raise ValueError(f"{misfit.reason}. Run {pip_install(misfit.requirement)}")
    if lacks("avx", resources.instruction_sets()):
        raise ValueError(
            f"The CPU, {resources.name()}, has no AVX, which TensorFlow's packages require. Use another machine."
        )


def _installed():
    """Returns {package: version} of TensorFlow, under any name, and tensorflow-text."""
    from importlib import metadata  # here, because it imports much that `--help` does not need

    found = {}
    for name in (*DISTRIBUTIONS, "tensorflow-text"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _minor(version):
    return ".".join(map(str, _numbers(version)[:2]))


def _numbers(version):
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
