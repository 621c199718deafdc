"""The search route of a server: hits and answers over REST, changes of the index, and requests that are refused."""

import json
import os
import pathlib
import shutil
import urllib.error
import urllib.request

import pytest

from bert_tf.cli import serve as serve_command
from bert_tf.inference import nearest_neighbors
from bert_tf.inference.search import Hit, SearchIndex
from bert_tf.inference.search_reader import SearchReader
from bert_tf.inference.search_service import PATH, SearchService
from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import metrics
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.server import serve
from bert_tf.utils.settings import options_of
from tests import tiny
from tests.documentation import checks
from tests.run_cases import run_here

DOCUMENTS = {"a": "the story of people , and music", "b": "a warm film is good to see"}


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    """The folder of an index of `DOCUMENTS`."""
    index = SearchIndex.create(tmp_path_factory.mktemp("search") / "index", model)
    index.add([*DOCUMENTS], [*DOCUMENTS.values()], [{"page": number} for number in range(len(DOCUMENTS))])
    return index.directory


@pytest.fixture
def index(written, tmp_path):
    return SearchIndex(shutil.copytree(written, tmp_path / "index"))


def post(server, body, path=PATH):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{server.rest_port}{path}", data)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["error"]


def asked(index, queries, top_k=10):
    return [[hit._asdict() for hit in found] for found in index.search(queries, top_k)]


def test_hits_are_those_of_the_index_and_follow_its_changes(index, tmp_path):
    queries = ["a film — 音楽", "music"]
    with serve(routes={PATH: SearchService(index.directory)}) as server:
        before = metrics.count_of("/bert_tf/serving/unknown_token_count")
        assert post(server, {"queries": queries}) == (200, {"results": asked(index, queries)})
        assert metrics.count_of("/bert_tf/serving/unknown_token_count") == before + 3  # a dash and two characters
        _, found = post(server, {"queries": queries, "top_k": 1})
        assert found == {"results": asked(index, queries, 1)} and [len(hits) for hits in found["results"]] == [1, 1]
        index.add(["c"], ["music and people"])
        index.delete(["a"])
        _, found = post(server, {"queries": ["music"]})
        assert {hit["id"] for hit in found["results"][0]} == {"b", "c"}
        with urllib.request.urlopen(f"http://127.0.0.1:{server.rest_port}/readyz") as response:
            assert json.load(response) == {"ready": True, "models": {}}
        # Created again, by another model.
        shutil.rmtree(index.directory)
        other = SearchIndex.create(index.directory, tiny.checkpoint(tmp_path / "other", hidden_size=64))
        other.add(["d"], ["other people"])
        assert post(server, {"queries": ["music"]}) == (200, {"results": asked(other, ["music"])})


@pytest.mark.slow
def test_a_server_with_graphs_finds_the_same(index, monkeypatch):
    pytest.importorskip("usearch", reason="needs bert-tf[search]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 3)
    index.add(["c", "d"], ["music and people", "a dull film"])
    index.add(["e", "f", "g"], ["a good film", "it is music", "cold people"])
    words = ["--port=0", "--rest_api_port=0", f"--search_index={index.directory}", "--search_approximate"]
    server = serve_command.start_server(options_of(serve_command.SETTINGS, checks.read("serve", words)[0]))
    queries = ["a film — 音楽", "music"]
    try:
        for k in (2, 10):
            _, found = post(server, {"queries": queries, "top_k": k})
            for hits, exact in zip(found["results"], asked(index, queries, k), strict=True):
                assert hits == [{**hit, "score": pytest.approx(hit["score"], abs=1e-6)} for hit in exact]
    finally:
        server.stop()
    assert list(pathlib.Path(index.directory).glob("*/graph.usearch"))


@pytest.mark.slow
def test_a_reader_answers_from_the_hits(index, exported):
    reader = exported("questions")
    words = ["--port=0", "--rest_api_port=0", f"--search_index={index.directory}", f"--search_reader={reader}"]
    server = serve_command.start_server(options_of(serve_command.SETTINGS, checks.read("serve", words)[0]))
    try:
        status, found = post(server, {"queries": ["a film"]})
        [answers] = SearchReader(reader)(["a film"], index.search(["a film"]))
        assert status == 200 and found == {
            "results": asked(index, ["a film"]), "answers": [[each._asdict() for each in answers]]
        }  # fmt: skip
        assert answers and found["answers"][0][0]["answer"] == answers[0].answer
        assert post(server, {"queries": ["a"] * 11})[0] == 200  # with a lower default
        assert post(server, {"queries": ["a"] * 11, "top_k": 10}) == (
            400, "A request may ask for at most 100 documents; this one asks for 110 (11 queries x 10); send fewer "
            "queries or a smaller top_k"
        )  # fmt: skip
    finally:
        server.stop()


REFUSED = [
    (b"{", 400, "JSON Parse error"),
    (b'{"queries": ["\\ud800 film"]}', 400, "JSON Parse error"),
    ([], 400, "Is not object"),
    ({"queries": ["a"], "query": "b"}, 400, "Unknown key 'query'; a search request has queries and top_k"),
    ({}, 400, "'queries' must be a list of one or more texts, none of them empty"),
    ({"queries": "a"}, 400, "'queries' must be a list"),
    ({"queries": []}, 400, "'queries' must be a list"),
    ({"queries": ["a", ""]}, 400, "'queries' must be a list"),
    ({"queries": ["a", 1]}, 400, "'queries' must be a list"),
    ({"queries": ["a"], "top_k": 0}, 400, "'top_k' must be a positive integer"),
    ({"queries": ["a"], "top_k": True}, 400, "'top_k' must be"),
    ({"queries": ["a"], "top_k": 2.5}, 400, "'top_k' must be"),
    ({"queries": ["a"], "top_k": 10_001}, 400, "A request may ask for at most 10000 documents"),
    ({"queries": ["a"] * 4096, "top_k": 10}, 400, "asks for 40960 (4096 queries x 10); send fewer queries or"),
    ({"queries": ["a"] * 5000, "top_k": 1}, 400, "A request may have 4096 rows and has 5000"),
    ({"queries": ["a" * 2**20]}, 400, "A request may have 196608 tokens and has about 262144"),
]


def test_requests_that_are_refused(index):
    with serve(routes={PATH: SearchService(index.directory)}) as server:
        for body, status, message in REFUSED:
            found = post(server, body)
            assert found[0] == status and message in found[1], (str(body)[:80], found)
        index.delete([*DOCUMENTS])
        assert post(server, {"queries": ["a"]}) == (200, {"results": [[]]})
        shutil.rmtree(index.directory)
        assert post(server, {"queries": ["a"]}) == (
            500, "The server failed on this request; see its log for the cause"
        )  # fmt: skip


@pytest.mark.parametrize("part", ["_reranker", "_reader"])
def test_no_model_reads_for_a_caller_that_is_gone(part, index, monkeypatch):
    service, gone = SearchService(index.directory), []
    monkeypatch.setattr(service, part, lambda *_: pytest.fail("read for nobody"))
    monkeypatch.setattr(SearchIndex, "search", lambda *_: gone.append(True) or [])  # it leaves during the search
    with pytest.raises(ServingError, match="The client disconnected"):
        service({"queries": ["music"]}, RequestContext(is_gone=lambda: bool(gone)))


@pytest.mark.parametrize(("reads", "queries", "counts"), [
    (True, 1, (10, 50)), (True, 3, (10, 33)), (True, 11, (9, 9)), (True, 100, (1, 1)), (False, 4000, (2, 2)),
])  # fmt: skip
def test_a_request_without_counts_never_asks_for_too_much(reads, queries, counts, index, monkeypatch):
    service, asked_for = SearchService(index.directory), []
    hits = [Hit(str(n), 1.0, "a", {}) for n in range(60)]
    monkeypatch.setattr(service, "_reranker", (lambda texts, found: found) if reads else None)
    monkeypatch.setattr(SearchIndex, "search", lambda _, texts, k: asked_for.append(k) or [hits[:k]] * len(texts))
    monkeypatch.setattr("bert_tf.inference.search_service._queries", lambda document, *_: document["queries"])
    found = service({"queries": ["a"] * queries}, RequestContext())["results"]
    assert (len(found[0]), asked_for[-1]) == counts and len(found) == queries
    if reads:
        with pytest.raises(ServingError, match=r"asks for 101 \(101 queries x 1\); send fewer queries$"):
            service({"queries": ["a"] * 101}, RequestContext())


def test_there_is_no_route_without_an_index(tmp_path):
    (tmp_path / "models").mkdir()
    with serve(str(tmp_path / "models")) as server:
        assert post(server, {"queries": ["a"]}) == (400, f"Malformed request: POST {PATH}")


@pytest.mark.parametrize(
    "words, message",
    [
        (["--search_reader=models"], "--search_reader requires --search_index"),
        (["--search_index=nowhere"], "nowhere"),
        (["--search_index={index}", "--search_model={none}"], "Model not found"),
        (["--search_index={index}", "--search_reader={none}"], "none"),
    ],
)
def test_what_cannot_be_searched_ends_the_command(words, message, index, tmp_path):
    paths = {"index": index.directory, "none": os.path.join(tmp_path, "none")}
    ended = run_here("serve", ["--port=0", "--rest_api_port=0", *(word.format(**paths) for word in words)])
    assert ended["status"] == 1 and message in ended["log"], ended["log"]
