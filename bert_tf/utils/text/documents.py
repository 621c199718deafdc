"""Blocks of text to documents: lists of sentences."""

import collections
import dataclasses
import json
import re
from functools import cached_property

from bert_tf.utils.text import cleaning, sentences
from bert_tf.utils.text.blocks import Block

_BLANK_LINES = re.compile(r"\n\s*\n")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*")


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """How text becomes documents.

    Attributes:
        text_column: the field of a JSON object that holds its text.
        document_start: a regular expression, searched in each line of prose without the white space around it: where
            it is found a new document begins, with this line. None: each file is one document.
        language: ISO 639 code, for the sentence splitter; English for one that sentencex does not know.
        drop_junk_lines: leaves out the sentences of which cleaning.is_junk is true.

    Raises:
        ValueError: `document_start` or `language` cannot be one.
    """

    text_column: str = "text"
    document_start: str | None = None
    language: str = "en"
    drop_junk_lines: bool = False

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
    """A document, or the part of it that is in one block.

    Attributes:
        file: the number of its file.
        line: the line where the whole document begins, from 1: with `file` its identity.
        first_line: the line where this part begins; `line` for the first part.
        sentences: one at least, none of them empty.
    """

    file: int
    line: int
    first_line: int
    sentences: list[str]


def read_documents(block: Block, options: TextOptions, counts: collections.Counter) -> list[Document]:
    """Returns the documents of `block` that have sentences, in order.

        "sentences"               "prose"                     "jsonl"
        A sentence a line.        Lines that go on            {"id": 7, "text": "One. Two."}
        Another.                  as one paragraph. More.     {"id": 8, "text": "Three.\\n\\nFour."}

        A new document.           The same document.
        2 documents: 2, 1         1 document: 3 sentences     2 documents: 2, 2

    Args:
        counts: is added to: "documents" (those that begin in this block), "sentences", "invalid_bytes" (not UTF-8 and
            dropped), "junk_lines" (dropped).

    Raises:
        ValueError: a line of JSONL is no object with a text; names file and line.
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
    rest = [sentence for sentence in texts if not cleaning.is_junk(sentence)]
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
    return sentences.split(_BLANK_LINES.split(text), options.language)


def _field(content, where, column):
    """Returns the text in the field `column` of the JSON object `content`; `where` it came from is for messages."""
    try:
        row = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{where} must be a JSON object, whole and alone on its line. Received {content[:40]!r}: "
            f"{getattr(error, 'msg', error)}."
        ) from error
    if not isinstance(row, dict):
        raise ValueError(f"{where} must be a JSON object. Received {type(row).__name__} {content[:40]!r}.")
    if column not in row:
        raise ValueError(
            f"{where} must have the field {column!r}. Received the fields {', '.join(map(repr, row)) or '(none)'}; "
            "name the one that holds the text with `text_column`."
        )
    if not isinstance(row[column], str):
        raise ValueError(f"{where} must have text in the field {column!r}. Received {type(row[column]).__name__}.")
    return row[column].encode("utf-8", "ignore").decode("utf-8")  # JSON can write half of a surrogate pair


_PARTS = {"sentences": _sentence_parts, "prose": _prose_parts, "jsonl": _jsonl_parts}
