"""Builds the source archive and the wheel of a release in dist/, and checks what they hold.

    .venv/bin/python -m tools.dist      # `make dist`

`python -m build` makes the source archive from a copy of the files that belong in it, and the wheel from the source
archive. `twine check` reads their metadata as a package index does. dist/ is replaced once all is as it must be.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable

import bert_tf

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
BESIDE = ("LICENSE", "README.md", "pyproject.toml")  # what the source archive needs besides the package
_NOT_SHIPPED = ("BUILD", "__pycache__")
_WHEEL_INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt")
_SOURCE_INFO = (  # of setuptools: the metadata, and how it made them
    "PKG-INFO", "setup.cfg", *(f"bert_tf.egg-info/{name}" for name in (
        "PKG-INFO", "SOURCES.txt", "dependency_links.txt", "entry_points.txt", "requires.txt", "top_level.txt"
    )),
)  # fmt: skip


def package_files(root: pathlib.Path) -> set[str]:
    """Returns the files of bert_tf that are shipped, as paths from `root`: all but Bazel's and compiled ones."""
    files = (path.relative_to(root) for path in (root / "bert_tf").rglob("*") if path.is_file())
    return {path.as_posix() for path in files if not set(_NOT_SHIPPED) & set(path.parts)}


def files_in(archive: pathlib.Path) -> set[str]:
    """Returns the files in a wheel or a source archive, whose first folder, NAME-VERSION, is left out."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return {name for name in opened.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as opened:
        return {name.partition("/")[2] for name in (each.name for each in opened.getmembers() if each.isfile())}


def expected(archive: pathlib.Path, root: pathlib.Path) -> set[str]:
    """Returns the files that a wheel or a source archive of the checkout `root` must have; it must have no other."""
    if archive.suffix == ".whl":
        info = "-".join(archive.name.split("-")[:2]) + ".dist-info"
        return package_files(root) | {f"{info}/{name}" for name in _WHEEL_INFO}
    return package_files(root) | {*BESIDE, *_SOURCE_INFO}


def check(archives: Iterable[pathlib.Path], root: pathlib.Path = ROOT):
    """Raises ValueError if an archive lacks a file, or has one too many."""
    for archive in archives:
        there, must = files_in(archive), expected(archive, root)
        if there != must:
            raise ValueError(
                f"{archive.name} must have exactly the files of the package and its metadata. Missing: "
                f"{sorted(must - there) or 'none'}; not expected: {sorted(there - must) or 'none'}. "
                "See [tool.setuptools] in pyproject.toml."
            )


def copy_source(into: pathlib.Path):
    """Copies what is shipped, and what its metadata is made of, to a new folder: builds leave no traces here."""
    shutil.copytree(ROOT / "bert_tf", into / "bert_tf", ignore=shutil.ignore_patterns(*_NOT_SHIPPED))
    for name in BESIDE:
        shutil.copy(ROOT / name, into)


def build(source: pathlib.Path, into: pathlib.Path) -> list[pathlib.Path]:
    """Copies what is shipped to `source`, and builds both archives `into` a folder; returns their paths."""
    copy_source(source)
    _run("build", "--no-isolation", f"--outdir={into}", source)  # the lock has setuptools
    return sorted(into.iterdir())


def _run(*words):
    subprocess.run([sys.executable, "-m", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def main():
    """Builds, checks and replaces dist/."""
    with tempfile.TemporaryDirectory(prefix=".dist-", dir=DIST.parent) as aside:
        archives = build(pathlib.Path(aside, "source"), pathlib.Path(aside, "dist"))
        check(archives)
        _run("twine", "check", "--strict", *archives)
        shutil.rmtree(DIST, ignore_errors=True)
        os.replace(archives[0].parent, DIST)
    print(f"bert_tf {bert_tf.__version__} in {DIST}:")
    for path in sorted(DIST.iterdir()):
        print(f"  {path.name}, {path.stat().st_size / 1e6:.2f} MB, {len(files_in(path))} files")


if __name__ == "__main__":
    main()
