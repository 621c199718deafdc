"""A reranker over the hits of a search: ordered by the scores of a cross-encoder, in Python, by command and by REST."""

import json
import re

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints import writers
from bert_tf.cli import serve as serve_command
from bert_tf.inference import reranker
from bert_tf.inference.reranker import Reranker, combine_scores
from bert_tf.inference.search import Hit, SearchIndex
from bert_tf.utils.settings import options_of
from tests import tiny
from tests.documentation import checks
from tests.export.conversion import models
from tests.inference.search_service_test import post
from tests.run_cases import run_here

DOCUMENTS = {f"d{n}": text for n, (text, _) in enumerate(tiny.texts(40, seed=3))}
QUERY = "a good film"


@pytest.fixture(scope="module")
def export(exported):
    return exported("reranking")


@pytest.fixture(scope="module")
def index(model, tmp_path_factory):
    index = SearchIndex.create(tmp_path_factory.mktemp("search") / "index", model)
    index.add([*DOCUMENTS], [*DOCUMENTS.values()])
    return index


@pytest.fixture(scope="module")
def expected(export, index):
    """The hits of QUERY among the first 20, as the reranker orders them."""
    [hits] = index.search([QUERY], 20)
    scores = bert_tf.Predictor(export)((QUERY, [hit.text for hit in hits]))["scores"]
    scored = sorted(zip(scores, hits, strict=True), key=lambda pair: -pair[0])
    assert [hit for _, hit in scored] != hits  # or nothing would be reranked
    return [hit._replace(score=score) for score, hit in scored]


def _check(found, expected):
    assert [hit["id"] for hit in found] == [hit.id for hit in expected]
    assert [hit["score"] for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)


@pytest.mark.slow
def test_hits_are_ordered_by_the_scores_of_the_model(export, index, expected):
    queries = [QUERY, "music"]
    hits = index.search(queries, 20)
    found = Reranker(export)([*queries, "none"], [*hits, [Hit("empty", 0.5, " ", {})]])
    _check([hit._asdict() for hit in found[0]], expected)
    assert {hit.id for hit in found[1]} == {hit.id for hit in hits[1]} and found[2] == []


@pytest.mark.slow
def test_scores_are_combined_with_those_of_the_search(export, index, tmp_path):
    [hits] = index.search([QUERY], 20)
    reranker = Reranker(export, weight=0.25)
    [alone], [found] = Reranker(export)([QUERY], [hits]), reranker([QUERY], [hits])
    cosines, logits = {hit.id: hit.score for hit in hits}, dict(zip(
        [hit.id for hit in alone], reranker.to_logits([hit.score for hit in alone]), strict=True))  # fmt: skip
    names, parts = [hit.id for hit in hits], []
    for scores in (logits, cosines):
        values = np.array([scores[name] for name in names])
        parts.append((values - values.mean()) / values.std())
    expected = dict(zip(names, 0.25 * parts[0] + 0.75 * parts[1], strict=True))
    assert [hit.id for hit in found] == sorted(names, key=expected.get, reverse=True) != [hit.id for hit in alone]
    assert [hit.score for hit in found] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-4)
    words = [f"--index_dir={index.directory}", f"--rerank={export}", "--rerank_top_k=20", "--rerank_weight=0.25"]
    ended = run_here("search", [*words, "--json", QUERY])
    assert [each["id"] for each in json.loads(ended["log"].splitlines()[-1])["results"]] == [
        hit.id for hit in found[:10]]  # fmt: skip
    refused = run_here("search", [words[0], words[3], QUERY])
    assert refused["status"] == 1 and "--rerank_weight requires --rerank. Add" in refused["log"]
    for weight in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="`weight` must be a number from 0 to 1; got"):
            Reranker(export, weight)
    assert combine_scores([2, 2], [1, 3], 0.5) == [-0.5, 0.5] and reranker(["none"], [[]]) == [[]]


@pytest.mark.slow
def test_the_command_reranks(export, index, expected):
    words = [f"--index_dir={index.directory}", f"--rerank={export}", "--top_k=3", QUERY]
    ended = run_here("search", [*words, "--rerank_top_k=20", "--json"])
    assert ended["status"] == 0, ended["log"]
    _check(json.loads(ended["log"].splitlines()[-1])["results"], expected[:3])
    best = run_here("search", [*words, "--rerank_top_k=20"])["log"].splitlines()[-3]
    assert best == f"  {expected[0].score:.4f}  {expected[0].id:>8}  {expected[0].text}"
    alone = run_here("search", [words[0], "--rerank_top_k=20", QUERY])
    assert alone["status"] == 1 and "--rerank_top_k requires --rerank. Add" in alone["log"]
    fewer = run_here("search", [*words, "--rerank_top_k=2"])
    assert fewer["status"] == 1 and "got --rerank_top_k=2 and --top_k=3; raise --rerank_top_k or" in fewer["log"]


@pytest.mark.slow
def test_the_route_of_a_server_reranks(export, index, expected):
    words = ["--port=0", "--rest_api_port=0", f"--search_index={index.directory}", f"--search_reranker={export}"]
    server = serve_command.start_server(options_of(serve_command.SETTINGS, checks.read("serve", words)[0]))
    try:
        status, found = post(server, {"queries": [QUERY], "top_k": 5, "rerank_top_k": 20})
        assert status == 200
        _check(found["results"][0], expected[:5])
        status, found = post(server, {"queries": ["a"] * 3})
        assert status == 200 and [len(hits) for hits in found["results"]] == [10] * 3
        assert post(server, {"queries": ["a"] * 3, "rerank_top_k": 50}) == (
            400, "A request may ask for at most 100 documents; this one asks for 150 (3 queries x 50); send fewer "
            "queries or a smaller rerank_top_k"
        )  # fmt: skip
        status, found = post(server, {"queries": ["a"] * 11, "rerank_top_k": 8})  # which the default of top_k follows
        assert status == 200 and [len(hits) for hits in found["results"]] == [8] * 11
        assert post(server, {"queries": ["a"], "rerank_top_k": 0})[1] == (
            "'rerank_top_k' must be a positive integer"
        )
        assert post(server, {"queries": ["a"], "rerank_top_k": 5, "top_k": 10}) == (
            400, "'rerank_top_k' must be at least 'top_k' (10); it is 5"
        )  # fmt: skip
    finally:
        server.stop()


def test_another_model_is_refused(exported, trained):
    message = r"`rerank` must be a reranker, with the inputs query, documents\. .* has text\.$"
    for path in (trained("classification"), exported("classification")):
        with pytest.raises(ValueError, match=message):
            Reranker(path)


@pytest.mark.slow
def test_a_reranker_of_others_without_an_activation_is_told_how_to_name_it(tmp_path):
    """As BAAI/bge-reranker-base is published: one output, and no key of sentence-transformers."""
    writers.write_model(tmp_path, "huggingface", models.model("bert", "regression"))
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8")) | {"id2label": {"0": "LABEL_0"}}
    del config["num_labels"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=r"must be a reranker, .* has text\. Its files name no activation") as refused:
        Reranker(tmp_path)
    [key] = re.findall(r"add (.*) to its config\.json", str(refused.value))
    (tmp_path / "config.json").write_text(json.dumps(config | json.loads(f"{{{key}}}")), encoding="utf-8")
    [[hit]] = Reranker(tmp_path)([QUERY], [[Hit("d1", 0.5, "a film", {})]])
    assert 0 < hit.score < 1


def test_hits_of_equal_scores_keep_their_order(monkeypatch):
    scored = []

    def predict(examples, _):
        scored.extend(text for _, documents in examples for text in documents)
        return [{"scores": [1.0 if text == "the best" else 0.5 for text in documents]} for _, documents in examples]

    monkeypatch.setattr(reranker, "load_predictor", lambda *_: predict)
    texts = ["of medium length", "short", "the best", *(f"one of the longest texts {n}" for n in range(20)), "tiny"]
    found = Reranker("model")([QUERY], [[Hit(text, 0.1, text, {}) for text in texts]])[0]
    assert scored != texts  # by length, or the order would be kept anyway
    assert [hit.id for hit in found] == ["the best", *(text for text in texts if text != "the best")]
