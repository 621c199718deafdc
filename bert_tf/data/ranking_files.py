"""Queries with documents and their relevances: lists in .jsonl and .parquet, triples in .tsv and .csv."""

import dataclasses
import os

from bert_tf.data.columns import NAME, TEXT, without_surrogates
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect, extension_of
from bert_tf.data.list_cells import as_list
from bert_tf.data.row_errors import excerpt, line_position
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import names_in, read_rows
from bert_tf.data.tables import read_files, refuse_missing

_LISTS = (".jsonl", ".parquet")  # the formats in which a value can be a list
_IDS = ("document_ids", "id")
_LABELED = ("documents", "positives", "negatives")
_TRIPLE = ("query", "positive", "negative")
_REMEDY = (
    'write the line as {"query": ..., "positives": [...], "negatives": [...]}, or as {"query": ..., '
    '"documents": [...], "relevances": [...]}'
)
_SCORES_REMEDY = "create the file with `bert-tf data mine-negatives` and its `rerank` flag"
_FIRST = 10  # lines of triples, which are ids if all of their cells are numbers
MOST_RELEVANT = 2**24  # up to here, float32, in which losses are computed, has every whole number
_MOST_SCORE = 1e30  # so that differences of scores are finite in float32, too


@dataclasses.dataclass(frozen=True)
class RankingExamples:
    """n queries in the order of the file, as parallel lists.

    Attributes:
        ids: name of each; "0", "1", ... if the file has none.
        queries: the queries.
        documents: at least one text each.
        document_ids: ids of the documents, different within a query; "0", "1", ... if the file has none.
        relevances: whole number per document; it is relevant from 1 up. If None, they were not requested.
        path: the file.
        lines: 1-based line where each begins; for a Parquet file, the 1-based row.
        judged: the relevances in the qrels of a run, also of documents that it lacks. If None, there are no others.
        scores: a teacher's score of each document. If None, they were not requested.
    """

    ids: list[str]
    queries: list[str]
    documents: list[list[str]]
    document_ids: list[list[str]]
    relevances: list[list[int]] | None
    path: str
    lines: list[int] | list[str]
    judged: list[list[int]] | None = None
    scores: list[list[float]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, index: int) -> str:
        """Returns "file:line" of query `index`, the beginning of error messages."""
        return line_position(self.path, self.lines[index])


def read_ranking_file(
    path: str | os.PathLike, with_relevances: bool, dialect: Dialect = DEFAULT_DIALECT, with_scores: bool = False
) -> RankingExamples:
    """Reads a file of queries, or several; its extension decides the format; .gz files are decompressed.

    .jsonl and .parquet: `query`, and the lists `positives` and `negatives`, or `documents` and `relevances`; also `id`
    and `document_ids`, each in all lines or in none.
    .csv and .tsv: MS MARCO's triples, query, positive and negative, with or without these names in line 1.
    Other columns are ignored in all formats.

    Args:
        path: the file; several as `files.find_files` takes them.
        with_relevances: whether relevances are required, and one of them from 1 up.
        dialect: how a text file is written.
        with_scores: whether `scores` are required in .jsonl and .parquet: of the documents, or of the positives and
            then the negatives.

    Raises:
        ValueError: the file is invalid; the message names the file, the line, the problem and a fix.
    """
    return read_files(path, lambda path: _read_queries(path, with_relevances, dialect, with_scores))


def _read_queries(path, with_relevances, dialect, with_scores):
    wanted, optional, rows = _read_columns(path, with_relevances, dialect, with_scores)
    if not rows:
        raise ValueError(f"{path} contains no queries. Check the path.")
    refuse_missing(path, rows, [Column(name) for name in wanted])
    if wanted in (_TRIPLE, (0, 1, 2)):
        _refuse_ids(path, rows[:_FIRST])
    for place, name in enumerate(optional, len(wanted)):
        if name in _IDS:
            _check_all_or_none(path, name, [(line, values[place]) for line, values in rows])
    relevances = [] if with_relevances else None
    lines, scores = [line for line, _ in rows], [] if with_scores else None
    examples = RankingExamples([], [], [], [], relevances, path, lines, scores=scores)
    for number, (line, values) in enumerate(rows):
        at, more = line_position(path, line), dict(zip(optional, values[len(wanted) :], strict=True))
        _refuse_competing(at, wanted, more)
        query, documents, relevances = _take(at, dict(zip(wanted, values, strict=False)))
        if with_relevances and max(relevances, default=0) < 1:
            raise ValueError(
                f"{at}: every query must have a relevant document: a text in 'positives', or a relevance of 1 or more. "
                f"The query {excerpt(query)} has no relevant document; remove the line, or {_REMEDY}."
            )
        if not documents:
            raise ValueError(
                f"{at}: every query must have a document. {excerpt(query)} has no documents; remove the line."
            )
        examples.ids.append(str(number) if more.get("id") is None else _id(at, "id", more["id"]))
        examples.queries.append(query)
        examples.documents.append(documents)
        examples.document_ids.append(_document_ids(at, more.get("document_ids"), len(documents)))
        if with_relevances:
            examples.relevances.append(relevances)
        if with_scores:
            examples.scores.append(_scores(at, more["scores"], len(documents)))
    return examples


def _read_columns(path, with_relevances, dialect, with_scores):
    """Returns the names of the columns that a query needs, those of others, and (line, their values) of the rows."""
    names, optional = names_in(path, dialect), []
    if not path.lower().removesuffix(".gz").endswith(_LISTS):
        header = set(_TRIPLE) <= set(names)
        wanted = _TRIPLE if header else (0, 1, 2)
    else:
        header, wanted = True, ("query", "positives", "negatives")
        if "documents" in names or "positives" not in names:
            wanted = ("query", "documents", *(["relevances"] if with_relevances else []))
        # `names` are those of a .jsonl file's first line: a later one may have more.
        optional = [name for name in _IDS if name in names or extension_of(path) == ".jsonl"]
        optional += ["scores"] * with_scores
        others = [name for name in _LABELED if name not in wanted] if with_relevances else []
        optional += [name for name in others if name in names or extension_of(path) == ".jsonl"]
    remedies = {"scores": _SCORES_REMEDY}
    columns = [Column(name, remedy=_REMEDY, meaning="of a query") for name in wanted]
    columns += [
        Column(name, remedy=remedies.get(name, _REMEDY), meaning="of a query", optional=name != "scores")
        for name in optional
    ]
    return wanted, optional, read_rows(path, columns, header, dialect=dialect)


def _refuse_competing(at, wanted, more):
    """Raises ValueError if a line has documents in another form, too; `more`: {column: value}, not read by `wanted`."""
    if other := next((name for name in _LABELED if more.get(name)), None):
        raise ValueError(
            f"{at}: a line must have 'documents', or 'positives' and 'negatives'; got {wanted[1]!r} and "
            f"{other!r}; {_REMEDY}."
        )


def _refuse_ids(path, rows):
    """Raises ValueError if triples, (line, cells), are numbers alone, as in MS MARCO's qidpidtriples."""
    if all(cell.strip().isdecimal() for _, cells in rows for cell in cells):
        raise ValueError(
            f"{line_position(path, rows[0][0])}: a line must have the texts of a query, a positive and a negative "
            f"document; got numbers, which look like their ids: {excerpt(rows[0][1])}; replace the ids with the "
            "texts, or pass a run (.run or .trec) with `queries_file`, `documents_file` and `qrels_file`."
        )


def _check_all_or_none(path, name, rows):
    """Raises ValueError if some rows have a value and others do not; `rows` are (line, value)."""
    has = [value is not None for _, value in rows]
    if len(set(has)) > 1:
        line, (here, before) = rows[has.index(not has[0])][0], ("without", "with") if has[0] else ("with", "without")
        raise ValueError(
            f"{line_position(path, line)}: '{name}' must be in all lines or in none; got a line {here} it after "
            f"lines {before} it; add it to all lines, or remove it from all."
        )


def _take(at, values):
    """Returns the query, the documents and their relevances of a line, {column: value}."""
    query, *others = values.values()
    if TEXT.read(query) is None or not query.strip():
        raise ValueError(f"{at}: 'query' must be non-blank text; got {excerpt(query)}; {_REMEDY}.")
    if 0 in values or "positive" in values:
        return query, [_document(at, each) for each in others], [1, 0]
    if "documents" in values:
        documents = _documents(at, "documents", others[0])
        return query, documents, _relevances(at, others[1], len(documents)) if others[1:] else None
    positives, negatives = (_documents(at, name, values[name]) for name in ("positives", "negatives"))
    return query, positives + negatives, [1] * len(positives) + [0] * len(negatives)


def _documents(at, name, value):
    value = as_list(value)
    if not isinstance(value, list):
        raise ValueError(f"{at}: '{name}' must be a list of texts; got {excerpt(value)}; {_REMEDY}.")
    return [_document(at, each) for each in value]


def _document(at, value):
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{at}: every document must have text; got {excerpt(value)}; fill it in, or remove it.")
    return without_surrogates(value)


def _relevances(at, value, count):
    value = as_list(value)
    values = value if isinstance(value, list) else []
    if len(values) != count or not all(_is_within(each, MOST_RELEVANT) and each == each // 1 for each in values):
        raise ValueError(
            f"{at}: 'relevances' must be a list of {count} whole numbers from -{MOST_RELEVANT} to {MOST_RELEVANT}, one "
            f"for each of the documents; got {excerpt(value)}."
        )
    return list(map(int, values))


def _scores(at, value, count):
    value = as_list(value)
    values = value if isinstance(value, list) else []
    if len(values) != count or not all(_is_within(each, _MOST_SCORE) for each in values):
        raise ValueError(
            f"{at}: 'scores' must be a list of {count} numbers, from -{_MOST_SCORE:g} to {_MOST_SCORE:g}, one for each "
            f"document, those of positives before those of negatives; got {excerpt(value)}."
        )
    return list(map(float, values))


def _is_within(value, most):
    return isinstance(value, int | float) and abs(value) <= most


def _document_ids(at, value, count):
    if value is None:
        return list(map(str, range(count)))
    value = as_list(value)
    ids = [_id(at, "document_ids", each) for each in value] if isinstance(value, list) else []
    if len(ids) != count or len(set(ids)) < count:
        raise ValueError(
            f"{at}: 'document_ids' must be a list of {count} different ids, one for each document; got "
            f"{excerpt(value)}."
        )
    return ids


def _id(at, column, value):
    name = NAME.read(value)
    if name is None:
        raise ValueError(f"{at}: {NAME.must}; got '{column}': {excerpt(value)}.")
    return name
