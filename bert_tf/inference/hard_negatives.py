"""Hard negatives: texts that a search ranks high for a query although they do not match it, to train on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.ranking_files import read_ranking_file
from bert_tf.data.tables import read_table
from bert_tf.evaluation.cosine_similarity import cosines
from bert_tf.inference.reranker import Reranker
from bert_tf.inference.retrieval import read_judged_queries
from bert_tf.inference.search import Hit, SearchIndex
from bert_tf.inference.settings import DEFAULT_MINING, MiningOptions
from bert_tf.tasks.embedding.text_groups import group_texts, is_list_file
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

_MOST_HITS = 100_000  # texts found at a time for all queries searched together, which take memory


class MinedQuery(NamedTuple):
    """A query with texts that match it, and with hard negatives, the highest score first.

    Attributes:
        scores: the reranker's logits of the positives and then of the negatives. If None, there was no reranker.
    """

    query: str
    positives: list[str]
    negatives: list[str]
    scores: list[float] | None = None


def read_positives(
    path: str, text_columns: Sequence[str] | None = None, header: bool = True, dialect: Dialect = DEFAULT_DIALECT
) -> dict[str, list[str]]:
    """Reads queries with the texts that match them, in the order of the file: {query: its different positives}.

    Queries that differ only in whitespace are one query, and so are positives.

    Args:
        path: a table of pairs, or queries with lists as for `train reranker`.
        text_columns: the two columns of a table. If None, lists, or the columns "text_a" and "text_b".
        header, dialect: as in `read_table`.

    Raises:
        ValueError: the file is invalid, or a text is empty.
    """
    if text_columns is None and is_list_file(path, dialect):
        examples = group_texts(read_ranking_file(path, True, dialect), one_negative=False)
        pairs = examples.queries, examples.positives
    else:
        columns = ("text_a", "text_b") if text_columns is None else text_columns
        if len(columns) != 2:
            raise ValueError(f"`text_column` must name two columns; got {len(columns)}: {','.join(columns)}.")
        examples = read_table(path, header=header, text_columns=columns, dialect=dialect)
        pairs = examples.text_a, examples.text_b
    pairs = list(zip(*pairs, strict=True))
    for number, pair in enumerate(pairs):
        if not all(map(str.strip, pair)):
            raise ValueError(f"{examples.where(number)}: a query and its positive must have text. Remove this line.")
    return _group(pairs)


def read_judged_positives(queries_file: str, qrels_file: str, index: SearchIndex) -> dict[str, list[str]]:
    """Reads queries with relevances, from files as `train reranker` takes them.

    Returns:
        {query: texts of its relevant documents in the index}, without queries that have none in it.

    Raises:
        ValueError: as `read_judged_queries`.
    """
    judged = read_judged_queries(queries_file, qrels_file, index, "They are left out.")
    relevant = {name for gains in judged.relevances for name, gain in gains.items() if gain > 0}
    texts = index.texts_by_id(list(relevant))
    pairs = [
        (query, texts[name])
        for query, gains in zip(judged.texts, judged.relevances, strict=True)
        for name, gain in gains.items()
        if gain > 0 and texts.get(name, "").strip()
    ]
    positives, count = _group(pairs), len(set(map(_spaced, judged.texts)))
    logging.info("%d of %d queries have a relevant document in the index.", len(positives), count)
    return positives


def mine_negatives(
    index: SearchIndex,
    positives: Mapping[str, Sequence[str]],
    options: MiningOptions = DEFAULT_MINING,
    prompt: str | None = None,
    prompt_name: str | None = None,
    reranker: Reranker | None = None,
) -> Iterator[MinedQuery]:
    """Yields each query with its hard negatives, of which there may be none.

    Args:
        index: the texts to choose from.
        positives: {query: texts that match it}, which are never its negatives, nor is the query itself, whatever their
            whitespace. Queries that differ only in whitespace are one query.
        options: a `MiningOptions`.
        prompt, prompt_name: of queries, as in `SearchIndex.encoder`.
        reranker: scores the texts that the index finds, and the positives. If None, their cosines are their scores.

    Raises:
        ValueError: the index is empty, or as `SearchIndex.encoder`.
    """
    if not len(index):
        raise ValueError(f"`index_dir` must have documents. {index.directory} is empty; add the texts to choose from.")
    positives = _group((query, text) for query, texts in positives.items() for text in texts)
    encode, done = index.encoder(prompt, prompt_name), 0
    for part, top_k in _chunks(positives, options.range_max):
        vectors, counts = encode(part), [len(positives[query]) for query in part]
        known = [{_spaced(text) for text in (query, *positives[query])} for query in part]
        hits = _search_different(index, vectors, known, top_k, options.range_max)
        if reranker is None:
            matching = index.embed([text for query in part for text in positives[query]])
            similar = np.split(cosines(np.repeat(vectors, counts, axis=0), matching), np.cumsum(counts)[:-1])
        for number, (query, others) in enumerate(zip(part, hits, strict=True)):
            own = list(positives[query])
            if reranker is None:
                chosen = _choose(similar[number].tolist(), others, options)
                yield MinedQuery(query, own, [hit.text for hit in chosen])
                continue
            scores, others = _rescore(reranker, query, own, others)
            chosen = _choose(scores, others, options)
            logits = reranker.to_logits([*scores, *(hit.score for hit in chosen)])
            yield MinedQuery(query, own, [hit.text for hit in chosen], logits)
        done += len(part)
        logging.info("Searched %d of %d queries.", done, len(positives))


def check_recognized(index: SearchIndex, positives: Mapping[str, Sequence[str]]):
    """Logs how many of the positives are texts in the index, because only these are recognized; warns if few.

    Raises:
        ValueError: none of them is, so any of them could become a negative in the form that the index has.
    """
    lacking = {_spaced(text): text for texts in positives.values() for text in texts}
    count = len(lacking)
    for text in index.texts():
        lacking.pop(_spaced(text), None)
        if not lacking:
            break
    example = f"{next(iter(lacking.values()), ''):.60}"
    if len(lacking) == count:
        raise ValueError(
            f"At least one of the {count} positives must be a text in {index.directory}, such as {example!r}. If the "
            "index has them in a different form (with a title, for example), they would be mined as negatives: pass "
            "`queries_file` and `qrels_file`, which exclude them by id. If they are missing, add them to the index."
        )
    log = logging.warning if len(lacking) > count / 2 else logging.info
    log("Found %d of the %d positives in %s.", count - len(lacking), count, index.directory)
    if lacking:
        log(
            "If the others, such as %r, are in the index in a different form (with a title, for example), they may be "
            "mined as negatives. To exclude them by id, pass `queries_file` and `qrels_file`.",
            example,
        )


def _group(pairs):
    """Returns {query: its positives} of pairs; of texts that differ only in whitespace, the first is kept."""
    names, found = {}, {}
    for query, text in pairs:
        query = names.setdefault(_spaced(query), query)
        found.setdefault(query, {}).setdefault(_spaced(text), text)
    return {query: list(texts.values()) for query, texts in found.items()}


def _spaced(text):
    """Returns a text with one space for all whitespace between its words."""
    return " ".join(text.split())


def _chunks(positives, range_max):
    """Yields the queries to search together, as many as memory allows, and the number of texts to find for each."""
    part, top_k = [], 0
    for query, texts in positives.items():
        needed = max(top_k, range_max + len(texts) + 1)  # one more: the query may be a document too
        if part and (len(part) + 1) * needed > _MOST_HITS:
            yield part, top_k
            part, needed = [], range_max + len(texts) + 1
        part.append(query)
        top_k = needed
    if part:
        yield part, top_k


def _search_different(index, vectors, known, top_k, count):
    """Returns for each query its first `count` hits of different texts, none of them blank or known.

    `known` are the texts for each query. Documents with the same text are one candidate: for a query whose first
    `top_k` hits are too few texts, twice as many are searched, until there are enough or no more documents.
    """
    found, numbers = [[] for _ in known], np.arange(len(known))
    while len(numbers):
        short, rows = [], max(1, _MOST_HITS // top_k)
        for part in np.split(numbers, range(rows, len(numbers), rows)):
            for number, hits in zip(part, index.search(vectors[part], top_k), strict=True):
                different = {}
                for hit in hits:
                    text = _spaced(hit.text)
                    if text and text not in known[number]:
                        different.setdefault(text, hit)
                found[number] = list(different.values())[:count]
                short += [number] if len(found[number]) < count else []
        numbers, top_k = np.array(short if top_k < len(index) else [], int), 2 * top_k
    return found


def _rescore(reranker, query, positives, others):
    """Returns the reranker's scores of positives, and the other hits with their new scores, the highest first."""
    [ranked] = reranker([query], [[Hit("", 0.0, text, {}) for text in positives] + others])
    scores = {hit.text: hit.score for hit in ranked}
    return [scores[text] for text in positives], [hit for hit in ranked if hit.text not in set(positives)]


def _choose(scores, others, options):
    """Returns the negatives among hits that do not match the query; `scores` are those of its positives."""
    limit = min(scores) - abs(min(scores)) * options.relative_margin
    chosen = sorted((hit for hit in others if hit.score <= limit), key=lambda hit: -hit.score)  # ties stay in order
    return chosen[options.range_min :][: options.num_negatives]


def write_mined(path: str, mined: Iterator[MinedQuery]) -> tuple[int, int]:
    """Writes a training file atomically: one line per query that has negatives.

    Returns:
        The numbers of queries and of negatives in the file.

    Raises:
        ValueError: no query has negatives.
        OSError: the file cannot be written.
    """
    queries = negatives = 0
    with atomic_open(path) as file:
        for each in mined:
            if each.negatives:
                line = {name: value for name, value in each._asdict().items() if value is not None}
                file.write(json_text(line, ensure_ascii=False) + "\n")
                queries, negatives = queries + 1, negatives + len(each.negatives)
        if not queries:
            raise ValueError(
                "No query has negatives: all texts that the index found are positives, too similar to the query, or "
                "skipped. Lower `relative_margin` or `range_min`, or raise `range_max`."
            )
    return queries, negatives
