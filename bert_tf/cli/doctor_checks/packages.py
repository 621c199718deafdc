"""Which packages are there, and which do not fit together: by what they say of themselves, without an import."""

import importlib
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata

from bert_tf.cli.doctor_checks.findings import FAULT, OK, Finding

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


def examine(
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
