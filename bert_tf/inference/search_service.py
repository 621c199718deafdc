"""The search route of a server: from a JSON request to the documents that an index has, and answers found in them."""

import os
from typing import Any

from bert_tf.inference.reranker import Reranker
from bert_tf.inference.search import SearchIndex
from bert_tf.inference.search_reader import SearchReader
from bert_tf.serving.errors import invalid
from bert_tf.serving.server import metrics
from bert_tf.serving.server.fair_semaphore import FairSemaphore
from bert_tf.serving.server.request_context import RequestContext

PATH = "/v1/search"
_TOP_K, _RERANK_TOP_K = 10, 50
_MAX_HITS, _MAX_READ = 10_000, 100  # documents of one response, and of one that is read for scores or answers
_KEYS = ("queries", "top_k")
_RERANK = "rerank_top_k"  # a key of requests to a server with a reranker


class SearchService:
    """Answers search requests from an index; changes to the index take effect with the next request.

    A request is a JSON object: `queries`, a list of texts, and optionally `top_k`, documents per query (10). The
    response has `results`: for each query the list of its documents, each with `id`, `score`, `text` and `payload`, the
    highest cosine first. With a reranker it is the highest of its scores (or of combined ones), among the
    `rerank_top_k` documents that the index returns (50, or `top_k` if that is more). With a reader it also has
    `answers`: for each query a list of `answer`, `score`, `start`, `end` and `id` of the document, the best first. Both
    defaults are lower if a request has so many queries that it would ask for more documents than it may.

    Args:
        directory: directory of the index.
        model: the model that embeds queries. If None, its path when the index was created.
        reader: directory of a question-answering model, as in `SearchReader`. If None, nothing is read.
        reranker: directory of a reranker, as in `Reranker`. If None, documents are ordered by cosine.
        approximate: as in `SearchIndex`.
        rerank_weight: `weight` of the `Reranker`.

    Raises:
        ValueError: there is no index, no such model, or it is not the model of the index.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        model: str | os.PathLike | None = None,
        reader: str | os.PathLike | None = None,
        reranker: str | os.PathLike | None = None,
        approximate: bool = False,
        rerank_weight: float = 1.0,
    ):
        self._index = SearchIndex(directory, model, approximate)
        self._reranker = Reranker(reranker, rerank_weight) if reranker else None
        self._reader = SearchReader(reader) if reader else None
        self._turns = FairSemaphore(1)  # one search uses all cores
        self._index.search([""], top_k=1)  # the first request is as fast as the next
        self._index.query_counts.take()  # which is no request

    def __call__(self, document: dict[str, Any], call: RequestContext) -> dict[str, Any]:
        """Returns the response to a request.

        Args:
            document: the request.
            call: its deadline and limits.

        Raises:
            ServingError: the request is invalid or too large, or its caller gave up before its turn.
        """
        queries = _queries(document, call.limits, (*_KEYS, _RERANK) if self._reranker else _KEYS)
        most = _MAX_READ if self._reader or self._reranker else _MAX_HITS
        share = max(1, most // len(queries))
        top_k = count = _count(document, "top_k", min(_TOP_K, share, _count(document, _RERANK, share)))
        if self._reranker:
            count = _count(document, _RERANK, max(top_k, min(_RERANK_TOP_K, share)))
            if count < top_k:
                raise invalid(f"'{_RERANK}' must be at least 'top_k' ({top_k}); it is {count}")
        if len(queries) * count > most:
            raise invalid(
                f"A request may ask for at most {most} documents; this one asks for {len(queries) * count} "
                f"({len(queries)} queries x {count}); send fewer queries"
                f"{f' or a smaller {_RERANK if count > top_k else _KEYS[1]}' if count > 1 else ''}"
            )
        with self._turns.turn(call):
            call.check()
            self._index.refresh()
            hits = self._index.search(queries, count)
            metrics.observe_tokens(PATH, self._index.query_counts.take())
            call.check()  # models that read documents can take much longer than the search
            if self._reranker:
                hits = [found[:top_k] for found in self._reranker(queries, hits)]
            response = {"results": [[hit._asdict() for hit in found] for found in hits]}
            if self._reader:
                call.check()
                answers = self._reader(queries, hits)
                response["answers"] = [[answer._asdict() for answer in found] for found in answers]
        return response


def _queries(document, limits, keys):
    if unknown := sorted(set(document) - set(keys)):
        raise invalid(f"Unknown key '{unknown[0]}'; a search request has {' and '.join(keys)}")
    queries = document.get("queries")
    if not isinstance(queries, list) or not queries or not all(isinstance(text, str) and text for text in queries):
        raise invalid("'queries' must be a list of one or more texts, none of them empty")
    limits.check_rows(len(queries))
    sizes = [len(text.encode("utf-8", "replace")) for text in queries]
    limits.check_texts(sizes)
    limits.check_tokens(sum(sizes) // 4)
    return [text.encode("utf-8", "ignore").decode() for text in queries]


def _count(document, key, default):
    count = document.get(key, default)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise invalid(f"'{key}' must be a positive integer")
    return count
