"""Metrics of ranked documents, equal to trec_eval's: reciprocal rank, nDCG, mean average precision and recall."""

from collections.abc import Sequence

import numpy as np

METRICS = ("mrr_at_10", "ndcg_at_10", "map")
CUT = 10  # documents of a query that MRR and nDCG look at


def rank_documents(scores: Sequence[float], ids: Sequence[str]) -> list[int]:
    """Returns the indices of documents in trec_eval's order: the highest score first, in ties the highest id.

    Args:
        scores: one per document; compared in float32, as trec_eval does.
        ids: the documents' ids, which are compared as strings.
    """
    scores = np.asarray(scores, np.float32)
    by_id = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
    return sorted(by_id, key=lambda document: -scores[document])


def ranking_metrics(ranked: Sequence[Sequence[int]], judged: Sequence[Sequence[int]] | None = None) -> dict[str, float]:
    """Computes the means over queries of `METRICS`; a document is relevant if its relevance is 1 or more.

    The gain of nDCG is the relevance, the discount log2(1 + rank) (Järvelin and Kekäläinen 2002); in trec_eval,
    `ndcg_cut.10` and `map`, and `recip_rank` of the first ten documents.

    Args:
        ranked: for each query, the relevances of its documents, the best-ranked first.
        judged: for each query, the relevances of all documents that it has, in any order. If None, all are ranked.
    """
    pairs = list(zip(ranked, ranked if judged is None else judged, strict=True))
    values = [[of(*map(np.asarray, pair)) for pair in pairs] for of in (_reciprocal_rank, _ndcg, _average_precision)]
    return {name: float(np.mean(of_queries)) for name, of_queries in zip(METRICS, values, strict=True)}


def recall_at(ranked: Sequence[Sequence[int]], judged: Sequence[Sequence[int]], k: int) -> float:
    """Computes the mean over queries of the fraction of relevant documents among the first k; trec_eval's `recall.k`.

    A query without relevant documents counts as 0.

    Args:
        ranked, judged: as in `ranking_metrics`.
        k: number of documents, from 1.
    """
    counts = [((np.asarray(found[:k]) > 0).sum(), (np.asarray(of) > 0).sum())
              for found, of in zip(ranked, judged, strict=True)]  # fmt: skip
    return float(np.mean([found / max(1, of) for found, of in counts]))


def first_relevant(ranked: Sequence[int]) -> int:
    """Returns the rank of the first relevant document, from 1; if there is none, the rank after the last one."""
    found = np.flatnonzero(np.asarray(ranked) > 0)
    return int(found[0]) + 1 if len(found) else len(ranked) + 1


def _reciprocal_rank(ranked, judged):
    rank = first_relevant(ranked)
    return 1 / rank if rank <= min(CUT, len(ranked)) else 0.0


def _ndcg(ranked, judged):
    ideal = _dcg(np.sort(judged)[::-1])
    return _dcg(ranked) / ideal if ideal else 0.0


def _dcg(relevances):
    gains = np.maximum(relevances[:CUT], 0)
    return float((gains / np.log2(2 + np.arange(len(gains)))).sum())


def _average_precision(ranked, judged):
    relevant = ranked > 0
    precisions = np.cumsum(relevant) / (1 + np.arange(len(ranked)))
    count = int((judged > 0).sum())
    return float(precisions[relevant].sum()) / count if count else 0.0
