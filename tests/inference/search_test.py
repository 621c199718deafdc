"""An index searched: exact cosines whatever the blocks, the model that it was made with, prompts, and the commands."""

import json
import os
import shutil

import numpy as np
import pytest
from pyarrow import parquet

import bert_tf
from bert_tf.cli.search import decode_queries
from bert_tf.data.trec_files import read_texts_by_id
from bert_tf.evaluation.cosine_similarity import cosines
from bert_tf.inference import nearest_neighbors
from bert_tf.inference.embedders import Embedder, Indexer
from bert_tf.inference.search import SearchIndex
from bert_tf.inference.sentence_encoder import SentenceEncoder
from tests import tiny
from tests.inference.indexes import TEXTS, vectors_of
from tests.run_cases import run_here
from tests.sentence_folders import write


@pytest.fixture(scope="module")
def vectors(model):
    return vectors_of(model)


def found_in(index, queries, top_k=99):
    return [[(hit.id, hit.text) for hit in hits] for hits in index.search(queries, top_k)]


@pytest.mark.parametrize("block", [2, 100])
def test_the_nearest_come_first(block, path, vectors, monkeypatch):
    monkeypatch.setattr(nearest_neighbors, "_BLOCK", block)
    index, (texts, queries) = SearchIndex(path), vectors
    hits = index.search(queries, top_k=3)
    cosines = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in texts] for a in queries])
    scores = [[hit.score for hit in each] for each in hits]
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :3], atol=1e-5)
    np.testing.assert_allclose(
        scores, [[row[int(hit.id)] for hit in each] for row, each in zip(cosines, hits, strict=True)], atol=1e-5
    )
    assert [hit.id for hit in hits[1][:2]] == ["0", "3"] and hits[1][0].score == pytest.approx(1, abs=1e-5)
    assert hits[1][1] == ("3", hits[1][1].score, "good film", {"from": "page 3"})
    whole = index.search(queries, top_k=99)
    assert [len(each) for each in whole] == [len(TEXTS)] * 2 and len(index) == len(TEXTS)
    assert {(hit.id, hit.text) for hit in whole[0]} == {(str(n), text) for n, text in enumerate(TEXTS)}


class Reads:
    """An array of which rows are read, how many at a time, and nothing else."""

    def __init__(self, array):
        self._array, self.shape, self.dtype, self.sizes = array, array.shape, array.dtype, []

    def __len__(self):
        return len(self._array)

    def __getitem__(self, rows):
        part = self._array[rows]
        self.sizes.append(len(part))
        return part


def test_a_search_never_reads_more_than_a_block(path, vectors, monkeypatch):
    """Whatever the index holds: a block is smaller where many queries have many cosines with it."""
    monkeypatch.setattr(nearest_neighbors, "_BLOCK", 3)
    monkeypatch.setattr(nearest_neighbors, "_COSINES", 4)
    index = SearchIndex(path)
    [segment] = index._segments
    assert isinstance(segment.vectors, np.memmap)
    stored = segment.vectors
    for queries, sizes in ((vectors[1][:1], [3, 2]), (vectors[1], [2, 2, 1])):
        segment.vectors = stored
        expected = index.search(queries)
        segment.vectors = reads = Reads(stored)
        assert index.search(queries) == expected and reads.sizes == sizes


def test_texts_are_queries_too(path, vectors):
    index = SearchIndex(path)
    assert found_in(index, ["a film", "good film"]) == found_in(index, vectors[1])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_queries_that_are_not_finite_are_refused(wrong, path, vectors, monkeypatch):
    index, queries = SearchIndex(path), vectors[1].astype(np.float64)
    queries[1, 3] = wrong
    with pytest.raises(ValueError, match=r"Embeddings of `queries` must be finite; .* 1 of 2 queries, such as query "):
        index.search(queries)
    monkeypatch.setitem(vars(index), "_query_encoder", lambda texts: queries)
    with pytest.raises(ValueError, match=r"such as query 1 \(counted from 0\): 'good film'. Correct these "):
        index.search(iter(["a film", "good film"]))


def test_it_knows_its_model(model, path, tmp_path):
    other = tiny.checkpoint(tmp_path / "other", num_hidden_layers=2)
    message = "was created with; .*other has different weights and tokenizer or configuration. Pass that model"
    with pytest.raises(ValueError, match=message):
        SearchIndex(path, other).encoder()
    with pytest.raises(ValueError, match=r"was created with\. Pass its current path as `model`\."):
        SearchIndex(path, tmp_path / "gone").search(["a"])
    assert SearchIndex(path, model).encoder().recipe.poolings == ("max",)
    shutil.copytree(path, tmp_path / "index")
    described = json.loads((path / "index.json").read_text())
    described["identity"]["poolings"] = ["mean"]
    (tmp_path / "index" / "index.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match="has different poolings. Pass that model, or create the index again"):
        SearchIndex(tmp_path / "index", model).encoder()


@pytest.mark.slow
def test_a_new_index_grows_from_nothing(model, tmp_path):
    index = SearchIndex.create(tmp_path / "index", model, prompt="see ")
    assert len(index) == 0 and index.search(["a film"]) == [[]]
    index.add([], [])
    index.add(["a", "b"], TEXTS[:2])
    with_prompt = SentenceEncoder(model, prompt="see ")
    hits = SearchIndex(tmp_path / "index").search(with_prompt(["good film"]), 1)
    assert hits[0][0].id == "a" and hits[0][0].score == pytest.approx(1, abs=1e-5)  # documents have the prompt
    assert index.search(["good film"], 1)[0][0].score < 0.999  # queries have not
    index.delete(["a", "b"])
    assert len(index) == 0 and index.search(["a film"]) == [[]] and os.listdir(index.directory) == ["index.json"]
    index.add(["a"], ["good film"])
    assert len(index) == 1


@pytest.mark.slow
def test_the_prompts_of_the_model_stand_before_queries_and_documents(model, tmp_path):
    bert_tf.save(bert_tf.load(model), tmp_path / "model", "sentence_transformers")
    path = write(tmp_path / "model", config_sentence_transformers={"prompts": {"query": "see ", "passage": "to "}})
    index = SearchIndex.create(tmp_path / "index", path)
    index.add(["a"], ["see good film"], vectors=None)
    index.add(["b"], ["film"])
    plain = SentenceEncoder(path)
    for text, documents in (("good film", "to see good film"), ("it", "to film")):
        [hits] = index.search([text])
        cosine = cosines(plain([f"see {text}"]), plain([documents]))[0]
        assert {hit.id: hit.score for hit in hits}["ab"[text == "it"]] == pytest.approx(cosine, abs=1e-5)
    assert index.encoder(prompt="").prompt == "" and index.encoder(prompt_name="passage").prompt == "to "
    assert Embedder(path).prompt == "" and Indexer(path).prompt == "to "
    assert json.loads((tmp_path / "index" / "index.json").read_text())["options"]["prompt"] == "to "


def test_an_index_of_shorter_vectors(model, tmp_path):
    index = SearchIndex.create(tmp_path / "index", model, dim=8)
    index.add(["a", "b"], TEXTS[2:4])
    assert index.search(["good film"], 1)[0][0][:2] == ("b", pytest.approx(1, abs=1e-5))
    assert index._segments[0].vectors.shape == (2, 8)
    with pytest.raises(ValueError, match=r"`queries` must be vectors of shape \[q, 8\]; got \[1, 32\]"):
        index.search(np.eye(32)[:1])


@pytest.mark.parametrize("approximate", [False, True])
def test_an_index_that_is_created_again_is_noticed(approximate, model, tmp_path, monkeypatch):
    """All but the documents is equal: the model, the options, and the names and sizes of the segments."""
    if approximate:
        pytest.importorskip("usearch", reason="needs bert-tf[search]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 3)
    vectors = np.eye(8, dtype=np.float32)

    def create(order):
        shutil.rmtree(tmp_path / "index", ignore_errors=True)
        names = [f"{order[:2]} {n}" for n in order]
        SearchIndex.create(tmp_path / "index", model).add(names, names, vectors=vectors[order])
        return SearchIndex(tmp_path / "index", approximate=approximate)

    index = create([0, 1, 2, 3, 4])
    vars(index)["_document_encoder"] = None  # might be another model's, or have another prompt
    stale = SearchIndex(tmp_path / "index", approximate=approximate)
    assert index.search(vectors[:1], 1)[0][0].id == "[0, 1] 0"
    expected = create([6, 5, 4, 3, 2, 1, 0])
    assert stale.search(vectors[:1], 1)[0][0].id == "[0, 1] 0"  # and it writes no graph into the new index
    assert not list((tmp_path / "index").glob("*/graph.usearch"))
    index.refresh()
    assert index.search(vectors[:2], 2) == expected.search(vectors[:2], 2) and len(index) == 7
    assert "_document_encoder" not in vars(index)
    stale = SearchIndex(tmp_path / "index", approximate=approximate)
    shutil.rmtree(tmp_path / "index")
    assert stale.search(vectors[6:7], 1)[0][0].id == "[6, 5] 6"  # deleted, perhaps to be created once more


# === Commands ===


def test_blank_queries_are_refused():
    assert decode_queries(["a", "\udcffb"]) == ["a", "b"]
    for words in ([], ["a", " "]):
        with pytest.raises(ValueError, match="Pass one or more non-empty queries as arguments"):
            decode_queries(words)


def run(name, *words):
    """Returns what a command printed, which must succeed, or the error of one that must not."""
    ended = run_here(name, list(words))
    return ended["status"], ended["log"]


def results(index, query, *words):
    status, log = run("search", f"--index_dir={index}", query, "--json", *words)
    assert status == 0, log
    return json.loads(log.splitlines()[-1])


def test_the_command_finds_the_same_with_graphs(path, tmp_path, monkeypatch):
    pytest.importorskip("usearch", reason="needs bert-tf[search]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 3)
    index = shutil.copytree(path, tmp_path / "index")
    exact = results(index, "a film", "--top_k=3")["results"]
    assert len(exact) == 3 and not list(index.glob("*/graph.usearch"))
    found = results(index, "a film", "--top_k=3", "--approximate")["results"]
    assert found == [{**hit, "score": pytest.approx(hit["score"], abs=1e-6)} for hit in exact]
    assert list(index.glob("*/graph.usearch"))


def test_what_cannot_be_exported(model, path, tmp_path):
    with pytest.raises(ValueError, match="new has no documents to export. Add some."):
        SearchIndex.create(tmp_path / "new", model).export(tmp_path / "new.parquet")
    for words, message in (
        (["--export_file=a.csv"], "--export_file must end in .parquet; got a.csv."),
        (["--export_file=a.parquet", "good"], "--export_file cannot be combined with queries"),
    ):
        status, log = run("search", f"--index_dir={path}", *words)
        assert status == 1 and message in log, log
    status, log = run("search", f"--index_dir={path}", f"--export_file={tmp_path}/a.parquet")
    assert status == 0 and "Wrote 5 documents with their embeddings" in log, log
    assert parquet.read_table(tmp_path / "a.parquet").num_rows == 5


def test_commands_make_change_and_search_an_index(model, tmp_path):
    index = tmp_path / "index"
    first, second = [(f"n{n}", text, n) for n, text in enumerate(TEXTS)], [("n0", "to see", 7), ("n9", "good film", 9)]
    embed = ("embed", f"--model={model}", f"--index_dir={index}", "--id_column=key", "--keep_columns=year")
    for rows, more in ((first, ["--pooling=max"]), (second, ["--update"])):
        tiny.write_jsonl(tmp_path / "texts.jsonl", rows, ["key", "text", "year"])
        status, log = run(*embed, f"--input_file={tmp_path}/texts.jsonl", *more)
        assert status == 0, log
    assert "Updated the index" in log and "which has 6 texts." in log
    found = results(index, "good film", "--top_k=2")
    assert sorted(found["results"], key=lambda each: each["id"]) == [
        {"id": "n3", "score": pytest.approx(1, abs=1e-5), "text": "good film", "payload": {"year": 3}},
        {"id": "n9", "score": pytest.approx(1, abs=1e-5), "text": "good film", "payload": {"year": 9}},
    ]
    (tmp_path / "ids.txt").write_text("n1\nn9\n", encoding="utf-8")
    for words in (["n3"], [f"--input_file={tmp_path}/ids.txt"]):
        status, log = run("delete_texts", f"--index_dir={index}", *words)
        assert status == 0, log
    assert {each["id"] for each in results(index, "good film")["results"]} == {"n0", "n2", "n4"}
    assert len(os.listdir(index)) == 2  # the description and one segment


def test_titles_are_joined_to_texts_as_for_a_reranker(model, tmp_path):
    corpus, rows = tmp_path / "corpus.jsonl", [("d1", "Good", "a film"), ("d2", "", "it is"), ("d3", "Music", "")]
    tiny.write_jsonl(corpus, rows, ["_id", "title", "text"])
    words = (f"--model={model}", f"--input_file={corpus}", "--id_column=_id", "--text_column=title,text")
    status, log = run("embed", *words, f"--index_dir={tmp_path}/index")
    assert status == 0, log
    expected = read_texts_by_id(str(corpus), ["d1", "d2", "d3"], "documents_file")
    assert expected["d1"] == "Good a film"
    index = SearchIndex(tmp_path / "index")
    for name, text in expected.items():
        [[best, *_]] = index.search([text], 3)
        assert (best.id, best.text, best.score) == (name, text, pytest.approx(1, abs=1e-5))


def test_the_column_of_ids_may_have_any_name_and_numbers(model, tmp_path):
    for name, value in (("ids", "n0"), ("payload", 17.0), ("embeddings", True)):
        tiny.write_jsonl(tmp_path / "texts.jsonl", [(value, "good film")], [name, "text"])
        index = tmp_path / f"{name}.index"
        words = (f"--model={model}", f"--input_file={tmp_path}/texts.jsonl", f"--id_column={name}")
        status, log = run("embed", *words, f"--index_dir={index}")
        assert status == 0, log
        assert SearchIndex(index)._segments[0].value("ids", 0) == {17.0: "17", True: "true"}.get(value, value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["embed", "--index_dir=HOME/new", "--update", "--id_column=key"], "new does not exist. Check the path."),
        (["embed", "--index_dir=INDEX"], "is an index; add to it with --update, or choose a new directory."),
        (["embed", "--index_dir=INDEX", "--update"], "--update requires --id_column, which identifies the texts"),
        (["embed", "--index_dir=INDEX", "--update", "--id_column=key", "--pooling=max"],
         "--update and --pooling cannot be combined. Remove one."),
        (["embed", "--output_file=HOME/a.npz", "--id_column=key"], "--id_column requires --index_dir. Remove it, or"),
        (["embed", "--index_dir=HOME/new", "--id_column=text"], "texts.jsonl:2: each id must be unique; got 'b'"),
        (["embed", "--index_dir=HOME/new", "--text_column="], "--text_column must name a column; got none. Name one,"),
        (["delete_texts", "--index_dir=INDEX"], "Pass either ids as arguments or --input_file; got neither."),
        (["delete_texts", "--index_dir=INDEX", "none"], "All ids must be in INDEX. Not found: 'none'."),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit_are_refused(words, message, model, path, tmp_path):
    tiny.write_jsonl(tmp_path / "texts.jsonl", [("a", "b")] * 2, ["key", "text"])
    name, *words = [word.replace("HOME", str(tmp_path)).replace("INDEX", str(path)) for word in words]
    words += [f"--model={model}", f"--input_file={tmp_path}/texts.jsonl"] if name == "embed" else []
    status, log = run(name, *words)
    assert status == 1 and message.replace("INDEX", str(path)) in log, log
