"""Reads sentences of tagged words from column files (CoNLL), .jsonl and .json, and writes column files."""

import dataclasses
import os
import re
from collections.abc import Iterable, Sequence

from absl import logging

from bert_tf.data.columns import NAME
from bert_tf.data.dialect import Dialect, extension_of
from bert_tf.data.list_cells import as_list
from bert_tf.data.row_errors import bare_returns, excerpt, line_position
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import read_rows
from bert_tf.data.tables import read_files, refuse_missing
from bert_tf.evaluation.entities import (
    SCHEMES,
    EntitySpan,
    find_scheme,
    find_wrong_tag,
    parse_entities,
    split_tag,
    tags_of,
)
from bert_tf.tasks.tagging.alignment import tag_words
from bert_tf.tasks.tagging.spans import has_spans, read_span_texts
from bert_tf.tokenization.word_boundaries import find_boundaries, word_spans
from bert_tf.utils import files
from bert_tf.utils.counts import number_of

_DOCUMENT = "-DOCSTART-"
_COMMENTS = ("#", "#begin", "#end")  # what a line that is a comment begins with
_CONLL_U, _NO_WORD = 10, re.compile(r"\d+[-.]\d+")  # columns; indexes of contractions, whose words follow, and of gaps
_INDEX = re.compile(r"\d+(?:[-.]\d+)?")
_CELL = re.compile("[^ \t]+")  # not str.split(): it also breaks at no-break spaces, which occur inside words
_BREAK = re.compile("[ \t\r\n]")
_SURROGATES = re.compile("[\ud800-\udfff]")  # half an emoji, as in "\\ud83d": legal JSON but no Unicode text


@dataclasses.dataclass
class TaggedExamples:
    """n sentences in the order of the file, as parallel lists.

    Attributes:
        ids: name of each sentence; "0", "1", ... if the file has none.
        words: words of each sentence; at least one.
        tags: tags of each sentence, in IOB2 whatever the file has, or unchanged if they do not mark entities. If None,
            they were not requested.
        scheme: the file's scheme, so that predictions can be written in it: "iob1", "iob2" or "bioes". None without
            tags, or if these do not mark entities.
        path: the file, or several as `files.find_files` takes them.
        lines: 1-based line of each sentence's first word; in .jsonl of the sentence; for several files, "file:line".
        texts: the texts that the words are from. If None, the file has words.
        entities: the entities of each text as the file has them: its characters `first` to `last`. If None, the file
            has tags, or none were requested.
        boundaries: where the words of a text end, one of `names.WORD_BOUNDARIES`.
    """

    ids: list[str]
    words: list[list[str]]
    tags: list[list[str]] | None
    scheme: str | None
    path: str
    lines: list[int] | list[str]
    texts: list[str] | None = None
    entities: list[list[EntitySpan]] | None = None
    boundaries: str = "whitespace"

    def __len__(self) -> int:
        return len(self.words)

    def where(self, index: int, word: int = 0) -> str:
        """Returns "file:line" of word `word` of sentence `index`, the beginning of error messages."""
        line = self.lines[index]
        if isinstance(line, int) and not _is_json(self.path):  # there is nothing between the words of a sentence
            line += word
        return line_position(self.path, line)

    def text_of(self, index: int) -> tuple[str, list[tuple[int, int]]]:
        """Returns the text of sentence `index` and the span of each word, like `text_of`."""
        if self.texts is None:
            return text_of(self.words[index])
        return self.texts[index], word_spans(self.texts[index], self.boundaries)


def read_columns(
    path: str | os.PathLike,
    text_column: int = 0,
    tag_column: int | None = -1,
    tag_scheme: str | None = "auto",
    encoding: str | None = None,
    boundaries: str | None = None,
) -> TaggedExamples:
    """Reads sentences of words and tags; the extension decides the format; .gz files are decompressed.

    .jsonl: one object per line for each sentence, with "tokens" and "tags", lists of texts of equal length; its ids are
    the values of "id" if every line has one. Columns have names in .jsonl, so their indexes do not matter. Or a text
    and its entities as character spans, also as a list in .json: see `tagging_spans.read_span_texts`.

    Any other name: CoNLL's columns. One word per line, spaces and tabs between the columns, blank lines between
    sentences; all lines have the same number of columns. Lines that begin with the column -DOCSTART- only separate
    sentences. A line "# ..." before a sentence is a comment if it cannot be a word; the log has their number. All other
    characters, a no-break space and U+2028 too, are text.

    Args:
        path: the file; several as `files.find_files` takes them.
        text_column: index of the words' column; a negative one counts from the end.
        tag_column: likewise of the tags'; None reads only words and ignores tags.
        tag_scheme: "iob1", "iob2" or "bioes", which the tags must follow. "auto" detects it like `find_scheme` of
            `bert_tf.evaluation.entities`. If tags do not follow the detected scheme, or a B- of "iob1" should be an I-,
            the entities are those that conlleval finds, and the log names the first such line. If None, tags do not
            mark entities and are unchanged, such as parts of speech.
        encoding: as in `files.read_text`.
        boundaries: where the words of texts end, one of `names.WORD_BOUNDARIES`. If None,
            at punctuation; of words, as `tagging_boundaries.find_boundaries` finds them.

    Raises:
        ValueError: the file cannot be read this way; the message names the file, the line, the problem and a fix.
    """
    _check_scheme(tag_scheme)
    return read_files(path, lambda path: _read_file(path, text_column, tag_column, tag_scheme, encoding, boundaries))


def _read_file(path, text_column, tag_column, tag_scheme, encoding, boundaries):
    with_tags = tag_column is not None
    if _is_json(path) and has_spans(path, encoding):
        if tag_scheme not in (None, "auto", "iob2"):
            raise ValueError(f"{path} has character spans, which have no `tag_scheme`. Remove it.")
        return _from_spans(path, with_tags, "iob2" if with_tags and tag_scheme else None, encoding, boundaries)
    if _is_json(path):
        examples = _read_jsonl(path, with_tags, encoding)
    else:
        examples = _read_column_file(path, text_column, tag_column, encoding)
    if not examples.words:
        raise ValueError(f"{path} contains no sentences. Check the path.")
    _check_words(examples)
    examples.boundaries = boundaries or find_boundaries(examples.words)
    if examples.tags is not None and tag_scheme is not None:
        unify_tags(examples, tag_scheme)
    return examples


def _from_spans(path, with_tags, scheme, encoding, boundaries):
    ids, lines, texts, entities = read_span_texts(path, with_tags, encoding)
    boundaries = boundaries or "punctuation"
    spans = [word_spans(text, boundaries) for text in texts]
    words = [[text[start:end] for start, end in own] for text, own in zip(texts, spans, strict=True)]
    tags = list(map(tag_words, spans, entities)) if with_tags else None
    return TaggedExamples(ids, words, tags, scheme, path, lines, texts, entities, boundaries)


def unify_tags(examples: TaggedExamples, tag_scheme: str):
    """Checks that all tags follow a scheme, and puts its name and the tags in IOB2 into the examples.

    Args:
        examples: the sentences, with tags as the file has them.
        tag_scheme: as in `read_columns`.

    Raises:
        ValueError: the scheme is unknown, or a tag is unknown or violates it.
    """
    _check_scheme(tag_scheme)
    _check_tags(examples, tag_scheme)
    scheme = find_scheme(examples.tags) if tag_scheme == "auto" else tag_scheme
    faults = [(i, fault) for i, tags in enumerate(examples.tags) if (fault := find_wrong_tag(tags, scheme))]
    if faults:
        i, fault = faults[0]
        at, problem = examples.where(i, fault.index), f"{examples.tags[i][fault.index]!r}, {fault.reason}"
        # An extra B- leaves no doubt what is meant in IOB1, and the training file of CoNLL-2003 has two
        if tag_scheme in ("iob2", "bioes"):
            raise _contradiction(at, scheme, problem)
        logging.warning("%s: sentences whose tags do not follow %s: %d, first %s.", at, scheme, len(faults), problem)
    examples.scheme = scheme
    examples.tags = [tags_of(parse_entities(tags), len(tags), "iob2") for tags in examples.tags]


def text_of(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Joins words with spaces; returns the text and the span of each word.

    Returns:
        The text, and (start, end) of each word: half-open, in code points of the text.
    """
    spans, start = [], 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), spans


def write_columns(path: str | os.PathLike, sentences: Iterable[Sequence[Sequence[str]]]):
    """Writes a column file for conlleval and `read_columns`, atomically.

    Args:
        path: the file to write.
        sentences: for each sentence, one line per word: the word and its tag, or several, such as (word, gold,
            predicted).

    Raises:
        ValueError: a sentence without lines, lines of unequal length, or a cell that is empty or contains a space, a
            tab or a line break, with which the file could not be read again. Nothing is written then.
        OSError: the file cannot be written.
    """
    path, width = os.fspath(path), None
    with files.atomic_open(path) as file:
        for i, lines in enumerate(sentences):
            if not lines:
                raise ValueError(f"{path}: sentence {i} has no lines. Remove it.")
            file.write("\n" if i else "")
            for cells in lines:
                width = width or len(cells)
                _check_cells(path, i, cells, width)
                file.write(" ".join(cells) + "\n")


def _is_json(path):
    return extension_of(path) in (".jsonl", ".json")


def _read_column_file(path, text_column, tag_column, encoding):
    examples = TaggedExamples([], [], None if tag_column is None else [], None, path, [])
    text = files.read_text(path, encoding)
    if "\r" in text and "\n" not in text:
        raise bare_returns(path, 1, text)
    # Not str.splitlines(): it also breaks at U+2028 and U+0085, which are ordinary text here.
    lines, inside, skipped = [line.removesuffix("\r") for line in text.split("\n")], False, []
    of_first, example = _first_word(lines)
    first = _CELL.findall(example)
    indexes = _column_indexes(line_position(path, of_first), first, text_column, tag_column) if first else []
    for number, line in enumerate(lines, 1):
        cells = _CELL.findall(line)
        if not cells or cells[0] == _DOCUMENT:
            inside = False
            continue
        if not inside and _is_comment(line, cells, example, len(first)):
            skipped.append(number)
            continue
        if len(cells) != len(first) and len(cells := _in_tabs(line, cells)) != len(first):
            raise ValueError(
                f"{line_position(path, number)}: a word's line must have {len(first)} columns, like line {of_first}, "
                f"separated by spaces or tabs; got {len(cells)}: {excerpt(cells)}."
            )
        if len(first) == _CONLL_U and indexes[0] and _NO_WORD.fullmatch(cells[0]):
            continue
        if not inside:
            _append(examples, number)
        inside = True
        for column, index in zip((examples.words, examples.tags), indexes, strict=False):
            column[-1].append(cells[index])
    if skipped:
        logging.info("%s: skipped %s, the first in line %d.", path, number_of(len(skipped), "comment"), skipped[0])
    return examples


def _first_word(lines):
    """Returns (number, line) of the first word, whose columns all others must have; a comment only if all are."""
    begins = ((number, line, match[0]) for number, line in enumerate(lines, 1) if (match := _CELL.search(line)))
    words = (each for each in begins if each[2] != _DOCUMENT)
    first = next(words, (0, "", ""))
    if first[2] in _COMMENTS:
        first = next((each for each in words if each[2] not in _COMMENTS), first)
    return first[:2]


def _is_comment(line, cells, example, width):
    """Returns whether a line before a sentence is a comment, as in CoNLL-U, GermEval and OntoNotes, and not a word.

    Args:
        line, cells: the line.
        example: the line of the first word.
        width: its number of columns.
    """
    if cells[0] not in _COMMENTS or len(cells) < 2 or line == example:
        return False
    return len(cells) != width or ("\t" in example and "\t" not in line) or cells[:2] == ["#end", "document"]


def _in_tabs(line, cells):
    """Returns the cells of a line if only tabs separate them, as in CoNLL-U, where a word may contain spaces."""
    by_tab = [cell.strip(" ") for cell in line.split("\t")]
    return by_tab if all(by_tab) and len(by_tab) > 1 else cells


def _append(examples, number):
    """Begins a sentence that has no words yet."""
    examples.ids.append(str(len(examples.ids)))
    examples.lines.append(number)
    examples.words.append([])
    if examples.tags is not None:
        examples.tags.append([])


def _column_indexes(at, cells, text_column, tag_column):
    """Returns the indexes of words and tags among the cells of a line; without tags only the first."""
    asked = {"text_column": text_column, "tag_column": tag_column}
    asked = {name: index for name, index in asked.items() if index is not None}
    for name, index in asked.items():
        if not -len(cells) <= index < len(cells):
            raise ValueError(
                f"{at}: missing column {index} (`{name}`). Found {len(cells)} columns, {excerpt(cells)}; "
                f"choose one of 0 to {len(cells) - 1}."
            )
    indexes = [index % len(cells) for index in asked.values()]
    if len(set(indexes)) < len(indexes):
        raise ValueError(
            f"{at}: words and tags must be in different columns; got {excerpt(cells)}, where both are in column "
            f"{indexes[0]}; set `text_column` and `tag_column` to different columns, or read only words (no "
            "`tag_column`)."
        )
    return indexes


def _read_jsonl(path, with_tags, encoding):
    columns = [Column("tokens", meaning="the words of a sentence", remedy="write them as a list of texts")]
    if with_tags:
        remedy = "add them, or read only words (no `tag_column`)"
        columns.append(Column("tags", meaning="one tag per word", remedy=remedy))
    dialect = Dialect(encoding=encoding)
    rows = read_rows(path, columns, header=False, dialect=dialect)
    refuse_missing(path, rows, columns[:1])
    ids, lines = _read_ids(path, len(rows), dialect), [line for line, _ in rows]
    examples = TaggedExamples(ids, [], [] if with_tags else None, None, path, lines)
    for line, (tokens, *rest) in rows:
        words = _texts(line_position(path, line), "tokens", tokens)
        examples.words.append(words)
        for value in rest:
            tags = _texts(line_position(path, line), "tags", value)
            if len(tags) != len(words):
                raise ValueError(
                    f"{line_position(path, line)}: 'tags' must have one tag for each of the 'tokens'; got {len(tags)} "
                    f"tags for {len(words)} tokens."
                )
            examples.tags.append(tags)
    return examples


def _read_ids(path, count, dialect):
    """Returns the ids of a .jsonl file, or numbers where a line has none."""
    try:
        rows = read_rows(path, [Column("id", meaning="its name")], header=False, dialect=dialect)
    except ValueError:  # the only thing that can still be wrong: a line without id
        return [str(i) for i in range(count)]
    first = {}
    for line, (value,) in rows:
        name = NAME.read(value)
        if name is None:
            raise ValueError(
                f"{line_position(path, line)}: {NAME.must}; got 'id': {excerpt(value)}."
            )
        if name in first:
            raise ValueError(
                f"{line_position(path, line)}: the ids of a file must be unique; got {name!r}, which also occurs "
                f"in {line_position(path, first[name])}; give one of them another id, or remove it."
            )
        first[name] = line
    return list(first)


def _texts(at, key, value):
    value = as_list(value)
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        raise ValueError(
            f"{at}: {key!r} must be a non-empty list of texts; got {excerpt(value)}; correct this line, or "
            "remove it."
        )
    return [_SURROGATES.sub("\ufffd", text) for text in value]


def _check_words(examples):
    if all(words[0] == "1" and all(map(_INDEX.fullmatch, words)) for words in examples.words):
        raise ValueError(
            f"{examples.where(0)}: words must not be indexes; got 1, 2, ... in every sentence; set `text_column` "
            "to the column of the words, such as 1."
        )
    for i, words in enumerate(examples.words):
        for k, word in enumerate(words):
            if not word.strip():
                raise ValueError(
                    f"{examples.where(i, k)}: a word must not be blank; got {word!r} as word "
                    f"{k} of the sentence; correct it, or remove it with its tag."
                )


def _check_scheme(tag_scheme):
    if tag_scheme not in (None, "auto", *SCHEMES):
        raise ValueError(f"`tag_scheme` must be one of auto, {', '.join(SCHEMES)}; got {tag_scheme!r}.")


def _check_tags(examples, tag_scheme):
    """Raises ValueError if a tag is unknown, or has a prefix that the scheme does not define."""
    for i, tags in enumerate(examples.tags):
        for k, tag in enumerate(tags):
            try:
                prefix, _ = split_tag(tag)
            except ValueError as error:
                message = str(error)
                raise ValueError(
                    f"{examples.where(i, k)}: {message[0].lower()}{message[1:].rstrip('.')}, or check `tag_column`."
                ) from error
            if prefix not in ("O", *SCHEMES.get(tag_scheme, prefix)):
                raise _contradiction(examples.where(i, k), tag_scheme, f"{tag!r}, a prefix that it does not define")


def _contradiction(at, scheme, problem):
    return ValueError(
        f"{at}: the tags must follow {scheme} (`tag_scheme`); got {problem}; correct this line, or set "
        "`tag_scheme` to auto."
    )


def _check_cells(path, sentence, cells, width):
    if len(cells) != width:
        raise ValueError(
            f"{path}: all lines must have {width} cells, like the first; "
            f"got {len(cells)} in sentence {sentence}: {excerpt(cells)}; add the missing cells."
        )
    if not (cells and all(map(str.strip, cells))) or any(map(_BREAK.search, cells)) or cells[0] == _DOCUMENT:
        raise ValueError(
            f"{path}: a cell must not be empty, contain a space, tab or line break, or begin a line with {_DOCUMENT}; "
            f"got {excerpt(cells)} in sentence {sentence}; replace it, or write JSON lines instead."
        )
