"""Hard negatives: those that the cosines of all texts give, the file that trains, and what is refused."""

import json
import pathlib

import numpy as np
import pytest

from bert_tf.data.ranking_files import read_ranking_file
from bert_tf.inference import hard_negatives
from bert_tf.inference.hard_negatives import (
    check_recognized,
    mine_negatives,
    read_judged_positives,
    read_positives,
    write_mined,
)
from bert_tf.inference.reranker import Reranker
from bert_tf.inference.search import Hit, SearchIndex
from bert_tf.inference.settings import MiningOptions
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.embedding.task import EmbeddingTask
from tests import tiny
from tests.run_cases import run_here
from tests.tasks.reranking.support import write_jsonl
from tests.tasks.support import options

TEXTS = [text for text, _ in tiny.texts(40, seed=3)]
POSITIVES = {TEXTS[0]: [TEXTS[1], "a story"], "good music": [TEXTS[2]], "people": [TEXTS[3]]}


@pytest.fixture(scope="module")
def index(varied_model, tmp_path_factory):
    index = SearchIndex.create(tmp_path_factory.mktemp("search") / "index", varied_model)
    index.add([*map(str, range(len(TEXTS)))], TEXTS)
    return index


def _expected(index, query, positives, options):
    """The negatives by the cosines of all texts of the index."""
    texts = [*{*TEXTS, *positives}]
    vectors = dict(zip(texts, index.embed(texts), strict=True))
    own = index.encoder()([query])[0]
    cosine = {text: own @ v / np.linalg.norm(own) / np.linalg.norm(v) for text, v in vectors.items()}
    limit = min(cosine[text] for text in positives)
    limit -= abs(limit) * options.relative_margin
    others = sorted(set(TEXTS) - {query, *positives}, key=lambda text: -cosine[text])[: options.range_max]
    allowed = [text for text in others if cosine[text] <= limit]
    return allowed[options.range_min :][: options.num_negatives]


@pytest.mark.parametrize("options", [
    pytest.param(MiningOptions(3, 0), marks=pytest.mark.slow), MiningOptions(4, 0.01, 2),
    pytest.param(MiningOptions(2, 0, 1, 25), marks=pytest.mark.slow), MiningOptions(50, 0, 0, 100),
])  # fmt: skip
def test_the_most_similar_texts_that_do_not_match(options, index):
    mined = list(mine_negatives(index, POSITIVES, options))
    assert [each[:2] for each in mined] == list(POSITIVES.items())
    for query, positives, negatives, _ in mined:
        assert negatives == _expected(index, query, positives, options)
    assert any(each.negatives for each in mined)


def test_positives_have_the_precision_of_the_index(index, tmp_path, monkeypatch):
    """Their scores are those that a search gives them; texts of equal scores stay in its order."""
    binary = SearchIndex.create(tmp_path / "index", index.indexer().path, vector_dtype="binary")
    with pytest.raises(ValueError, match="`index_dir` must have documents. .* is empty"):
        next(mine_negatives(binary, POSITIVES))
    binary.add([*map(str, range(len(TEXTS)))], TEXTS)
    positives, mining = {query: [TEXTS[n]] for n, query in enumerate(POSITIVES, 1)}, MiningOptions(9, 0.01)
    mined = list(mine_negatives(binary, positives, mining))
    for each, hits in zip(mined, binary.search(list(positives), len(TEXTS)), strict=True):
        [own] = {hit.score for hit in hits if hit.text in each.positives}
        allowed = [hit.text for hit in hits if hit.score <= own - abs(own) * 0.01]
        expected = [text for text in dict.fromkeys(allowed) if text not in (each.query, *each.positives)]
        assert each.negatives == expected[:9]
    assert any(each.negatives for each in mined)
    monkeypatch.setattr(hard_negatives, "_MOST_HITS", 250)  # two queries at a time
    assert list(mine_negatives(binary, positives, mining)) == mined


def test_copies_of_a_text_are_one_candidate(index, tmp_path, monkeypatch):
    """So many of the nearest text that they fill the first hits: the next texts are found all the same."""
    positives, mining = {query: POSITIVES[query] for query in ("people", "good music")}, MiningOptions(4, 0, 0, 5)
    expected = [_expected(index, query, own, mining) for query, own in positives.items()]
    assert len(expected[1]) > 1
    texts = [expected[1][0]] * 30 + TEXTS
    copies = SearchIndex.create(tmp_path / "index", index.indexer().path)
    copies.add([*map(str, range(len(texts)))], texts, vectors=index.embed(texts))
    monkeypatch.setattr(hard_negatives, "_MOST_HITS", 20)  # one or two queries at a time
    assert [each.negatives for each in mine_negatives(copies, positives, mining)] == expected


@pytest.mark.slow
def test_a_reranker_scores_them(index, trained, tmp_path):
    reranker, mining = Reranker(trained("reranking")), MiningOptions(4, 0.001, 1, 30)
    query, positives = next(iter(POSITIVES.items()))
    [mined] = mine_negatives(index, {query: positives}, mining, reranker=reranker)
    texts = [hit.text for hit in index.search([query], 99)[0] if hit.text not in (query, *positives)][:30]
    [ranked] = reranker([query], [[Hit("", 0, text, {}) for text in dict.fromkeys([*positives, *texts])]])
    scores = {hit.text: hit.score for hit in ranked}
    limit = min(map(scores.get, positives)) * (1 - 0.001)  # probabilities
    expected = [hit.text for hit in ranked if hit.text in texts and hit.score <= limit][1:5]
    assert sorted(mined.negatives) == sorted(expected) and len(expected) > 1
    given = np.array([scores[text] for text in [*positives, *mined.negatives]])
    assert mined.scores == pytest.approx(np.log(given / (1 - given)), abs=1e-4)  # logits
    write_mined(str(tmp_path / "train.jsonl"), iter([mined]))
    given = options(EmbeddingOptions, train_file=str(tmp_path / "train.jsonl"), loss="margin_mse")
    groups = EmbeddingTask.read_data(given, ["train"], None).examples["train"]
    of_text = dict(zip([*positives, *mined.negatives], mined.scores, strict=True))
    assert groups.labels == [of_text[positive] - of_text[negative] for _, positive, negative in groups.groups]
    assert len(groups) == len(positives) * len(expected)


@pytest.mark.slow
def test_logits_of_an_export(exported):
    reranker = Reranker(exported("reranking"))  # which serves probabilities
    assert reranker.to_logits([0.5, 0.9, 1.0, 0.0]) == pytest.approx([0, np.log(9), 16.6, -16.6], abs=0.04)
    vars(reranker)["_activation"] = "identity"
    assert reranker.to_logits([0.5, -3.0]) == [0.5, -3.0]


TITLED = {f"d{n}": f"Title {n} {text}" for n, text in enumerate(TEXTS)}


@pytest.fixture(scope="module")
def titled(index, tmp_path_factory):
    """An index of documents whose texts begin with a title."""
    titled = SearchIndex.create(tmp_path_factory.mktemp("titled") / "index", index.indexer().path)
    titled.add([*TITLED], [*TITLED.values()], vectors=index.embed(TEXTS))
    return titled


def _write_judged(folder):
    """Writes queries and qrels: q0 has d1 and d2, q1 has d3 and a missing document, q2 has none in the index."""
    queries = {"q0": TEXTS[0], "q1": "people", "q2": "music", "q3": TEXTS[0]}
    lines = [json.dumps({"_id": name, "text": text}) for name, text in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
    qrels = "query-id\tcorpus-id\tscore\nq0\td1\t1\nq0\td4\t0\nq1\td3\t2\nq1\tgone\t1\nq2\tgone\t1\nq3\td2\t1\n"
    (folder / "qrels.tsv").write_text(qrels, encoding="utf-8")
    return str(folder / "queries.jsonl"), str(folder / "qrels.tsv")


def test_judged_documents_are_excluded(titled, tmp_path, caplog):
    positives = read_judged_positives(*_write_judged(tmp_path), titled)
    assert positives == {TEXTS[0]: [TITLED["d1"], TITLED["d2"]], "people": [TITLED["d3"]]}
    assert "lacks 1 of the 4 relevant documents" in caplog.text and "They are left out." in caplog.text
    mining = MiningOptions(len(TEXTS), -99, 0, 99)  # a margin below 0: all that the index finds
    for each in mine_negatives(titled, positives, mining):
        assert set(each.negatives) == set(TITLED.values()) - set(positives[each.query])


def test_white_space_is_no_difference_and_other_forms_are_reported(index, titled, caplog):
    spaced = {query: [f" {text} ".replace(" ", " \n") for text in texts] for query, texts in POSITIVES.items()}
    mined = mine_negatives(index, spaced, MiningOptions(99, -99, 0, 99))
    for (query, texts), each in zip(POSITIVES.items(), mined, strict=True):
        assert not {query, *texts} & set(each.negatives) and len(each.negatives) > 20
    with caplog.at_level("INFO", "absl"):
        check_recognized(index, spaced)
        found, others = caplog.records[-2:]
        assert "Found 3 of the 4 positives in" in found.message and found.levelname == others.levelname == "INFO"
        assert "in a different form" in others.message
        check_recognized(titled, {"people": [TEXTS[3], TITLED["d0"], TEXTS[4]]})
    assert "Found 1 of the 3 positives in" in caplog.records[-2].message and caplog.records[-1].levelname == "WARNING"


def test_queries_that_differ_in_white_space_are_one(index, tmp_path):
    query, text, other = TEXTS[0], TEXTS[1], TEXTS[2]
    rows = [(query, text), (f" {query}\u3000", other), (query.replace(" ", "  "), f"{text} ")]
    pairs = tiny.write_tsv(tmp_path / "a.tsv", rows, "text_a\ttext_b")
    assert read_positives(str(pairs)) == {query: [text, other]}
    everything = MiningOptions(99, -99, 0, 99)
    [mined] = mine_negatives(index, {query: [text], f"{query} ": [other]}, everything)
    assert mined[:2] == (query, [text, other]) and not {query, text, other} & set(mined.negatives)
    lines = [json.dumps({"_id": name, "text": text}) for name, text in (("q0", query), ("q1", f"{query} "))]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq0\t1\t1\nq1\t2\t1\n", encoding="utf-8")
    files = (str(tmp_path / name) for name in ("queries.jsonl", "qrels.tsv"))
    assert read_judged_positives(*files, index) == {query: [text, other]}


def test_positives_that_are_not_in_the_index_are_an_error(titled, tmp_path):
    """They would be mined as negatives, because the index has them with their titles."""
    ended = _run(titled, tmp_path)
    assert ended["status"] == 1 and not (tmp_path / "train.jsonl").exists()
    assert "At least one of the 4 positives must be a text in" in ended["log"]
    assert "pass --queries_file and --qrels_file, which exclude them by id" in ended["log"]


def test_the_command_mines_for_judged_queries(titled, tmp_path):
    queries, qrels = _write_judged(tmp_path)
    words = [f"--index_dir={titled.directory}", f"--output_file={tmp_path}/train.jsonl", "--relative_margin=0"]
    ended = run_here("mine_negatives", [*words, f"--queries_file={queries}", f"--qrels_file={qrels}"])
    assert ended["status"] == 0, ended["log"]
    assert "2 of 3 queries have a relevant document in the index." in ended["log"]
    mined = mine_negatives(titled, read_judged_positives(queries, qrels, titled), MiningOptions(relative_margin=0))
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [{"query": q, "positives": p, "negatives": n} for q, p, n, _ in mined if n] and lines


def test_positives_of_one_query_are_read_together(tmp_path):
    pairs = tiny.write_tsv(tmp_path / "a.tsv", [("q", "1"), ("r", "2"), ("q", "3"), ("q", "1")], "text_a\ttext_b")
    expected = {"q": ["1", "3"], "r": ["2"]}
    assert read_positives(str(pairs)) == expected == read_positives(str(pairs), ["0", "text_b"])
    lists = write_jsonl(tmp_path / "a.jsonl", [("q", ["1", "3"], ["x"]), ("r", ["2"], [])])
    assert read_positives(str(lists)) == expected
    empty = tiny.write_tsv(tmp_path / "b.tsv", [("q", " ")], "text_a\ttext_b")
    with pytest.raises(ValueError, match="b.tsv:2: a query and its positive must have text"):
        read_positives(str(empty))


def _run(index, tmp_path, *words):
    pairs = tiny.write_tsv(tmp_path / "pairs.tsv", [(query, text) for query, found in POSITIVES.items()
                                                    for text in found], "text_a\ttext_b")  # fmt: skip
    given = [f"--index_dir={index.directory}", f"--input_file={pairs}", f"--output_file={tmp_path}/train.jsonl"]
    return run_here("mine_negatives", [*given, *words])


def test_the_file_trains_embedders_and_rerankers(index, tmp_path):
    ended = _run(index, tmp_path, "--num_negatives=3", "--relative_margin=0.01")
    assert ended["status"] == 0, ended["log"]
    path = str(tmp_path / "train.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    mined = [each for each in mine_negatives(index, POSITIVES, MiningOptions(3, 0.01)) if each.negatives]
    assert lines == [{"query": q, "positives": p, "negatives": n} for q, p, n, _ in mined]
    assert f"{len(mined)} of 3 queries have negatives" in ended["log"]
    groups = EmbeddingTask.read_data(options(EmbeddingOptions, train_file=path), ["train"], None).examples["train"]
    assert groups.groups == [[each.query, text, *each.negatives] for each in mined for text in each.positives]
    assert read_ranking_file(path, True).documents == [[*each.positives, *each.negatives] for each in mined]
    again = _run(index, tmp_path)
    assert again["status"] == 1 and "--output_file exists: " in again["log"]
    assert _run(index, tmp_path, "--overwrite", "--num_negatives=1")["status"] == 0


def test_the_graph_of_a_large_index_finds_them(index, tmp_path, monkeypatch):
    pytest.importorskip("usearch", reason="needs bert-tf[search]")
    monkeypatch.setattr("bert_tf.inference.nearest_neighbors._LEAST_ROWS", 3)
    files = []
    for words in ([], ["--approximate", "--overwrite"]):
        ended = _run(index, tmp_path, "--num_negatives=3", *words)
        assert ended["status"] == 0, ended["log"]
        files.append((tmp_path / "train.jsonl").read_text(encoding="utf-8"))
        assert bool([*pathlib.Path(index.directory).glob("*/graph.usearch")]) == bool(words)
    assert files[0] == files[1]  # so few texts are all found


def test_whole_or_not_at_all(index, tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("before", encoding="utf-8")
    with pytest.raises(ValueError, match="No query has negatives: .* Lower `relative_margin` or `range_min`, or raise"):
        write_mined(str(path), mine_negatives(index, POSITIVES, MiningOptions(relative_margin=5.0)))
    assert path.read_text(encoding="utf-8") == "before" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(("words", "message"), [
    (["--range_max=3"], "--range_max must be at least the sum of --range_min and --num_negatives; got"),
    (["--text_column=text_a"], "--text_column must name two columns; got 1: text_a"),
    (["--queries_file=q.tsv"], "--queries_file requires --qrels_file. Add"),
    (["--queries_file=q.tsv", "--qrels_file=q.txt"], "Pass either --input_file, or --queries_file "
     "with --qrels_file; got both."),
    (["--input_file="], "--qrels_file; got neither."),
    (["--input_file=", "--queries_file=q.tsv", "--qrels_file=q.txt", "--header=false"],
     "--header requires --input_file; got --queries_file; remove --header"),
    (["--output_file=a.tsv"], "--output_file must be a .jsonl file, which can contain lists; got a.tsv"),
])  # fmt: skip
def test_what_cannot_be_mined_is_refused(words, message, index, tmp_path):
    ended = _run(index, tmp_path, *words)
    assert ended["status"] == 1 and message in ended["log"], ended["log"]
