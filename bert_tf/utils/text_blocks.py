"""Blocks of a corpus of about a megabyte, the unit of work of a worker, which bounds memory; imports no TensorFlow."""

import dataclasses
from collections.abc import Iterator

from bert_tf.utils import text_files
from bert_tf.utils.text_files import MAX_LINE_BYTES

_ASCII_SPACE = bytes(code for code in range(128) if chr(code).isspace())


@dataclasses.dataclass(frozen=True)
class Block:
    """Consecutive lines of one file.

        line   1  A.              document  1         blocks of two lines: the second one continues the document
               2  B.                                  that began at line 1
               3  C.              document  1
               4
               5  D.              document  5

    Attributes:
        file: index of the file among the paths.
        path: its name, for messages.
        format: one of `names.TEXT_FORMATS`.
        line: number of the first line of the block, from 1.
        document: line number where the document of the first line began; equal to `line` if that line begins a new
            document.
        data: the lines, as in the file.
    """

    file: int
    path: str
    format: str
    line: int
    document: int
    data: bytes


def read_blocks(paths, formats, options, block_bytes: int = 1 << 20) -> Iterator[Block]:
    """Yields the files of `paths` in blocks of at most `block_bytes`, or of one line if that is longer.

    A block ends at the end of a document, otherwise (in prose) of a paragraph, if there is one in its second half, and
    otherwise at any line. The blocks depend on the files only.

    Args:
        paths: list of str, as of `find_text_files`.
        formats: the format of each, in `names.TEXT_FORMATS`.
        options: `TextOptions`; only `document_start` is used.
        block_bytes: at most 8 MiB.

    Raises:
        ValueError: a file cannot be read to its end, or a line is longer than 8 MiB.
    """
    assert 0 < block_bytes <= MAX_LINE_BYTES, block_bytes
    for number, (path, format) in enumerate(zip(paths, formats, strict=True)):
        with text_files.naming(path), text_files.open_lines(path) as file:
            for line, document, data in _blocks(_Lines(file, path, block_bytes), format, options):
                yield Block(number, path, format, line, document, data)


def _blocks(reader, format, options):
    """Yields the (line, document, data) of each block of a file."""
    begins = _beginning(format, options)
    line = document = 1
    while data := reader.peek(line):
        lines = data.removesuffix(b"\n").split(b"\n")
        if begins and begins(lines, 0):
            document = line
        start = _last(begins, lines, 1) if begins else 0
        count = len(lines) if reader.is_last(data) else _count(lines, data, start, format)
        data = reader.take(len(data) if count == len(lines) else sum(map(len, lines[:count])) + count)
        yield line, document, data
        line, document = line + count, line + start if start else document


def _count(lines, data, start, format):
    """Returns how many of the lines the block takes; the last document begins at line `start` (if 0, none does)."""
    half = data.count(b"\n", 0, len(data) // 2) + 1
    if start >= half:
        return start
    return (format == "prose" and _last(_follows_blank, lines, half)) or len(lines)


def _last(begins, lines, first):
    """Returns the last i from `first` to len(lines), the line that is not yet read, where begins(lines, i); else 0."""
    return next((i for i in range(len(lines), first - 1, -1) if begins(lines, i)), 0)


def _beginning(format, options):
    """Returns a function that tells if a document begins at line i of `lines`, or None if none ever does."""
    if format == "sentences":
        return _follows_blank
    if format == "jsonl":
        return lambda lines, i: True
    if options.starts is None:
        return None
    return lambda lines, i: i < len(lines) and bool(options.starts.search(lines[i].decode("utf-8", "ignore").strip()))


def _follows_blank(lines, i):
    return i > 0 and _is_blank(lines[i - 1])


def _is_blank(line):
    """As `not str.strip()`, for which there is whitespace beyond ASCII too, but mostly without decoding."""
    return not line.strip(_ASCII_SPACE) or (not line.isascii() and not line.decode("utf-8", "ignore").strip())


class _Lines:
    """The next lines of a file, which can be peeked at and then partly consumed."""

    def __init__(self, file, path, limit):
        self._file, self._path, self._limit = file, path, limit
        self._data, self._ended = b"", False

    def peek(self, line):
        """Returns whole lines, `limit` bytes in all or one that is longer; b"" at the end. `line` is their number."""
        while not self._ended and (len(self._data) < self._limit or not self._end(line)):
            wanted = max(self._limit - len(self._data), 0) or len(self._data)
            chunk = self._file.read(wanted)
            self._ended = len(chunk) < wanted
            self._data += chunk
        return self._data[: self._end(line)]

    def take(self, count):
        """Returns the first `count` bytes and forgets them."""
        head, self._data = self._data[:count], self._data[count:]
        return head

    def is_last(self, data):
        """Returns whether nothing comes after `data`, as of peek."""
        return self._ended and len(data) == len(self._data)

    def _end(self, line):
        """Returns where the last whole line that is to be seen ends; 0 where more must be read to know."""
        data, limit = self._data, self._limit
        if self._ended and len(data) <= limit:
            return len(data)
        end = data.rfind(b"\n", 0, limit) + 1 or data.find(b"\n", limit) + 1 or self._ended * len(data)
        if (end or len(data)) > MAX_LINE_BYTES:
            raise ValueError(
                f"{self._path}:{line}: a line must have at most {MAX_LINE_BYTES >> 20} MiB, but this one is longer. "
                "Break it into lines, or omit the file if it is not text."
            )
        return end
