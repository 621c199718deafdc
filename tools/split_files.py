"""Splits files into parts of limited size, for a machine that takes its files in small parcels: a folder of parts.

    .venv/bin/python tools/split_files.py --output_dir=parts --part_mib=64 wheels README.md
    make parts                              # the checkout with everything that it installs

The folder gets part-000, part-001, ..., a manifest with the SHA-256 of each, and join_files.py, which checks the parts
and writes the files again, with their paths as given here; it needs nothing but Python.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator

JOIN = pathlib.Path(__file__).with_name("join_files.py")
_MIB = 2**20
_CHUNK = _MIB


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="files and folders, relative to the current one")
    parser.add_argument("--output_dir", required=True, help="a folder for the parts; what it has of older ones goes")
    parser.add_argument("--part_mib", type=float, default=64, help="largest size of a part, in MiB; default: 64")
    options = parser.parse_args()
    if not 0 < options.part_mib < float("inf"):
        parser.error(f"--part_mib must be a number above 0; got {options.part_mib:g}.")
    for path in options.paths:
        if not os.path.exists(path):
            parser.error(f"A path must be a file or a folder; got {path}, which does not exist.")
        if os.path.isabs(path) or ".." in pathlib.PurePath(path).parts:
            parser.error(f"A path must be below the current folder; got {path}. Run this from the folder above it.")
    folder = pathlib.Path(options.output_dir)
    manifest = split_files(find_files(options.paths, folder), folder, int(options.part_mib * _MIB))
    size = sum(size for size, _ in manifest["files"].values())
    print(f"{len(manifest['files']):,} files, {size / _MIB:,.0f} MiB, in {len(manifest['parts'])} parts in {folder}.")
    print(f"Copy the folder, and run there: python3 {folder.name}/{JOIN.name} FOLDER")


def find_files(paths: Iterable[str], excluded: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of paths, in order and without doubles; those in the folder `excluded` are left out."""
    found = {}
    for path in map(pathlib.Path, paths):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and excluded.resolve() not in file.resolve().parents:
                found[file] = None
    return list(found)


def split_files(files: list[pathlib.Path], folder: pathlib.Path, part_bytes: int) -> dict:
    """Writes the parts of files, join_files.py and the manifest into a folder; returns the manifest.

    Returns:
        `files`: {path: (size, whether it can be run)} in the order of their bytes in the parts.
        `parts`: {name: SHA-256}.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("part-*"):
        path.unlink()
    shutil.copy(JOIN, folder)
    manifest = {"files": {path.as_posix(): (path.stat().st_size, os.access(path, os.X_OK)) for path in files}}
    manifest["parts"] = dict(_write_parts(_chunks(files), folder, part_bytes))
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def _chunks(files) -> Iterator[bytes]:
    for path in files:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk


def _write_parts(chunks, folder, part_bytes) -> Iterator[tuple[str, str]]:
    """Writes bytes into parts; yields the name and the SHA-256 of each."""
    number, rest = 0, next(chunks, b"")
    while rest:
        name, digest, left = f"part-{number:03d}", hashlib.sha256(), part_bytes
        with open(folder / name, "wb") as part:
            while rest and left:
                taken, rest = rest[:left], rest[left:]
                part.write(taken)
                digest.update(taken)
                left -= len(taken)
                rest = rest or next(chunks, b"")
        yield name, digest.hexdigest()
        number += 1


if __name__ == "__main__":
    main()
