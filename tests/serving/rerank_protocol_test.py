"""The rerank call of Cohere and Jina: what is followed, what is refused, and the form of errors."""

import json

import numpy as np
import pytest

from tests import other_envs
from tests.serving.requests import send

PATHS = ("/rerank", "/v1/rerank", "/v2/rerank")
QUERY, DOCUMENTS = "a warm film", ["music", "the story of people", "dull and cold", "good"]
CLIENT = """
import json, sys, cohere
client = cohere.ClientV2("none", base_url=f"http://localhost:{sys.argv[1]}")
found = client.rerank(model="reranker", query=sys.argv[2], documents=json.loads(sys.argv[3]), top_n=3)
print(json.dumps([[each.index, each.relevance_score] for each in found.results]))
"""


def ranking(server):
    body = {"instances": [{"query": QUERY, "documents": DOCUMENTS}]}
    status, found = send(server, "/v1/models/reranker:predict", body)
    assert status == 200, found
    (row,) = found["predictions"]
    return [(index, row["scores"][index]) for index in row["order"]]


@pytest.mark.parametrize("path", PATHS)
def test_documents_in_order_of_their_scores(ask, tasks, path):
    status, found = ask(path, {"query": QUERY, "documents": DOCUMENTS, "model": "reranker"})
    assert status == 200
    assert [(each["index"], each["relevance_score"]) for each in found["results"]] == ranking(tasks)
    assert set(found["results"][0]) == {"index", "relevance_score"}
    assert (found["model"], found["usage"]) == ("reranker", {"total_tokens": 4 * 3 + 9})
    scores = [each["relevance_score"] for each in found["results"]]
    assert scores == sorted(scores, reverse=True)


def test_objects_top_n_and_documents_in_the_response(ask, tasks):
    documents = [{"text": text} for text in DOCUMENTS]
    body = {"query": QUERY, "documents": documents, "top_n": 2, "return_documents": True}
    found = ask("/v1/rerank", body)[1]
    (first, score), *_ = ranking(tasks)
    assert found["results"][0] == {"index": first, "relevance_score": score, "document": {"text": DOCUMENTS[first]}}
    assert len(found["results"]) == 2
    assert len(ask("/v1/rerank", body | {"top_n": 9})[1]["results"]) == 4


@pytest.mark.parametrize(
    "body, status, message",
    [
        ({"documents": ["a"]}, 400, "The body must have the member 'query'"),
        ({"query": "a"}, 400, "The body must have the member 'documents'"),
        ({"query": ["a"], "documents": ["a"]}, 400, "'query' must be a string"),
        ({"query": "a", "documents": []}, 400, "'documents' must not be empty"),
        ({"query": "a", "documents": "a"}, 400, "'documents' must be a list"),
        ({"query": "a", "documents": ["a", 3]}, 400, "the one at index 1 is not"),
        ({"query": "a", "documents": [{"text": "a", "title": "b"}]}, 400, 'unsupported member "title"'),
        ({"query": "a", "documents": ["a", " "]}, 400, "index 1 is blank"),
        ({"query": "a", "documents": ["a"], "top_n": 0}, 400, "'top_n' must be at least 1"),
        ({"query": "a", "documents": ["a"], "top_n": 1.5}, 400, "'top_n' must be a whole number"),
        ({"query": "a", "documents": ["a"], "rank_fields": ["text"]}, 400, 'unsupported member "rank_fields"'),
        ({"query": "a", "documents": ["a"], "model": "nobody"}, 404, "Servable not found"),
        ({"query": "a", "documents": ["a"], "model": "embedder"}, 400, "does not serve reranking"),
        ({"query": "a", "documents": ["a"] * 5000}, 400, "4096"),
        (b"[1", 400, "JSON Parse error"),
    ],
)
def test_refusals_in_the_forms_of_cohere_and_jina(ask, body, status, message):
    found, answer = ask("/v1/rerank", body)
    assert found == status
    assert message in answer["message"]
    assert answer == {"message": answer["message"], "detail": answer["message"]}


@pytest.mark.slow
def test_coheres_client(tasks):
    out = other_envs.run(other_envs.clients_python(), CLIENT, tasks.rest_port, QUERY, json.dumps(DOCUMENTS))
    found, expected = json.loads(out.splitlines()[-1]), ranking(tasks)[:3]
    assert [index for index, _ in found] == [index for index, _ in expected]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], atol=1e-7)
