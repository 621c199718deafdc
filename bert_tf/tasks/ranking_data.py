"""Queries with documents and relevances, from the files of a run: lists, triples, or a TREC run with its qrels."""

import functools
from collections.abc import Iterable, Sequence

from absl import logging

from bert_tf.data.ranking_files import RankingExamples, read_ranking_file
from bert_tf.data.row_errors import excerpt
from bert_tf.data.tables import read_files
from bert_tf.data.trec_files import RUN_EXTENSIONS, is_trec_run, read_qrels, read_texts_by_id, read_trec_run
from bert_tf.evaluation.ranking import rank_documents
from bert_tf.tasks.options import RankingFileOptions


def read_rankings(options: RankingFileOptions, kind: str) -> RankingExamples:
    """Reads the file of a kind of split; relevances are not read for "test".

    Raises:
        ValueError: the file was not given or is invalid, or a run lacks a file that it refers to.
    """
    path = options.file_of(kind, "queries")
    if is_trec_run(path):
        examples = read_files(path, functools.partial(_read_run, options=options, kind=kind))
        if kind != "test":
            _check_relevant(path, examples.judged, examples.relevances, options.qrels_file)
        return examples
    return read_ranking_file(path, kind != "test", options.dialect)


def check_run_files(options: RankingFileOptions, examples: Iterable):
    """Raises ValueError if files for runs were given, but no file of examples is a run."""
    of_runs = [name for name in ("queries_file", "documents_file", "qrels_file") if getattr(options, name)]
    if of_runs and not any(is_trec_run(each.path) for each in examples):
        raise ValueError(
            f"`{of_runs[0]}` requires a run ({' or '.join(RUN_EXTENSIONS)}) among the data files. Remove it."
        )


def check_differences(examples: RankingExamples):
    """Raises ValueError if a query has nothing to learn from: documents of one relevance only."""
    alike = next((n for n, each in enumerate(examples.relevances) if not _differ(each)), None)
    if alike is not None:
        raise ValueError(
            f"{examples.where(alike)}: every training query must have documents of different relevance, such as "
            f"negatives. All {len(examples.documents[alike])} of {excerpt(examples.queries[alike])} have the same; add "
            "some, or remove the line."
        )


def rank_relevances(scores: Iterable[Sequence[float]], examples: RankingExamples) -> list[list[int]]:
    """Returns the relevances of each query's documents, the best-ranked first; `scores`: one per document."""
    rows = zip(scores, examples.document_ids, examples.relevances, strict=True)
    return [[relevances[i] for i in rank_documents(own, ids)] for own, ids, relevances in rows]


def _read_run(path, options, kind):
    """Reads a TREC run, with the relevances of the qrels unless `kind` is "test".

    Queries without qrels are left out, as in trec_eval; in training also those that have nothing to learn from.
    """
    needed = ("queries_file", "documents_file", *(["qrels_file"] if kind != "test" else []))
    for name in needed:
        if not getattr(options, name):
            raise ValueError(f"`{name}` is required for a run; got the run {path}; pass `{name}`.")
    encoding, dialect = options.encoding, options.dialect
    run, qrels = read_trec_run(path, encoding), read_qrels(options.qrels_file, encoding) if kind != "test" else {}
    if not run:
        raise ValueError(f"{path} contains no queries. Check the path.")
    if kind != "test":
        gains = {query: [qrels.get(query, {}).get(name, 0) for name in each.documents] for query, each in run.items()}
        run = _keep_judged(path, run, qrels, options.qrels_file)
        _warn_of_lacking(path, run, qrels, options.qrels_file)
    if kind == "train":
        judged = [qrels[query].values() for query in run]
        _check_relevant(path, judged, [gains[query] for query in run], options.qrels_file)
        run = _keep_different(path, run, gains)
    # Texts of relevant documents that the run lacks are not needed: they are not ranked, and count as not found.
    ids = {name for each in run.values() for name in each.documents}
    texts = read_texts_by_id(options.documents_file, ids, "documents_file", dialect)
    queries = read_texts_by_id(options.queries_file, run.keys(), "queries_file", dialect)
    entries = list(run.items())
    return RankingExamples(
        list(run),
        [queries[query] for query in run],
        [[texts[name] for name in each.documents] for _, each in entries],
        [each.documents for _, each in entries],
        [gains[query] for query in run] if qrels else None,
        path,
        [each.line for _, each in entries],
        [list(qrels[query].values()) for query in run] if qrels else None,
    )


def _keep_judged(path, run, qrels, qrels_file):
    """Returns the queries of a run that have judgments."""
    kept = {query: entry for query, entry in run.items() if query in qrels}
    logging.info("%s: %d of %d queries have relevance judgments in %s.", path, len(kept), len(run), qrels_file)
    if not kept:
        raise ValueError(
            f"`qrels_file` must contain judgments for queries in the run. {qrels_file} contains no judgments for the "
            f"{len(run)} queries in {path}, such as {next(iter(run))!r}; pass the qrels for these queries."
        )
    return kept


def _check_relevant(path, judged, found, qrels_file):
    """Raises ValueError if no query has a relevant document: ids that do not match would give metrics of 0.

    Args:
        path: path of the run, or of several.
        judged, found: relevances of each query's documents in the qrels, and in the run.
    """
    if not any(gain > 0 for gains in judged for gain in gains):
        raise ValueError(
            f"`qrels_file` must contain at least one relevant document (relevance 1 or more). {qrels_file} contains "
            f"none for the queries in {path}; pass the qrels for these queries."
        )
    if not any(gain > 0 for gains in found for gain in gains):
        raise ValueError(
            f"{path} must contain relevant documents. It contains none of those in {qrels_file}; make sure "
            "that its ids match those in the qrels, or use a run with more documents."
        )


def _warn_of_lacking(path, run, qrels, qrels_file):
    """Logs how many relevant documents a run lacks."""
    relevant = [(query, name) for query in run for name, gain in qrels[query].items() if gain > 0]
    found = {query: set(entry.documents) for query, entry in run.items()}
    lacking = [(query, name) for query, name in relevant if name not in found[query]]
    if lacking:
        query, name = lacking[0]
        logging.warning(
            "%s lacks %d of the %d relevant documents that %s lists for its queries, such as %r for the query %r. "
            "Metrics treat them as not found.",
            *(path, len(lacking), len(relevant), qrels_file, name, query),
        )


def _keep_different(path, run, gains):
    """Returns the queries of a run that have something to learn from: documents of different relevance."""
    if kept := {query: entry for query, entry in run.items() if _differ(gains[query])}:
        logging.info("%s: %d of these queries have documents of different relevance.", path, len(kept))
        return kept
    alike = next(query for query in run if max(gains[query]) > 0)  # `_check_relevant` ensures that there is one
    raise ValueError(
        f"{path} must contain documents of different relevance for at least one query. All {len(gains[alike])} "
        f"documents for the query {alike!r} have relevance {gains[alike][0]}; add irrelevant documents."
    )


def _differ(relevances):
    """Returns whether there is something to learn from the documents of a query."""
    return len({max(0, each) for each in relevances}) > 1
