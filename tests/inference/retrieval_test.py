"""Evaluation of a search by relevances: metrics by hand, in Python and by the command, and files that do not fit."""

import json

import numpy as np
import pytest

from bert_tf.inference.reranker import Reranker
from bert_tf.inference.retrieval import JudgedQueries, evaluate_search
from bert_tf.inference.search import Hit, SearchIndex
from tests import tiny
from tests.run_cases import run_here

WORDS = [*tiny.GOOD, *tiny.BAD, *tiny.FILL]
DOCUMENTS = {f"d{number}": " ".join([word, word, "a film"]) for number, word in enumerate(WORDS)}


@pytest.fixture(scope="module")
def index(varied_model, tmp_path_factory):
    index = SearchIndex.create(tmp_path_factory.mktemp("search") / "index", varied_model)
    index.add([*DOCUMENTS], [*DOCUMENTS.values()])
    return index


def _hits(names, scores):
    return [Hit(name, score, name, {}) for name, score in zip(names, scores, strict=True)]


def test_metrics_by_hand():
    judged = JudgedQueries(["a", "b"], [{"d1": 2, "d9": 1, "gone": 1}, {"d0": 1, "d2": 0}])
    found = {"a": _hits([f"d{n}" for n in range(12)], range(12, 0, -1)),
             "b": _hits(["d2", "d0"], [0.5, 0.5])}  # fmt: skip
    metrics = evaluate_search(judged, lambda queries: [found[query] for query in queries], 12)
    ideal = 2 + 1 / np.log2(3) + 1 / 2
    assert metrics == pytest.approx({
        "mrr_at_10": (1 / 2 + 1 / 2) / 2,  # of equal scores, trec_eval takes the higher id first
        "ndcg_at_10": ((2 / np.log2(3) + 1 / np.log2(11)) / ideal + 1 / np.log2(3)) / 2,
        "recall_at_10": (2 / 3 + 1) / 2, "recall_at_12": (2 / 3 + 1) / 2,
    })  # fmt: skip


@pytest.fixture
def files(tmp_path):
    """The flags of an evaluation in which each query is the text of its only relevant document, or of none."""
    names = list(DOCUMENTS)[:4]
    lines = [{"_id": f"q-{name}", "text": DOCUMENTS[name]} for name in [*names, "d5"]]
    (tmp_path / "queries.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    qrels = [*(f"q-{name} 0 {name} 1" for name in names[:3]), f"q-{names[3]} 0 gone 1"]
    (tmp_path / "qrels.txt").write_text("\n".join(qrels) + "\n", encoding="utf-8")
    return [f"--queries_file={tmp_path}/queries.jsonl", f"--qrels_file={tmp_path}/qrels.txt"]


def test_the_command_evaluates(index, files):
    words = [f"--index_dir={index.directory}", *files]
    ended = run_here("search", [*words, "--json", "--top_k=15"])
    assert ended["status"] == 0, ended["log"]
    found = json.loads(ended["log"].splitlines()[-1])
    share = 3 / 4  # the fourth document is not in the index
    assert found == pytest.approx(
        {"num_queries": 4, "mrr_at_10": share, "ndcg_at_10": share, "recall_at_10": share, "recall_at_15": share}
    )
    assert "lacks 1 of the 4 relevant documents" in ended["log"]
    lines = run_here("search", words)["log"].splitlines()[-4:]
    assert lines == ["4 queries", "mrr_at_10 = 0.7500", "ndcg_at_10 = 0.7500", "recall_at_10 = 0.7500"]


@pytest.mark.slow
def test_a_reranker_is_evaluated_with_the_search(index, files, trained):
    model = trained("reranking")
    words = [f"--index_dir={index.directory}", *files, f"--rerank={model}", "--rerank_top_k=12", "--json"]
    ended = run_here("search", words)
    assert ended["status"] == 0, ended["log"]
    names, reranker = list(DOCUMENTS)[:4], Reranker(model)
    judged = JudgedQueries([DOCUMENTS[name] for name in names],
                           [{name: 1} for name in names[:3]] + [{"gone": 1}])  # fmt: skip
    expected = evaluate_search(judged, lambda queries: [found[:10] for found in
                                                        reranker(queries, index.search(queries, 12))])  # fmt: skip
    assert json.loads(ended["log"].splitlines()[-1]) == pytest.approx({"num_queries": 4, **expected})


@pytest.mark.parametrize(("words", "message"), [
    (["--top_k=5"], "--top_k must be 10 or more with --qrels_file, for nDCG@10; got 5"),
    (["a film"], "--queries_file cannot be combined with queries as arguments"),
    (["--reader=x"], "--qrels_file and --reader cannot be combined"),
    (["--qrels_file="], "--queries_file requires --qrels_file"),
    (["--qrels_file=OTHER"], "create the index with the ids of your documents"),
    (["--qrels_file=NONE"], "must have relevant documents, of relevance 1 or more"),
])  # fmt: skip
def test_what_cannot_be_evaluated_is_refused(words, message, index, files, tmp_path):
    (tmp_path / "OTHER").write_text("q-d0 0 17 1\n", encoding="utf-8")
    (tmp_path / "NONE").write_text("q-d0 0 d0 0\n", encoding="utf-8")
    words = [word.replace("OTHER", f"{tmp_path}/OTHER").replace("NONE", f"{tmp_path}/NONE") for word in words]
    ended = run_here("search", [f"--index_dir={index.directory}", *files, *words])
    assert ended["status"] == 1 and message in ended["log"], ended["log"]
