"""Reranking: files of queries, a sequence for each document, losses by hand, scores and order as served."""

import gzip
import json
import re

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from pyarrow import parquet

from bert_tf.checkpoints.loading import ModelDescription
from bert_tf.data.ranking_files import read_ranking_file
from bert_tf.evaluation.ranking import ranking_metrics
from bert_tf.tasks.registry import read_task
from bert_tf.tasks.reranking.options import RANKING_LOSSES
from bert_tf.tasks.reranking.task import RerankingTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.batching import BatchSettings
from tests import tiny
from tests.sentence_folders import write
from tests.tasks.reranking import support


def _write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_positives_come_before_negatives(tmp_path):
    path = support.write_jsonl(tmp_path / "a.jsonl", [("a film", ["good", "great\u2028"], ["bad"]), ("it", ["1"], [])])
    read = read_ranking_file(path, True)
    assert read.queries == ["a film", "it"] and read.documents == [["good", "great\u2028", "bad"], ["1"]]
    assert read.relevances == [[1, 1, 0], [1]] and read.document_ids == [["0", "1", "2"], ["0"]]
    assert read.ids == ["0", "1"] and read.where(1) == f"{path}:2"
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_ranking_file(f"{path},{packed}", True).documents == read.documents * 2


def test_documents_with_relevances_and_ids(tmp_path):
    table = {"id": [7, 8], "query": ["a", "b"], "documents": [["x", "y"], ["z"]], "relevances": [[-1, 2], [1]]}
    parquet.write_table(pa.table({**table, "document_ids": [["d2", "d10"], ["d1"]]}), tmp_path / "a.parquet")
    read = read_ranking_file(tmp_path / "a.parquet", True)
    assert (read.ids, read.relevances) == (["7", "8"], [[-1, 2], [1]])
    assert read.document_ids == [["d2", "d10"], ["d1"]]
    rows = [("a", ["x", "y"], [True, 0.0])]
    path = support.write_jsonl(tmp_path / "b.jsonl", rows, ("query", "documents", "relevances"))
    assert read_ranking_file(path, True).relevances == [[1, 0]]
    path = support.write_jsonl(tmp_path / "c.jsonl", [("a", ["x"])], ("query", "documents"))
    assert read_ranking_file(path, False).relevances is None


@pytest.mark.parametrize("name, text", [
    ("a.tsv", "a film\tgood\tbad\nit\tgreat\tdull\n"),
    ("b.tsv", "id\tpositive\tquery\tnegative\n1\tgood\ta film\tbad\n2\tgreat\tit\tdull\n"),
    ("c.csv", "a film,good,bad\nit,great,dull\n"),
])  # fmt: skip
def test_triples_with_and_without_a_header(tmp_path, name, text):
    read = read_ranking_file(_write(tmp_path / name, text), True)
    assert read.queries == ["a film", "it"] and read.documents == [["good", "bad"], ["great", "dull"]]
    assert read.relevances == [[1, 0], [1, 0]]


LISTS = {"query": "a", "positives": ["x"], "negatives": ["y"]}
SCORED = {"query": "a", "documents": ["x", "y"], "relevances": [1, 0]}
BAD = [
    ({**LISTS, "positives": []}, r"a\.jsonl:1: every query must have a relevant document: .*The query 'a' has no "
     r"relevant document; remove the line, or write the line as \{\"query\": ..., "),
    ({**SCORED, "positives": ["b"]}, "a line must have 'documents', or .* got 'documents' and 'positives'"),
    ({**SCORED, "relevances": [0, -1]}, "every query must have a relevant document"),
    ({**SCORED, "documents": []}, "'relevances' must be a list of 0 whole numbers"),
    ({**SCORED, "relevances": [1]}, r"'relevances' must be a list of 2 whole numbers.*got \[1\]"),
    ({**SCORED, "relevances": [1, 0.5]}, "'relevances' must be a list of 2 whole numbers"),
    ({**SCORED, "relevances": [1, 1e300]}, r"a\.jsonl:1: 'relevances' must be .* to 16777216, .*1e\+300\]\."),
    ({**SCORED, "relevances": [1, -(2**24) - 1]}, r"a\.jsonl:1: 'relevances' must be .* got \[1, -16777217\]"),
    ({**SCORED, "relevances": None}, "a text must not be missing; got None in column 'relevances'"),
    ({**SCORED, "document_ids": ["d", "d"]}, "'document_ids' must be a list of 2 different ids"),
    ({**SCORED, "document_ids": ["d", ""]}, "got 'document_ids': ''"),
    ({**LISTS, "negatives": "y"}, "'negatives' must be a list of texts; got 'y'"),
    ({**LISTS, "negatives": [" "]}, "every document must have text; got ' '"),
    ({**LISTS, "query": " "}, "'query' must be non-blank text; got ' '"),
    ({"query": "a", "positives": ["x"]}, r"missing column 'negatives'.*; write the line as \{\"query\""),
    ({"query": "a", "texts": ["x"]}, "missing columns 'documents' .* and 'relevances'"),
]


@pytest.mark.parametrize("line, message", BAD)
def test_a_bad_line_gets_one_clear_message(tmp_path, line, message):
    path = _write(tmp_path / "a.jsonl", json.dumps(line) + "\n")
    with pytest.raises(ValueError, match=message):
        read_ranking_file(path, True)


@pytest.mark.parametrize("score", [1e300, 10**400, float("nan")], ids=["1e300", "integer", "nan"])
def test_scores_that_float32_cannot_hold_are_refused(tmp_path, score):
    path = _write(tmp_path / "a.jsonl", json.dumps({**SCORED, "scores": [0.5, score]}) + "\n")
    with pytest.raises(ValueError, match=r"a\.jsonl:1: 'scores' must be a list of 2 numbers, from -1e\+30 to 1e\+30"):
        read_ranking_file(path, True, with_scores=True)


@pytest.mark.parametrize("name, value", [("document_ids", ["d2", "d1"]), ("id", 7)])
@pytest.mark.parametrize("given, message", [
    ((True, True, False), r"a\.jsonl:3: .*got a line without it after lines with it; add"),
    ((False, False, True), r"a\.jsonl:3: .*got a line with it after lines without it; add"),
    ((True, None, True), r"a\.jsonl:2: .*got a line without it after"),
])  # fmt: skip
def test_ids_are_in_all_lines_or_in_none(tmp_path, name, value, given, message):
    cells = {True: {name: value}, None: {name: None}, False: {}}
    lines = [{**SCORED, **cells[has]} for has in given]
    path = _write(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match=f"'{name}' must be in all lines or in none") as error:
        read_ranking_file(path, True)
    assert re.search(message, str(error.value))


def test_other_bad_files(tmp_path):
    with pytest.raises(ValueError, match=r"a\.tsv:2: a row must have at least 3 columns, separated by tabs"):
        read_ranking_file(_write(tmp_path / "a.tsv", "a\tb\tc\nd\te\n"), True)
    ids = "".join(f"{n}\t{n + 1}\t{n + 2}\n" for n in range(12))
    with pytest.raises(ValueError, match=r"ids\.tsv:1: a line must have the texts .* got numbers, .*'0', '1'"):
        read_ranking_file(_write(tmp_path / "ids.tsv", ids), True)
    assert len(read_ranking_file(_write(tmp_path / "some.tsv", "1\t2\t3\n4\t5\tsix\n"), True)) == 2
    with pytest.raises(ValueError, match="contains no queries"):
        read_ranking_file(_write(tmp_path / "b.jsonl", ""), True)
    with pytest.raises(ValueError, match=r"c\.jsonl:1: every query must have a document"):
        read_ranking_file(_write(tmp_path / "c.jsonl", json.dumps({"query": "a", "documents": []})), False)


@pytest.fixture
def runs(tmp_path):
    """Returns a function of further options: those of a run of two queries and a third that is not judged."""
    given = {
        "queries_file": _write(tmp_path / "queries.tsv", "q1\ta film\nq2\tit\nq3\tmusic\n"),
        "documents_file": _write(tmp_path / "documents.tsv", "d1\tgood\nd2\tbad\nd3\tgreat\nd4\tdull\n"),
        "qrels_file": _write(tmp_path / "qrels.txt", "q1 0 d1 1\nq1 0 d3 2\nq2 0 d2 0\nq2 0 d4 -1\n"),
    }
    lines = "q1 Q0 d2 1 9 x\nq1 Q0 d1 2 8 x\nq3 Q0 d1 1 7 x\nq2 Q0 d4 1 6 x\n"
    given |= {"eval_file": _write(tmp_path / "a.run", lines), "train_file": tmp_path / "a.run"}
    given |= {"predict_file": tmp_path / "a.run"}
    given = {name: str(path) for name, path in given.items()}
    return lambda **more: type(RerankingTask.options)(**given | more)


def test_a_run_has_the_relevances_of_qrels(runs, tokenizer):
    """As trec_eval has it: queries without qrels do not count, and documents that were not found do."""
    task = RerankingTask(tiny.config())
    data = task.read_data(runs(), ["train", "dev", "test"], None).examples
    read = data["dev"]
    assert (read.ids, read.queries, read.lines) == (["q1", "q2"], ["a film", "it"], [1, 4])
    assert (read.documents, read.document_ids) == ([["bad", "good"], ["dull"]], [["d2", "d1"], ["d4"]])
    assert (read.relevances, read.judged) == ([[0, 1], [-1]], [[1, 2], [0, -1]])
    assert data["train"].ids == ["q1"] and data["test"].ids == ["q1", "q3", "q2"] and data["test"].relevances is None
    rows = task.encode_examples(tokenizer, read, 16, True)
    found = task.metrics(np.array([[1.0, 0.0], [0.5, 0.0]]), rows)
    ideal = 2 + 1 / np.log2(3)
    assert found == pytest.approx({"mrr_at_10": 1 / 4, "ndcg_at_10": 1 / np.log2(3) / ideal / 2, "map": 1 / 4 / 2})


@pytest.mark.parametrize("more, message", [
    ({"qrels_file": None}, r"`qrels_file` is required for a run; got the run .*a\.run"),
    ({"documents_file": None}, "`documents_file` is required for a run"),
    ({"eval_file": "{folder}/triples.tsv"}, "`queries_file` requires a run \\(.run or .trec\\) among the data files"),
    ({"documents_file": "{folder}/queries.tsv"}, "`documents_file` must have a text for every id in the files used"),
    ({"queries_file": "{folder}/documents.tsv"}, "`queries_file` must have a text for every id"),
    ({"qrels_file": "{folder}/other.txt"}, "`qrels_file` must contain judgments for queries in the run. .*other.txt "
     "contains no judgments for the 3 queries in .*a.run, such as 'q1'; pass"),
    ({"eval_file": "{folder}/empty.run"}, "empty.run contains no queries. Check the path."),
])  # fmt: skip
def test_bad_runs_get_one_clear_message(runs, tmp_path, more, message):
    _write(tmp_path / "other.txt", "q9 0 d1 1\n")
    _write(tmp_path / "triples.tsv", "a\tb\tc\n")
    _write(tmp_path / "empty.run", "")
    options = runs(**{name: value and value.format(folder=tmp_path) for name, value in more.items()})
    with pytest.raises(ValueError, match=message):
        RerankingTask.read_data(options, ["dev"], None)


@pytest.mark.parametrize("qrels, message", [
    ("q1 0 d2 0\nq9 0 d1 1\n", r"`qrels_file` must contain at least one .* contains none for the queries in .*a\.run;"),
    ("q1 0 d3 2\nq3 0 d1 0\n",
     r"a\.run must contain relevant documents. It contains none of those in .*qrels\.txt; make sure that its ids"),
    ("q3 0 d1 1\n", r"a\.run must contain documents of .* All 1 documents for the query 'q3' have relevance 1; add"),
])  # fmt: skip
def test_a_run_of_which_nothing_can_be_learned_or_scored_says_why(runs, tmp_path, caplog, qrels, message):
    _write(tmp_path / "qrels.txt", qrels)
    with pytest.raises(ValueError, match=message):
        RerankingTask.read_data(runs(), ["train"], None)
    assert ("such as 'd3' for the query 'q1'" in caplog.text) == ("d3" in qrels)
    if "All 1 documents" in message:  # which matters in training alone
        assert RerankingTask.read_data(runs(), ["dev"], None).examples["dev"].relevances == [[1]]
        return
    with pytest.raises(ValueError, match=message):  # metrics would be 0
        RerankingTask.read_data(runs(), ["dev"], None)
    assert RerankingTask.read_data(runs(), ["test"], None).examples["test"].relevances is None


def test_a_relevant_document_without_text_counts_as_not_found(runs, tmp_path, caplog):
    _write(tmp_path / "documents.tsv", "d1\tgood\nd2\tbad\nd4\tdull\n")
    with caplog.at_level("WARNING", "absl"):
        data = RerankingTask.read_data(runs(), ["dev", "train"], None).examples
    assert data["dev"].judged == [[1, 2], [0, -1]] and data["train"].relevances == [[0, 1]]
    assert re.search(r"lacks 1 of the 2 relevant documents .*, such as 'd3' for the query 'q1'. Metrics", caplog.text)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(tiny.VOCAB)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return RerankingTask(tiny.config(initializer_range=1.0)).build_model()


def examples(path, rows):
    return read_ranking_file(support.write_jsonl(path, rows), True)


def _expected_loss(name, scores, relevances):
    if name == "binary_cross_entropy":
        return np.mean([np.log1p(np.exp(-s if r else s)) for s, r in zip(scores, relevances, strict=True)])
    if name == "pairwise":
        pairs = [(a, b) for a, r in zip(scores, relevances, strict=True)
                 for b, other in zip(scores, relevances, strict=True) if r > other]  # fmt: skip
        return np.mean([np.log1p(np.exp(b - a)) for a, b in pairs])
    target = np.array(relevances) / np.sum(relevances)
    return -(target * (scores - np.log(np.exp(scores).sum()))).sum()


@pytest.mark.slow
@pytest.mark.parametrize("name", RANKING_LOSSES)
def test_losses_and_metrics_ignore_padding(tokenizer, model, tmp_path, name):
    given, task = support.queries(7, seed=1), RerankingTask(tiny.config(), name)
    read = examples(tmp_path / "a.jsonl", given)
    rows = task.encode_examples(tokenizer, read, 16, True)
    assert len(set(np.diff(rows.splits))) > 2  # or nothing would be missing
    scoring = BatchSettings(16).scoring(rows, 4)
    alone = []
    for query, documents in zip(read.queries, read.documents, strict=True):
        features = tokenizer([query] * len(documents), documents, 16)
        alone.append(model({key: values[tf.newaxis] for key, values in features.items()})[0].numpy())
    losses, collected = {}, {}
    batches = zip(scoring.order, scoring.batches(), strict=True)
    for order, batch in batches:
        logits = model({key: batch[key] for key in task.features})
        values, weights = task.example_losses(logits, batch)
        assert weights.numpy().tolist() == [1] * len(weights) and np.isfinite(values).all()
        losses |= dict(zip(order.tolist(), values.numpy(), strict=True))
        collected |= dict(zip(order.tolist(), task.reduce_outputs(logits, batch).numpy(), strict=True))
    for n, scores in enumerate(alone):
        assert losses[n] == pytest.approx(_expected_loss(name, scores, read.relevances[n]), rel=1e-3, abs=1e-5)
    width = max(map(len, collected.values()))
    outputs = np.stack([np.pad(collected[n], [0, width - len(collected[n])]) for n in range(len(given))])
    ranked = [np.array(r)[np.argsort(-s, kind="stable")] for s, r in zip(alone, read.relevances, strict=True)]
    assert task.metrics(outputs, rows) == pytest.approx(ranking_metrics(ranked))


def test_a_graded_relevance_counts_by_its_size():
    batch = {"relevances": tf.constant([[3.0, 1.0, 0.0]])}
    scores = np.array([0.5, 1.0, -1.0], np.float32)
    for name in RANKING_LOSSES:
        (loss,), _ = RerankingTask(tiny.config(), name).example_losses(tf.constant([scores]), batch)
        assert float(loss) == pytest.approx(_expected_loss(name, scores, [3, 1, 0]), rel=1e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "identity"])
def test_served_scores_and_order(tokenizer, model, activation):
    task = RerankingTask(tiny.config(), activation=activation)
    texts = tf.constant(["a film", "it"]), tf.constant([["good", "", "bad"], ["the story", "dull", "the story"]])
    features, origin = task.preprocess(tokenizer, texts, 12)
    logits = model(features).numpy()
    answer = {name: values.numpy() for name, values in task.postprocess(tf.constant(logits), origin).items()}
    there = np.array([[True, False, True], [True] * 3])
    expected = 0.5 + 0.5 * np.tanh(logits / 2) if activation == "sigmoid" else logits
    np.testing.assert_allclose(answer["scores"], np.where(there, expected, 0), rtol=1e-5)
    assert answer["order"][0, 2] == -1 and sorted(answer["order"][0, :2]) == [0, 2]
    order = answer["order"][1].tolist()
    assert order.index(2) == order.index(0) + 1  # equal scores: as they came
    assert [logits[1][i] for i in order] == sorted(logits[1], reverse=True)


@pytest.mark.parametrize("queries, documents, order", [
    (["a", "it"], [["", " "], ["", "bad"]], [[-1, -1], [1, -1]]),
    (["a"], np.zeros([1, 0], str), [[]]),
    ([], np.zeros([0, 3], str), np.zeros([0, 3]).tolist()),
])  # fmt: skip
def test_without_documents(tokenizer, model, queries, documents, order):
    task, shape = RerankingTask(tiny.config()), np.shape(documents)
    texts = tf.constant(queries, tf.string), tf.constant(np.asarray(documents).tolist(), tf.string, shape)
    features, origin = task.preprocess(tokenizer, texts, 12)
    answer = task.postprocess(model(features), origin)
    assert answer["order"].numpy().tolist() == order and answer["scores"].shape == answer["order"].shape


def test_training_needs_documents_of_different_relevance(tmp_path):
    path = support.write_jsonl(tmp_path / "a.jsonl", [("a", ["x"], ["y"]), ("b", ["z"], [])])
    options = RerankingTask.options.__class__(train_file=str(path), do_train=True)
    message = f"{path}:2: every training query must have documents of different relevance"
    with pytest.raises(ValueError, match=re.escape(message)):
        RerankingTask.read_data(options, ["train"], None)
    assert len(RerankingTask.read_data(options.__class__(eval_file=str(path)), ["dev"], None).examples["dev"]) == 2


def test_an_unknown_activation_or_loss_is_refused(tmp_path):
    for settings in ({"activation": "tanh"}, {"loss": "triplet"}):
        described = {"task": "reranking", **settings, "text_inputs": ["query", "documents"], "max_seq_length": 16}
        _write(tmp_path / "task.json", json.dumps(described))
        with pytest.raises(ValueError, match="task.json must describe a task.*(`activation` must be|triplet)"):
            read_task(str(tmp_path), tiny.config())


@pytest.mark.parametrize(
    ("prompts", "default", "refused", "logged"),
    [
        *(({"find": "Find: "}, "find", True, False), ({"find": ""}, "find", False, False)),
        *(({"find": "Find: "}, None, False, True), ({}, None, False, False)),
    ],
)
def test_prompts_of_a_cross_encoder_are_not_passed_over(prompts, default, refused, logged, tmp_path, caplog):
    settings = {"model_type": "CrossEncoder", "prompts": prompts, "default_prompt_name": default}
    path = _write(tmp_path / "config_sentence_transformers.json", json.dumps(settings))
    model, kind = ModelDescription(tiny.config(), WordPieceTokenizer(tiny.VOCAB), None), type(RerankingTask.options)
    for do_train in (False, True):
        options = kind(init_checkpoint=str(tmp_path), do_train=do_train)
        if refused:
            with pytest.raises(ValueError, match=f"default_prompt_name in {path} must be absent, .* 'find', which"):
                RerankingTask.create(model, None, options, None)
            continue
        with caplog.at_level("INFO", "absl"):
            RerankingTask.create(model, None, options, None)
    assert caplog.text.count("has the prompts find, but rerankers do not add prompts.") == logged


def test_prompts_of_an_embedder_do_not_matter_to_a_reranker(tmp_path):
    prompts = {"prompts": {"all": "text: "}, "default_prompt_name": "all"}
    start = write(tmp_path, config_sentence_transformers=prompts)  # as older versions write it
    options = type(RerankingTask.options)(init_checkpoint=start, do_train=True)
    RerankingTask.create(ModelDescription(tiny.config(), WordPieceTokenizer(tiny.VOCAB), None), None, options, None)


def test_the_variables_are_those_of_a_classifier_of_one_output(model):
    paths = {variable.path: tuple(variable.shape) for variable in model.variables}
    assert paths["classifier/output_weights"] == (1, 32) and "bert/pooler/dense/kernel" in paths


def test_the_head_is_that_of_the_family():
    model = RerankingTask(tiny.config(**tiny.MODERNBERT)).build_model()
    paths = {variable.path for variable in model.variables if variable.path.startswith("classifier/")}
    names = ("dense/kernel", "dense/bias", "LayerNorm/gamma", "output_weights", "output_bias")
    assert paths == {f"classifier/{name}" for name in names}
