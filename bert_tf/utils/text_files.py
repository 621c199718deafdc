"""Reads text files, including compressed ones, and splits text into sentences."""

import codecs
import collections
import contextlib
import glob
import gzip
import io
import itertools
import json
import os
import re
import zlib
from typing import BinaryIO

import pyarrow as pa
import sentencex
from absl import logging

from bert_tf.utils.files import files_below
from bert_tf.utils.names import number_of

# === Sentences ===
# Splits running text into sentences with the library sentencex (Wikimedia).


_QUOTES = "\"'`“”„‟‘’‚‛«»‹›「」『』《》"
_OPENING = frozenset(_QUOTES + "([{")
# Direct speech that ends like a sentence although the sentence continues: "Why?" he asked.
_SPEECH = re.compile(rf"[.!?…][{_QUOTES}]+(?= [a-zß-öø-ÿ])")
# The same marks inside a word are apostrophes; "don’t" cut in two would end in "t.", which passes for an abbreviation.
_NOT_APOSTROPHES = re.compile(r"['’](?:(?!\w)|(?<!\w.))")
_BLANKED = [mark for mark in _QUOTES if mark not in "'’"] + ["<"]


def split_sentences(paragraphs: list[str], language: str = "en") -> list[str]:
    """Returns the sentences of `paragraphs`, in order, each run of white space in them as one space; none is empty.

        ['“Go. Now!” he said.  It', 'Mr. Ray left.']
        ['“Go.', 'Now!” he said.', 'It', 'Mr. Ray left.']

    `language` is an ISO 639 code: sentencex knows the full stops and abbreviations of some 30 languages, takes a
    related one for 200 more, and English for any other code.
    """
    text = "\n".join([" ".join(paragraph.split()) for paragraph in paragraphs])
    blind = _without_quotes(text)  # all at once, but cut one by one: from 10 kB on, sentencex loses paragraph breaks
    pairs = zip(text.split("\n"), blind.split("\n"), strict=True)
    return [sentence for whole, seen in pairs for sentence in _cut(whole, sentencex.segment(language, seen))]


def _cut(paragraph, parts):
    """Returns `paragraph` cut into strings as long as `parts`, stripped, without empty ones."""
    if len(parts) < 2:
        return [paragraph] if paragraph else []
    ends = [_before_opening(paragraph, end) for end in itertools.accumulate(map(len, parts))]
    assert ends[-1] == len(paragraph), "sentencex returned another text"
    sentences = [paragraph[start:end].strip() for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return [sentence for sentence in sentences if sentence]


def _without_quotes(text):
    """Returns `text` as sentencex shall see it, of the same length, so that its cuts are good for `text`.

        “Go. Now!” he said. It         p < 0.05. Then
         Go. Now   he said. It         p   0.05. Then

    sentencex cuts nowhere between two quotation marks or brackets. One mark that is not closed, and in dialogue one is
    (each paragraph of a long speech opens again), makes a sentence of a page. "<" is rarely a bracket: it goes too.
    """
    text = _SPEECH.sub(lambda match: " " * len(match[0]), text)
    for mark in _BLANKED:
        text = text.replace(mark, " ")
    text = text.replace("@.@", "   ")  # WikiText writes 4.5 as 4 @.@ 5
    return _NOT_APOSTROPHES.sub(" ", text)


def _before_opening(paragraph, end):
    """Returns where the sentence that was cut at `end` ends: marks that open the next one belong to that one.

    He left. “Go!”      He left. “Go!”
              ^                  ^         the blank in place of “ was taken for a space between the two
    """
    start = end
    while start and paragraph[start - 1] in _OPENING:
        start -= 1
    return start if start < end < len(paragraph) and paragraph[start - 1 : start] == " " else end


# === Files ===
# The files of a corpus: finds them, checks that they are readable text, opens them and detects their format.


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

    "jsonl" by extension or if the first line is a JSON object; "sentences" where at least 70 % of the lines
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
        why = "a directory without files; put text there" if empty else "which matches no file; check its spelling"
        raise ValueError(f"Input must be files, directories or glob patterns. Received {pattern!r}, {why}.")
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
        return f"binary or another encoding: {100 * wrong // len(head)} % of it is not UTF-8; see iconv --list"
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
