"""TREC's files: runs (the documents found for each query), qrels (their relevances), and the texts of both."""

import os
from collections.abc import Collection, Iterator
from typing import NamedTuple

from bert_tf.data.columns import NAME
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.table_reader import Column, excerpt, iterate_lines, iterate_rows, line_position, names_in

RUN_EXTENSIONS = (".run", ".trec")
_RUN = "a run has the columns query, Q0, document, rank, score and tag, or query, document and rank (MS MARCO)"
_QRELS = "qrels have the columns query, 0, document and relevance, or query, document and relevance (BEIR)"
_TEXTS = "a text is a line of .tsv, id and text, or of .jsonl with id or _id, text, and optionally title"


class RunEntry(NamedTuple):
    """The documents found for a query: their ids in the order of the run, and its first line."""

    documents: list[str]
    line: int


def is_trec_run(path: str | os.PathLike) -> bool:
    """Returns whether the extension is that of a run; it may be followed by .gz."""
    return os.fspath(path).lower().removesuffix(".gz").endswith(RUN_EXTENSIONS)


def read_trec_run(path: str, encoding: str | None = None) -> dict[str, RunEntry]:
    """Reads a run: {query: its documents}, in the order of the file; `encoding` as in `Dialect`.

    Raises:
        ValueError: a line is not one of a run, or a query has a document twice.
    """
    found, seen = {}, set()
    for line, cells in _split_lines(path, encoding):
        if len(cells) not in (3, 6):
            raise ValueError(f"{line_position(path, line)}: {_RUN}. Received: {excerpt(cells)}; correct this line.")
        query, document = cells[0], cells[2] if len(cells) == 6 else cells[1]
        if (query, document) in seen:
            raise ValueError(
                f"{line_position(path, line)}: a query must have each document once. Received the document "
                f"{document!r} of the query {query!r} again; remove this line."
            )
        seen.add((query, document))
        found.setdefault(query, RunEntry([], line)).documents.append(document)
    return found


def read_qrels(path: str, encoding: str | None = None) -> dict[str, dict[str, int]]:
    """Reads qrels: {query: {document: relevance}}; a header in line 1 is skipped; `encoding` as in `Dialect`.

    Raises:
        ValueError: a line is not one of qrels.
    """
    found = {}
    for line, cells in _split_lines(path, encoding):
        whole = cells[-1].removeprefix("-")
        if len(cells) not in (3, 4) or not (whole.isascii() and whole.isdecimal()):
            if line == 1 and len(cells) in (3, 4):
                continue
            raise ValueError(f"{line_position(path, line)}: {_QRELS}. Received: {excerpt(cells)}; correct this line.")
        found.setdefault(cells[0], {})[cells[-2]] = int(cells[-1])
    return found


def _split_lines(path, encoding) -> Iterator[tuple[int, list[str]]]:
    for line, (text,) in iterate_lines(path, encoding):
        if cells := text.split():
            yield line, cells


def read_texts_by_id(
    path: str, ids: Collection[str], parameter: str, dialect: Dialect = DEFAULT_DIALECT
) -> dict[str, str]:
    """Reads {id: text} for some ids of a file of any size; a title precedes its text.

    Args:
        path: a .tsv file without a header, or a .jsonl or .parquet file; may be gzipped.
        ids: those to read.
        parameter: that names the file, for errors.
        dialect: how a text file is written.

    Raises:
        ValueError: the file lacks one of the ids, or is not such a file.
    """
    names, wanted = names_in(path, dialect), (0, 1)
    if is_table := not path.lower().removesuffix(".gz").endswith(".tsv"):
        wanted = (next((name for name in ("_id", "id") if name in names), "id"), "text")
        wanted += ("title",) if "title" in names else ()
    columns, found = [Column(name, remedy=_TEXTS, meaning="of a text") for name in wanted], {}
    for _, (name, *texts) in iterate_rows(path, columns, header=is_table, dialect=dialect):
        if (name := NAME.read(name)) in ids:
            found[name] = " ".join(filter(None, reversed(texts)))
    if missing := [each for each in ids if not found.get(each, "").strip()]:
        raise ValueError(
            f"`{parameter}` must have a text for every id in the files used with it. {path} has none for "
            f"{len(missing)} of {len(ids)}, such as {missing[0]!r}; pass the file that they were made with."
        )
    return found
