"""bert-tf train reranker as a user runs it: queries with documents in, scores and metrics out, served."""

import concurrent.futures
import json
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.serving.client.client import Client
from bert_tf.serving.client.results import Ranking
from bert_tf.serving.server.batching_limits import BatchingLimits
from bert_tf.serving.server.server import serve
from tests import tiny
from tests.conftest import ROOT
from tests.tasks.program_tests import *  # noqa: F403
from tests.tasks.program_tests import json_lines, scores_of, table_of
from tests.tasks.reranking import support

pytestmark = pytest.mark.slow  # run_squad goes the same way among the fast tests

PROGRAM = "run_reranker"
TRAIN = ["--init_checkpoint=HOME/init", "--train_file=HOME/train.jsonl", "--do_train", "--train_batch_size=16",
         "--max_seq_length=20", "--learning_rate=4e-3", "--num_train_epochs=5", "--seed=2"]  # fmt: skip
ASK = ["--do_eval", "--eval_file=HOME/dev.jsonl", "--do_predict", "--predict_file=HOME/ask.jsonl"]
CASES = {
    "whole": [*TRAIN, *ASK, "--do_export", "--save_format=sentence_transformers", "--output_dir=HOME/whole"],
    "later": ["--init_checkpoint=HOME/whole", *ASK, "--output_dir=HOME/later"],
    "theirs": ["--init_checkpoint=HOME/whole/sentence_transformers", "--max_seq_length=20", "--loss=pairwise", *ASK,
               "--output_dir=HOME/theirs"],
    "triples": [*TRAIN, "--train_file=HOME/triples.tsv", "--loss=listwise_softmax", "--do_eval",
                "--eval_file=HOME/dev.jsonl", "--metric_for_best_model=ndcg_at_10", "--use_xla=true", "--lora_rank=2",
                "--output_dir=HOME/triples"],
    "a student": [*TRAIN, "--teacher=HOME/whole", "--loss=pairwise", "--do_eval", "--eval_file=HOME/dev.jsonl",
                  "--output_dir=HOME/student"],
}  # fmt: skip
LATER = dict.fromkeys(("later", "theirs"), ("predictions.jsonl",))
PAGE = ("Reranking on dev.jsonl", "Rank of the first relevant document", "rank of the relevant document")
COLUMNS = ["id", "place", "query"]
OUT = "--output_dir=HOME/bad"
BAD = {  # case -> arguments, what the message says
    "no file": ([*TRAIN[:1], *TRAIN[2:], OUT], "--do_train requires queries. Specify --train_file."),
    "no positive": ([*TRAIN, "--train_file=HOME/none.jsonl", OUT], "none.jsonl:1: every query must have a relevant "),
    "an unknown loss": ([*TRAIN, "--loss=triplet", OUT], "--loss"),
    "another loss": (["--init_checkpoint=HOME/whole", *ASK, "--loss=pairwise", OUT],
                     "--loss must match the trained model's, binary_cross_entropy; got pairwise; omit it."),
    "another task": (["--init_checkpoint=HOME/classifier", *ASK, OUT], "This requires a model for reranking"),
    "resumed with another loss": ([*TRAIN, "--loss=pairwise", "--output_dir=HOME/whole"], "loss"),
}  # fmt: skip
QUERY, TEXTS = "a film", [" ".join(tiny.FILL[n % 7 : n % 7 + 1 + n % 5]) + " good" * (n % 3) for n in range(500)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run_reranker")
    tiny.checkpoint(folder / "init", dropout=0.1)
    tiny.checkpoint(folder / "classifier")
    (folder / "classifier" / "task.json").write_text(json.dumps(
        {"task": "classification", "num_labels": 2, "text_inputs": ["text"], "max_seq_length": 16}))  # fmt: skip
    support.write_jsonl(folder / "train.jsonl", support.queries(96))
    support.write_jsonl(folder / "dev.jsonl", support.queries(24, 1))
    support.write_jsonl(folder / "none.jsonl", [("a", [], ["b"])])
    triples = [(query, positives[0], negatives[0]) for query, positives, negatives in support.queries(96)]
    tiny.write_tsv(folder / "triples.tsv", triples, None)
    rows = [(query, positives + negatives) for query, positives, negatives in support.queries(9, 2)]
    rows.append(("a 😀 fílm", ["good 我喜欢"]))
    support.write_jsonl(folder / "ask.jsonl", rows, ("query", "documents"))
    return folder


@pytest.fixture(scope="module")
def server(home, results):
    with serve(f"{home}/whole/export", "rank", poll_seconds=0) as server:
        yield server


def test_metrics_are_of_what_is_written(home, results):
    scores = scores_of(home / "whole")
    metrics = {"eval_mrr_at_10", "eval_ndcg_at_10", "eval_map", "eval_loss", "global_step"}
    assert set(scores) == metrics and scores["global_step"] == 30
    _, rows = table_of(home / "whole")
    assert len(rows) == 24
    assert scores["eval_mrr_at_10"] == pytest.approx(np.mean([1 / int(place) for _, place, *_ in rows]))
    for name in ("whole", "triples", "student"):
        assert scores_of(home / name)["eval_mrr_at_10"] > 0.8


def test_predictions_have_a_score_for_each_document(home, results):
    said = json_lines(home / "whole" / "predictions.jsonl")
    for number, (asked, line) in enumerate(zip(json_lines(home / "ask.jsonl"), said, strict=True)):
        assert list(line) == ["id", "query", "documents", "scores", "order"] and line["id"] == str(number)
        assert {name: line[name] for name in asked} == asked
        assert line["order"] == sorted(range(len(line["scores"])), key=lambda n: (-line["scores"][n], n))


def _rest(server, instances):
    url = f"http://localhost:{server.rest_port}/v1/models/rank:predict"
    with urllib.request.urlopen(url, json.dumps({"instances": instances}).encode()) as response:
        return json.load(response)["predictions"]


def _check(answers, said):
    for line, answer in zip(said, answers, strict=True):
        np.testing.assert_allclose(answer["scores"][: len(line["documents"])], line["scores"], atol=1e-5)
        assert sorted(answer["order"][: len(line["documents"])]) == list(range(len(line["documents"])))
        assert not any(answer["scores"][len(line["documents"]) :])


def test_the_server_ranks_lists_of_any_length(home, results, server):
    said = json_lines(home / "whole" / "predictions.jsonl")
    asked = {name: [line[name] for line in said] for name in ("query", "documents")}
    loaded = tf.saved_model.load(str(home / "whole" / "export" / "1")).signatures["serving_default"]
    with Client(f"localhost:{server.port}", "rank") as client:
        _check(client.ask(asked), said)
        (none,) = client.ask({"query": [QUERY], "documents": [[]]})
        assert none == {"scores": [], "order": []}
        for count in (1, 500):
            (answer,) = client.ask({"query": [QUERY], "documents": [TEXTS[:count]]})
            alone = loaded(query=tf.constant([QUERY]), documents=tf.constant([TEXTS[:count]]))
            np.testing.assert_allclose(answer["scores"], alone["scores"][0], atol=1e-6)
            assert answer["order"] == alone["order"][0].numpy().tolist()
            assert sorted(answer["order"]) == list(range(count))
        (typed,) = client.ask({"query": [QUERY], "documents": [TEXTS[:2]]}, typed=True)
    assert isinstance(typed, Ranking) and sorted(typed.order) == [0, 1]
    assert typed.scores == pytest.approx(answer["scores"][:2], abs=1e-6)
    instances = [{"query": line["query"], "documents": (line["documents"] + [""] * 9)[:9]} for line in said]
    _check(_rest(server, instances), said)


def test_no_documents_have_no_scores(server, home):
    loaded = tf.saved_model.load(str(home / "whole" / "export" / "1")).signatures["serving_default"]
    for queries in ([QUERY], [QUERY, "is it"]):
        none = loaded(query=tf.constant(queries), documents=tf.zeros([len(queries), 0], tf.string))
        assert {name: values.shape for name, values in none.items()} == dict.fromkeys(none, (len(queries), 0))
        assert none.keys() == {"scores", "order"}
        answers = _rest(server, [{"query": query, "documents": []} for query in queries])
        assert answers == [{"scores": [], "order": []}] * len(queries)


def test_a_batching_server_ranks_as_one_without(home, results, server):
    said = json_lines(home / "whole" / "predictions.jsonl")
    requests = [{"query": [line["query"]], "documents": [line["documents"]]} for line in said]
    requests += [{"query": [QUERY] * n, "documents": [TEXTS[k : 2 * k] for k in range(n)]} for n in (2, 5)]
    with (
        serve(f"{home}/whole/export", "rank", poll_seconds=0, batching=BatchingLimits(batch_timeout_micros=50_000))
        as batching,
        Client(f"localhost:{batching.port}", "rank") as ours,
        Client(f"localhost:{server.port}", "rank") as plain,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        answers = pool.map(ours.ask, requests * 3)
        for asked, answer in zip(requests * 3, answers, strict=True):
            for one, other in zip(answer, plain.ask(asked), strict=True):
                assert one["order"] == other["order"]
                np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-6)


def test_the_trained_model_and_the_cross_encoder_say_the_same(home, results):
    said = json_lines(home / "whole" / "predictions.jsonl")
    for path in ("whole", "whole/export", "whole/sentence_transformers", "triples"):
        predictor = bert_tf.Predictor(home / path)
        assert predictor.inputs == ("query", "documents")
        answers = predictor([(line["query"], line["documents"]) for line in said])
        if path != "triples":
            _check(answers, said)
    config = json.loads((home / "whole" / "sentence_transformers" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"] and config["num_labels"] == 1
    assert config["sentence_transformers"] == {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
    with pytest.raises(ValueError, match="`documents` must not be empty"):
        predictor([("a", [])])


def test_ask_and_predict(home, results, server, tmp_path):
    said = json_lines(home / "whole" / "predictions.jsonl")
    words = [sys.executable, "-m", "bert_tf"]
    lines = "".join("\t".join([line["query"], *line["documents"]]) + "\n" for line in said)
    ask = [*words, "ask", f"--server=localhost:{server.port}", "--model_name=rank"]
    done = subprocess.run(ask, cwd=ROOT, input=lines, capture_output=True, text=True, check=True)
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    _check(printed, said)
    assert [list(line) for line in printed] == [["query", "documents", "scores", "order"]] * len(said)
    done = subprocess.run([*ask, "alone"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "The arguments must be a query and at least one document, none of" in done.stderr
    out = tmp_path / "out.jsonl"
    predict = [*words, "predict", f"--model={home}/whole/export", f"--input_file={home}/ask.jsonl",
               f"--output_file={out}", "--text_column=query,documents"]  # fmt: skip
    subprocess.run(predict, cwd=ROOT, capture_output=True, check=True)
    _check(json_lines(out), said)
