"""Files of a corpus: finds them, checks that they are readable text, opens them and detects their format."""

import codecs
import collections
import contextlib
import glob
import gzip
import io
import json
import os
import re
import zlib
from typing import BinaryIO

import pyarrow as pa
from absl import logging

from bert_tf.utils.counts import number_of
from bert_tf.utils.files import files_below
from bert_tf.utils.sentence_splitting import split_sentences

MAX_LINE_BYTES = 8 << 20

_HEAD_BYTES = 1 << 16
_BUFFER_BYTES = 1 << 17
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # that of UTF-32 begins like one of them
_PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
_UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException)
_SENTENCE_END = re.compile(r"""[.!?…:;。！？।؟۔](?:\s?["'”’»›)\]}」』])*$""")


def find_text_files(patterns: list[str]) -> list[str]:
    """Returns the files that match `patterns`, each once, in the order of the patterns, sorted within each.

    A pattern is a file, a glob (`**` is any depth) or a directory: all files below it except hidden ones. Every file is
    opened, so that an unreadable one among a thousand is found now rather than after hours.

    Raises:
        ValueError: a pattern matches nothing; or files cannot be read, or are not UTF-8 text: the first three by name.
    """
    first_paths = {}
    for pattern in patterns:
        for path in _matches(pattern):
            first_paths.setdefault(os.path.realpath(path), path)
    paths = list(first_paths.values())
    _check(paths)
    return paths


def open_lines(path: str) -> BinaryIO:
    """Opens `path` for reading bytes, decompressed if its name ends in .gz or .zst, without a byte-order mark.

    A compressed file may consist of several concatenated ones. The caller wraps opening and reading in `naming`.
    """
    file = _open_unpacked(path)
    try:
        if file.peek(3)[:3] == codecs.BOM_UTF8:
            file.read(3)
    except BaseException:
        file.close()
        raise
    return file


@contextlib.contextmanager
def naming(path: str):
    """Makes every failure to read `path` inside the block a ValueError that names the file."""
    try:
        yield
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} cannot be read to its end: {_reason(error)}. "
            "Make it readable, or copy or compress it again."
        ) from error


def guess_format(path: str, language: str = "en") -> str:
    """Guesses which of TEXT_FORMATS a file has, from its first 64 KiB.

    "jsonl" by extension or if the first line is a JSON object; "sentences" where at least 70% of the lines
    are one sentence (by the rules of `language`) and end like one; otherwise "prose".

    Raises:
        ValueError: the file cannot be read.
    """
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return "jsonl"
    with naming(path), open_lines(path) as file:
        head = file.read(_HEAD_BYTES)
        first, *more = head.lstrip().split(b"\n", 1)
        if first.startswith(b"{") and _is_object(first if more else first + file.readline(MAX_LINE_BYTES)):
            return "jsonl"
    return "sentences" if _has_sentence_lines(head, language) else "prose"


def formats_of(paths: list[str], given: str | None, language: str = "en") -> list[str]:
    """Returns the format of each file: `given`, or that of `guess_format`, which is logged.

    Raises:
        ValueError: a file cannot be read.
    """
    if given:
        return [given] * len(paths)
    formats = [guess_format(path, language) for path in paths]
    guessed = [f"{name}: {number_of(number, 'file')}" for name, number in collections.Counter(formats).items()]
    logging.info("Detected input format: %s. Set `input_format` to override it.", ", ".join(guessed))
    return formats


def _open_unpacked(path):
    if path.lower().endswith(".gz"):
        return io.BufferedReader(gzip.open(path), _BUFFER_BYTES)
    file = open(path, "rb", _BUFFER_BYTES)  # noqa: SIM115 (the caller closes it)
    if path.lower().endswith(".zst"):
        return io.BufferedReader(pa.CompressedInputStream(file, "zstd"), _BUFFER_BYTES)
    return file


def _matches(pattern):
    matches = [pattern] if os.path.lexists(pattern) else glob.glob(pattern, recursive=True)
    paths = {path for match in matches for path in (files_below(match) if os.path.isdir(match) else [match])}
    if not paths:
        empty = os.path.isdir(pattern)
        why = "a directory without files; add text to it" if empty else "which matches no file; check its spelling"
        raise ValueError(f"Input must be files, directories or glob patterns; got {pattern!r}, {why}.")
    return sorted(paths)


def _check(paths):
    broken = [f"{path} ({fault})" for path in paths if (fault := _fault(path))]
    if broken:
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        raise ValueError(
            f"Input files must be readable UTF-8 text. {len(broken)} of {len(paths)} are not: "
            f"{', '.join(broken[:3])}{more}. Repair or omit them."
        )


def _fault(path):
    """Returns the problem with the beginning of a file, or None."""
    if os.path.exists(path) and not os.path.isfile(path):
        return "not a regular file: it is read more than once"
    try:
        with open_lines(path) as file:
            head = file.read(_HEAD_BYTES)
    except _UNREADABLE as error:
        return _reason(error)
    for magic, ending in _PACKED.items():
        if head.startswith(magic):
            return f"compressed: append {ending} to its name"
    if head.startswith(_UTF16_MARKS):
        return "UTF-16: convert it with iconv -f UTF-16 -t UTF-8"
    if b"\0" in head:
        return "binary: it contains NUL bytes"
    wrong = len(head) - len(head.decode("utf-8", "ignore").encode())
    if 10 * wrong > len(head):
        return f"binary or another encoding: {100 * wrong // len(head)}% of it is not UTF-8; see iconv --list"
    return None


def _reason(error):
    return getattr(error, "strerror", None) or str(error)


def _is_object(line):
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _has_sentence_lines(head, language):
    lines = head.decode("utf-8", "ignore").split("\n")
    if len(head) == _HEAD_BYTES and len(lines) > 1:
        lines.pop()  # cut off
    lines = [line.strip() for line in lines if line.strip()]
    good = [_SENTENCE_END.search(line) and len(split_sentences([line], language)) == 1 for line in lines]
    return 10 * sum(map(bool, good)) >= 7 * len(lines) > 0
