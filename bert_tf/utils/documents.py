"""Text to documents: cleaning, blocks, sentences; imports no TensorFlow."""

import collections
import dataclasses
import itertools
import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

from bert_tf.utils import text_files
from bert_tf.utils.settings import option
from bert_tf.utils.text_files import MAX_LINE_BYTES

# === Batches of strings ===
# Lists of strings in chunks of similar size, so that arrays stay in the CPU cache.


CHARACTERS = 1 << 18  # per chunk, for splitting or tokenizing strings in the graph


def split_by_characters(strings: list[str], characters: int = CHARACTERS) -> list[list[str]]:
    """Splits a list, in order, into chunks of about this many characters; none is empty unless the list is."""
    ends = [end // characters for end in itertools.accumulate(map(len, strings))]
    cuts = [0, *(i for i in range(1, len(ends)) if ends[i] != ends[i - 1]), len(strings)]
    return [strings[a:b] for a, b in itertools.pairwise(cuts)]


# === Cleaning ===
# Junk lines, which teach a language model nothing: tables, rulers, page numbers, encoded data.


_LONG_RUN = re.compile(r"[!-~]{101}")


def is_junk(sentence: str) -> bool:
    """Returns whether fewer than half of the characters are letters, or 100 ASCII ones follow without a space.

        * * * * * * * *      1,024   98.6   0.31      . . . . . 47      QmFzZTY0IGRhdGEgaXMgbm90IGxhbmd1YWdl...
        12 letters at 12:47, said he                kept: 16 of 23

    White space does not count, marks as letters (half of written Hindi is marks). The longest words of any
    language have fewer than 100 letters, but Chinese or Thai writes whole sentences without a space: hence ASCII.
    """
    letters = len(sentence.translate(_LETTERS))
    if 2 * letters < len(sentence) and 2 * letters < len("".join(sentence.split())):
        return True
    return _LONG_RUN.search(sentence) is not None


class _Letters(dict):
    """A table for `str.translate` that keeps letters and marks: filled with the characters as they come."""

    def __missing__(self, code):
        self[code] = code if unicodedata.category(chr(code))[0] in "LM" else None
        return self[code]


_LETTERS = _Letters()


# === Blocks ===
# A corpus in blocks of about a megabyte, the unit of work of a worker, which bounds memory.


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
        options: `TextOptions`; only `document_start` is used here.
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
    """Returns how many of the lines the block takes; the last document begins at line `start` (0: none does)."""
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
    """As `not str.strip()`, for which there is white space beyond ASCII too, but mostly without decoding."""
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


# === Documents ===
# Blocks of text to documents: lists of sentences.


_BLANK_LINES = re.compile(r"\n\s*\n")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*")


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """Rules for splitting text into documents and sentences.

    `document_start` is searched in each line of prose without surrounding white space. For a `language` that
    sentencex does not support, sentences end as in English.

    Raises:
        ValueError: `document_start` or `language` is invalid.
    """

    GROUP: ClassVar[str] = "Data"

    text_column: str = option("text", "Key of the text in the objects of .jsonl files.", essential=True)
    document_start: str | None = option(
        None,
        "Regular expression for lines of prose that start a document. Default: each file is one document.",
    )
    language: str = option("en", "Language of prose, as an ISO 639 code; decides where sentences end.")
    drop_junk_lines: bool = option(False, "Skip lines that are hardly language: tables, addresses, markup.")

    def __post_init__(self):
        if not _LANGUAGE.fullmatch(self.language):
            raise ValueError(f"language must be an ISO 639 code such as en or pt-br. Received {self.language!r}.")
        try:
            re.compile(self.document_start or "")
        except re.error as error:
            raise ValueError(
                f"document_start must be a regular expression. Received {self.document_start!r}: {error}."
            ) from error

    @cached_property
    def starts(self) -> re.Pattern | None:
        """document_start, compiled."""
        return None if self.document_start is None else re.compile(self.document_start)


@dataclasses.dataclass
class Document:
    """A document, or its portion in one block.

    Attributes:
        file: index of its file.
        line: line where the whole document begins, from 1; together with `file`, its identity.
        first_line: line where this portion begins; equal to `line` for the first one.
        sentences: at least one, none of them empty.
    """

    file: int
    line: int
    first_line: int
    sentences: list[str]


def read_documents(block: Block, options: TextOptions, counts: collections.Counter) -> list[Document]:
    """Returns the documents of `block` that contain sentences, in order.

        "sentences"               "prose"                     "jsonl"
        One sentence per line.    Lines that continue         {"id": 7, "text": "One. Two."}
        Another.                  as one paragraph. More.     {"id": 8, "text": "Three.\\n\\nFour."}

        A new document.           The same document.
        2 documents: 2, 1         1 document: 3 sentences     2 documents: 2, 2

    Args:
        counts: is updated: "documents" (those that begin in this block), "sentences", "invalid_bytes" (not UTF-8,
            dropped), "junk_lines" (dropped).

    Raises:
        ValueError: a line of JSONL is not an object with a text; names file and line.
    """
    documents = []
    for line, first_line, texts in _PARTS[block.format](block, _decode(block.data, counts), options):
        if options.drop_junk_lines:
            texts = _without_junk(texts, counts)
        if texts:
            documents.append(Document(block.file, line, first_line, texts))
    counts["documents"] += sum(document.line == document.first_line for document in documents)
    counts["sentences"] += sum(len(document.sentences) for document in documents)
    return documents


def _decode(data, counts):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "ignore")
        counts["invalid_bytes"] += len(data) - len(text.encode("utf-8"))
        return text


def _without_junk(texts, counts):
    rest = [sentence for sentence in texts if not is_junk(sentence)]
    counts["junk_lines"] += len(texts) - len(rest)
    return rest


def _sentence_parts(block, text, options):
    """Yields (line, first_line, sentences) of each part of a document, as the two functions below do."""
    line, first_line, texts, ended = block.document, block.line, [], False
    for number, sentence in enumerate(text.split("\n"), block.line):
        if sentence := sentence.strip():
            if ended:
                line, first_line, ended = number, number, False
            texts.append(sentence)
        elif not ended:
            yield line, first_line, texts
            texts, ended = [], True
    yield line, first_line, texts


def _prose_parts(block, text, options):
    line, first_line, lines = block.document, block.line, [text]
    if options.starts is not None:
        lines = []
        for number, content in enumerate(text.split("\n"), block.line):
            if options.starts.search(content.strip()):
                yield line, first_line, _split("\n".join(lines), options)
                line, first_line, lines = number, number, []
            lines.append(content)
    yield line, first_line, _split("\n".join(lines), options)


def _jsonl_parts(block, text, options):
    for number, content in enumerate(text.split("\n"), block.line):
        if content.strip():
            yield number, number, _split(_field(content, f"{block.path}:{number}", options.text_column), options)


def _split(text, options):
    return text_files.split_sentences(_BLANK_LINES.split(text), options.language)


def _field(content, where, column):
    """Returns the text in the field `column` of the JSON object `content`; `where` it came from is for messages."""
    try:
        row = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{where} must be one complete JSON object per line. Received {content[:40]!r}: "
            f"{getattr(error, 'msg', error)}."
        ) from error
    if not isinstance(row, dict):
        raise ValueError(f"{where} must be a JSON object. Received {type(row).__name__} {content[:40]!r}.")
    if column not in row:
        raise ValueError(
            f"{where} lacks the field {column!r}. It has {', '.join(map(repr, row)) or '(none)'}; set `text_column` to "
            "the field that holds the text."
        )
    if not isinstance(row[column], str):
        raise ValueError(f"{where} must have a string in the field {column!r}. Received {type(row[column]).__name__}.")
    return row[column].encode("utf-8", "ignore").decode("utf-8")  # JSON can write half of a surrogate pair


_PARTS = {"sentences": _sentence_parts, "prose": _prose_parts, "jsonl": _jsonl_parts}
