"""Checks the parts next to this file, and writes the files that they hold into a folder; needs nothing but Python.

    python3 parts/join_files.py FOLDER

split_files.py has made the parts, with their SHA-256 in manifest.json. Nothing is written if one is missing or damaged.
"""

import hashlib
import json
import pathlib
import sys

_CHUNK = 2**20


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    parts, folder = pathlib.Path(__file__).resolve().parent, pathlib.Path(sys.argv[1])
    manifest = json.loads((parts / "manifest.json").read_text(encoding="utf-8"))
    if damaged := find_damaged(parts, manifest["parts"]):
        sys.exit(f"Parts must be as they were made; got missing or damaged {', '.join(damaged)}. Copy these again.")
    write_files([parts / name for name in manifest["parts"]], manifest["files"], folder)
    print(f"{len(manifest['files']):,} files from {len(manifest['parts'])} parts are in {folder}.")


def find_damaged(folder: pathlib.Path, digests: dict) -> list:
    """Returns the names of the parts that are missing or have another SHA-256."""
    return [name for name, digest in digests.items() if _digest(folder / name) != digest]


def _digest(path):
    if not path.exists():
        return None
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def write_files(parts: list, files: dict, folder: pathlib.Path):
    """Writes the files, {path: (size, whether it can be run)}, whose bytes follow each other in the parts."""
    chunks, rest = _chunks(parts), b""
    for path, (size, can_run) in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with open(folder / path, "wb") as file:
            while size:
                rest = rest or next(chunks)
                taken, rest = rest[:size], rest[size:]
                file.write(taken)
                size -= len(taken)
        (folder / path).chmod(0o755 if can_run else 0o644)


def _chunks(parts):
    for path in parts:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk


if __name__ == "__main__":
    main()
