"""The rerank call of Cohere and Jina: POST /rerank, /v1/rerank and /v2/rerank."""

from typing import Any

import numpy as np

from bert_tf.serving.errors import invalid
from bert_tf.serving.server import json_responses
from bert_tf.serving.server.predict import run_predict
from bert_tf.serving.server.protocols.adapter import AdapterRequest, Protocol, checked_members, member, read_inputs
from bert_tf.serving.server.protocols.served_tasks import RERANKING, leased
from bert_tf.serving.server.protocols.token_counting import count_read_tokens


def order_documents(request: AdapterRequest, version, signature, inputs, name: str) -> list[tuple[int, np.float32]]:
    """Returns [(index of a document, its score)], the best first.

    Args:
        request: the request.
        version: version of a reranker.
        signature: its default signature.
        inputs: {input alias: array} of one query and its documents.
        name: member of the body that has the documents, for messages.

    Raises:
        ServingError: a document is blank, which has no score, or the request is rejected.
    """
    outputs = run_predict(version, signature, inputs, ["scores", "order"], request.call)
    order, scores = outputs["order"][0], outputs["scores"][0]
    if blank := sorted({*range(len(scores))} - {*order.tolist()}):
        raise invalid(f"'{name}' must not have blank texts, which have no score; index {blank[0]} is blank")
    return [(int(index), scores[index]) for index in order]


def rerank(request: AdapterRequest) -> str:
    """Returns the response to a rerank call of Cohere or Jina."""
    members = request.members(("query", "documents"), ("model", "top_n", "return_documents"))
    documents = _documents(member(members, "documents", list))
    top = member(members, "top_n", int, len(documents))
    if top < 1:
        raise invalid(f"'top_n' must be at least 1; got {top}")
    is_returned = member(members, "return_documents", bool, False)
    columns = {"query": [member(members, "query", str)], "documents": [documents]}
    with leased(request, RERANKING, name=member(members, "model", str)) as (version, signature):
        inputs = read_inputs(signature, columns, request.call)
        ranking = order_documents(request, version, signature, inputs, "documents")
        counts = count_read_tokens(version, columns, request.call)
    results: list[dict[str, Any]] = [{"index": index, "relevance_score": score} for index, score in ranking[:top]]
    if is_returned:
        results = [each | {"document": {"text": documents[each["index"]]}} for each in results]
    answer: dict[str, Any] = {"model": request.spec.name, "results": results}
    if counts is not None:
        answer["usage"] = {"total_tokens": counts.tokens}
    return json_responses.document(answer)


def _documents(values):
    """Returns the texts of documents, each a string or an object with the member `text`."""
    if not values:
        raise invalid("'documents' must not be empty")
    found = []
    for i, value in enumerate(values):
        if isinstance(value, dict):
            value = checked_members(value, ("text",), (), f"'documents' at index {i}")["text"]
        if not isinstance(value, str):
            raise invalid(f"'documents' must be strings or objects with the string 'text'; the one at index {i} is not")
        found.append(value)
    return found


def _write_error(status, message):
    """Returns the error under Cohere's key, `message`, and under Jina's, `detail`."""
    return status, json_responses.document({"message": message, "detail": message})


RERANK = Protocol("rerank", {("POST", r"(?:/v[12])?/rerank"): rerank}, _write_error)
