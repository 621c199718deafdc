"""Documents of a text, as lists of sentences; imports no TensorFlow."""

import collections
import dataclasses
import json
import re

from bert_tf.utils import sentence_splitting
from bert_tf.utils.junk_lines import is_junk
from bert_tf.utils.text_blocks import Block
from bert_tf.utils.text_options import TextOptions

_BLANK_LINES = re.compile(r"\n\s*\n")
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
    return sentence_splitting.split_sentences(_BLANK_LINES.split(text), options.language)


def _field(content, where, column):
    """Returns the text in the field `column` of the JSON object `content`; `where` it came from is for messages."""
    try:
        row = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{where} must be one complete JSON object per line; got {content[:40]!r}: "
            f"{getattr(error, 'msg', error)}."
        ) from error
    if not isinstance(row, dict):
        raise ValueError(f"{where} must be a JSON object; got {type(row).__name__} {content[:40]!r}.")
    if column not in row:
        raise ValueError(
            f"{where} lacks the field {column!r}. It has {', '.join(map(repr, row)) or '(none)'}; set `text_column` to "
            "the field that contains the text."
        )
    if not isinstance(row[column], str):
        raise ValueError(f"{where} must have a string in the field {column!r}; got {type(row[column]).__name__}.")
    return row[column].encode("utf-8", "ignore").decode("utf-8")  # JSON can write half of a surrogate pair


_PARTS = {"sentences": _sentence_parts, "prose": _prose_parts, "jsonl": _jsonl_parts}
