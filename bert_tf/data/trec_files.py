"""TREC's files: runs (the documents found for each query), qrels (their relevances), and the texts of both."""

import os
from collections.abc import Collection, Iterator
from typing import NamedTuple

from bert_tf.data.columns import NAME, TITLE_COLUMN, join_texts, joined_type
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect, extension_of, separator_name
from bert_tf.data.ranking_files import MOST_RELEVANT
from bert_tf.data.row_errors import excerpt, line_position
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import iterate_lines, iterate_rows, names_in
from bert_tf.utils.counts import number_of

RUN_EXTENSIONS = (".run", ".trec")
_RUN = "a run has the columns query, Q0, document, rank, score and tag, or query, document and rank (MS MARCO)"
_QRELS = (
    "qrels have the columns query, 0, document and relevance, or query, document and relevance (BEIR), and the "
    "relevance is a whole number"
)
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
            raise ValueError(f"{line_position(path, line)}: {_RUN}; got {excerpt(cells)}.")
        query, document = cells[0], cells[2] if len(cells) == 6 else cells[1]
        if (query, document) in seen:
            raise ValueError(
                f"{line_position(path, line)}: a query must have each document once; got the document "
                f"{document!r} of the query {query!r} again; remove one of them."
            )
        seen.add((query, document))
        found.setdefault(query, RunEntry([], line)).documents.append(document)
    return found


def read_qrels(path: str, encoding: str | None = None) -> dict[str, dict[str, int]]:
    """Reads qrels: {query: {document: relevance}}; `encoding` as in `Dialect`.

    Line 1 is skipped if it is a header, that is, if its last column is a name, as in BEIR's query-id, corpus-id and
    score.

    Raises:
        ValueError: a line is not one of qrels, or a query has two judgments of a document.
    """
    found = {}
    for line, cells in _split_lines(path, encoding):
        whole = cells[-1].removeprefix("-")
        if len(cells) not in (3, 4) or not (whole.isascii() and whole.isdecimal()):
            if line == 1 and len(cells) in (3, 4) and _is_name(cells[-1]):
                continue
            raise ValueError(f"{line_position(path, line)}: {_QRELS}; got {excerpt(cells)}.")
        if float(whole) > MOST_RELEVANT:
            raise ValueError(
                f"{line_position(path, line)}: a relevance must be from -{MOST_RELEVANT} to {MOST_RELEVANT}; got "
                f"{excerpt(cells)}."
            )
        judged, document = found.setdefault(cells[0], {}), cells[-2]
        if document in judged:
            raise ValueError(
                f"{line_position(path, line)}: a query must have one judgment of each document; got the document "
                f"{document!r} of the query {cells[0]!r} again; remove one of them."
            )
        judged[document] = int(cells[-1])
    return found


def _is_name(cell):
    """Returns whether a cell may name a column: it begins with a letter and is no word for a number."""
    return cell.strip("\"'#")[:1].isalpha() and cell.lower() not in ("nan", "inf", "infinity")


def _split_lines(path, encoding) -> Iterator[tuple[int, list[str]]]:
    for line, (text,) in iterate_lines(path, encoding):
        if cells := text.split():
            yield line, cells


def read_texts_by_id(
    path: str, ids: Collection[str], parameter: str, dialect: Dialect = DEFAULT_DIALECT
) -> dict[str, str]:
    """Reads {id: text} for some ids of a file of any size; a title, which may be null or absent, precedes its text.

    Args:
        path: a .tsv file without a header, or a .jsonl or .parquet file; may be gzipped.
        ids: those to read.
        parameter: that names the file, for errors.
        dialect: how a text file is written.

    Raises:
        ValueError: the file lacks one of the ids or has it twice, or is not such a file.
    """
    is_table, found = not path.lower().removesuffix(".gz").endswith(".tsv"), {}
    rows = _rows_with_header(path, dialect) if is_table else _ids_and_texts(path, dialect)
    for line, (name, *texts) in rows:
        if (name := NAME.read(name)) in ids:
            if name in found:
                raise ValueError(
                    f"{line_position(path, line)}: an id must occur only once; got {name!r} again; remove one."
                )
            kinds = list(map(joined_type, ("text", TITLE_COLUMN)[: len(texts)]))
            read = [kind.read(each) for kind, each in zip(kinds, texts, strict=True)]
            if None in read:
                wrong = read.index(None)
                raise ValueError(
                    f"{line_position(path, line)}: {kinds[wrong].must}; got {excerpt(texts[wrong])} for the id "
                    f"{name!r}; store it as a string."
                )
            found[name] = join_texts(reversed(read))
    if missing := [each for each in ids if not found.get(each, "").strip()]:
        raise ValueError(
            f"`{parameter}` must have a text for every id in the files used with it. {path} has no text for "
            f"{len(missing)} of {len(ids)}, such as {missing[0]!r}; pass the file that these ids belong to."
        )
    return found


def _rows_with_header(path, dialect):
    """Yields (line or row, [id, text] or [id, text, title]) of a file whose columns have names."""
    names = names_in(path, dialect)
    wanted = (next((name for name in ("_id", "id") if name in names), "id"), "text")
    # `names` are those of a .jsonl file's first line: a later one may have a title.
    wanted += (TITLE_COLUMN,) if TITLE_COLUMN in names or extension_of(path) == ".jsonl" else ()
    columns = [Column(name, remedy=_TEXTS, meaning="of a text", optional=name == TITLE_COLUMN) for name in wanted]
    yield from iterate_rows(path, columns, header=True, dialect=dialect)


def _ids_and_texts(path, dialect):
    """Yields (line, [id, text]) of a .tsv file without a header, in which a third column would pass unseen."""
    separator = dialect.separator_of(".tsv")
    for line, (row,) in iterate_lines(path, dialect.encoding):
        cells = row.split(separator)
        if row and (len(cells) < 2 or any(cells[2:])):
            raise ValueError(
                f"{line_position(path, line)}: {_TEXTS}; got {number_of(len(cells), 'column')}, separated by "
                f"{separator_name(separator)}: {excerpt(cells)}; correct this line, or convert the file to .jsonl."
            )
        if row:
            yield line, cells[:2]
