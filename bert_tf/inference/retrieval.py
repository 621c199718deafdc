"""Evaluation of a search on queries with relevance judgments (qrels), by trec_eval's metrics."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

from absl import logging

from bert_tf.data.trec_files import read_qrels, read_texts_by_id
from bert_tf.evaluation.ranking import CUT, rank_documents, ranking_metrics, recall_at
from bert_tf.inference.search import Hit, SearchIndex

_CHUNK = 1_000  # queries searched at a time: their hits have texts, which take memory


@dataclasses.dataclass(frozen=True)
class JudgedQueries:
    """n queries with the relevances of documents, as parallel lists.

    Attributes:
        texts: the queries.
        relevances: {id of a document: whole number} for each; a document is relevant from 1 up.
    """

    texts: list[str]
    relevances: list[dict[str, int]]


def check_judgment_files(queries_file: str | None, qrels_file: str | None):
    """Raises ValueError unless there are both files, of queries and of relevances."""
    given = {"queries_file": queries_file, "qrels_file": qrels_file}
    for name, other in itertools.permutations(given):
        if not given[other]:
            raise ValueError(f"`{name}` requires `{other}`. Add `{other}` or remove `{name}`.")


def read_judged_queries(
    queries_file: str, qrels_file: str, index: SearchIndex, consequence: str = "They count as not found."
) -> JudgedQueries:
    """Reads all queries that have relevances, from files as `train reranker` takes them.

    Args:
        queries_file: texts of the queries by id.
        qrels_file: relevances of documents by their ids.
        index: the documents. Relevant ones that it lacks cannot be found, and lower the metrics.
        consequence: end of the warning that there are such documents.

    Raises:
        ValueError: a file is invalid, a query has no text, or the index has no relevant document at all.
    """
    qrels = read_qrels(qrels_file)
    relevant = list({name for gains in qrels.values() for name, gain in gains.items() if gain > 0})
    if not relevant:
        raise ValueError(
            f"`qrels_file` must have relevant documents, of relevance 1 or more. {qrels_file} has no relevant "
            "documents."
        )
    is_there = index.has_documents(relevant)
    if not is_there.any():
        raise ValueError(
            f"`qrels_file` must name documents by their ids in the index. {index.directory} contains none of the "
            f"{len(relevant)} relevant documents, such as {relevant[0]!r}; create the index with the ids of your "
            "documents: the `id_column` of `bert-tf embed`."
        )
    if not is_there.all():
        logging.warning(
            "%s lacks %d of the %d relevant documents in %s. %s",
            *(index.directory, len(relevant) - is_there.sum(), len(relevant), qrels_file, consequence),
        )
    texts = read_texts_by_id(queries_file, qrels.keys(), "queries_file")
    return JudgedQueries([texts[query] for query in qrels], list(qrels.values()))


def evaluate_search(
    judged: JudgedQueries, search: Callable[[Sequence[str]], list[list[Hit]]], top_k: int = CUT
) -> dict[str, float]:
    """Computes the metrics of a search, equal to those of trec_eval for a run with its hits.

    Args:
        judged: queries with relevances.
        search: returns the hits of each query, at least `top_k` if there are as many documents.
        top_k: recall is also computed among the first `top_k`, if they are more than ten.

    Returns:
        The means over queries: "mrr_at_10", "ndcg_at_10", "recall_at_10" and "recall_at_<top_k>".
    """
    ranked = []
    for start in range(0, len(judged.texts), _CHUNK):
        part = slice(start, start + _CHUNK)
        for hits, gains in zip(search(judged.texts[part]), judged.relevances[part], strict=True):
            order = rank_documents([hit.score for hit in hits], [hit.id for hit in hits])
            ranked.append([gains.get(hits[place].id, 0) for place in order])
    relevances = [list(gains.values()) for gains in judged.relevances]
    metrics = ranking_metrics(ranked, relevances)
    del metrics["map"]  # it depends on the number of hits, which is not that of a whole run here
    return metrics | {f"recall_at_{k}": recall_at(ranked, relevances, k) for k in sorted({CUT, max(CUT, top_k)})}
