"""An index on disk: exact cosines whatever the blocks, the model that it was made with, and changes by id."""

import dataclasses
import json
import os
import pickle
import shutil
import signal
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import bert_tf
from bert_tf.cli.search import decode_queries
from bert_tf.data.trec_files import read_texts_by_id
from bert_tf.evaluation.metrics import cosines, unit
from bert_tf.inference import document_index, embedders, index_segments, nearest_neighbors
from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job
from bert_tf.inference.document_index import make_index
from bert_tf.inference.embedders import Embedder, Indexer
from bert_tf.inference.search import SearchIndex
from bert_tf.inference.sentence_encoder import EncodeOptions, SentenceEncoder
from bert_tf.inference.vector_types import quantize_vectors
from bert_tf.utils.folder_lock import alone_in
from tests import processes, tiny
from tests.run_cases import run_here
from tests.sentence_folders import write

TEXTS = ["good film", "", "a warm story of people — 音楽", "good film", "it is dull , cold and empty ."]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny.checkpoint(tmp_path_factory.mktemp("model")))


def index_of(model, folder, texts=TEXTS, **options):
    path = folder / "texts.jsonl"
    tiny.write_jsonl(path, [(text, f"page {n}") for n, text in enumerate(texts)], ["text", "from"])
    maker = Indexer(model, EncodeOptions(**options))

    def write_rows(file):
        run_table_job(TableJob(str(path), file, maker, keep_columns=("from",)))

    make_index(str(folder / "index"), maker, write_rows)
    return folder / "index"


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    return index_of(model, tmp_path_factory.mktemp("max"), pooling="max")


@pytest.fixture
def changed(path, tmp_path):
    """A copy of the index, to be changed."""
    shutil.copytree(path, tmp_path / "index")
    return SearchIndex(tmp_path / "index")


@pytest.fixture(scope="module")
def vectors(model):
    """The texts' vectors, and those of two queries."""
    found = SentenceEncoder(model, pooling="max")([*TEXTS, "a film", "good film"])
    return found[:-2], found[-2:]


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


def test_texts_are_queries_too(path, vectors):
    index = SearchIndex(path)
    assert found_in(index, ["a film", "good film"]) == found_in(index, vectors[1])


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


def test_whole_or_not_at_all(model, path, tmp_path):
    with pytest.raises(ValueError, match="a text must be a string"):
        index_of(model, tmp_path, [*TEXTS, 5])
    assert not list(tmp_path.glob("index*"))
    with pytest.raises(ValueError, match="`index_dir` must not exist yet"):
        index_of(model, path.parent)
    shutil.copytree(path, tmp_path / "index")
    np.save(tmp_path / "index" / "segment-000001" / "text_splits.npy", np.arange(3))
    with pytest.raises(ValueError, match="is not a complete index"):
        SearchIndex(tmp_path / "index")
    os.remove(tmp_path / "index" / "segment-000001" / "text_splits.npy")
    with pytest.raises(ValueError, match="is not a complete index: FileNotFoundError"):
        SearchIndex(tmp_path / "index")
    with pytest.raises(ValueError, match="index.json must be the description of an index"):
        SearchIndex(tmp_path)
    with pytest.raises(ValueError, match="The index .*nosuch.index does not exist. Check the path."):
        SearchIndex(tmp_path / "nosuch.index")
    described = json.loads((path / "index.json").read_text()) | {"segments": [{"name": "../x", "deleted": None}]}
    (tmp_path / "index" / "index.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match="is not a complete index: .*a segment"):
        SearchIndex(tmp_path / "index")
    del described["vector_dtype"]
    (tmp_path / "index" / "index.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match="was written by another version of bert_tf. To fix this, create the index ag"):
        SearchIndex(tmp_path / "index")


# === Changes ===


def test_documents_are_added_replaced_and_deleted(changed, vectors):
    changed.add(["new", "0"], ["a film", "to see"], [{"year": 2026, "tags": ["a"]}, {}])
    assert len(changed) == len(TEXTS) + 1
    [[best, *others]] = changed.search(["a film"], top_k=99)
    assert best[0] == "new" and best[2:] == ("a film", {"year": 2026, "tags": ["a"]})
    assert {(hit.id, hit.text) for hit in others} == {("0", "to see"), *((str(n), TEXTS[n]) for n in range(1, 5))}
    changed.delete(["3", "new"])
    assert {hit.id for hit in changed.search(["a film"], top_k=99)[0]} == {"0", "1", "2", "4"}
    changed.add(["3"], [TEXTS[3]], vectors=vectors[0][3:4] * 7)
    assert changed.search(["good film"], top_k=1)[0][0][:1] == ("3",)
    assert SearchIndex(changed.directory).search(["a film"]) == changed.search(["a film"])


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
    with pytest.raises(ValueError, match=r"`queries` must be vectors of shape \[q, 8\]. Received: \[1, 32\]"):
        index.search(np.eye(32)[:1])


def test_it_is_as_if_made_at_once_after_any_changes(model, tmp_path, monkeypatch):
    """Many small changes leave few segments, and the same documents with the same scores."""
    monkeypatch.setattr(index_segments, "_BLOCK", 3)
    rng, index, expected = np.random.default_rng(0), SearchIndex.create(tmp_path / "index", model), {}
    for step in range(40):
        ids = [f"doc {n}" for n in rng.choice(30, rng.integers(1, 6), replace=False)]
        if step % 3 == 2:
            gone = [name for name in ids if name in expected]
            index.delete(gone)
            expected = {name: value for name, value in expected.items() if name not in gone}
            continue
        rows = rng.normal(size=(len(ids), 8)).astype(np.float32)
        index.add(ids, [f"{name}, {step}" for name in ids], [{"step": step}] * len(ids), rows)
        expected = {name: value for name, value in expected.items() if name not in ids}
        expected |= {name: (step, row / np.linalg.norm(row)) for name, row in zip(ids, rows, strict=True)}
    assert len(index) == len(expected) and len(index._segments) < 8
    query = rng.normal(size=(1, 8)).astype(np.float32)
    [hits] = SearchIndex(index.directory).search(query, 99)
    scores = {name: float(row @ query[0] / np.linalg.norm(query)) for name, (_, row) in expected.items()}
    assert [hit.id for hit in hits] == sorted(scores, key=lambda name: -scores[name])
    for hit in hits:
        step = expected[hit.id][0]
        assert (hit.text, hit.payload) == (f"{hit.id}, {step}", {"step": step})
        assert hit.score == pytest.approx(scores[hit.id], abs=1e-6)


def test_ids_of_one_hash_are_told_apart(changed, model, monkeypatch):
    monkeypatch.setattr(index_segments, "_hash", lambda name: 7)
    index = SearchIndex.create(os.path.join(changed.directory, "other"), model)
    index.add(["a", "b", "c"], TEXTS[:3], vectors=np.eye(3))
    index.delete(["b"])
    assert [hit.id for hit in index.search(np.eye(3)[:1])[0]] == ["a", "c"]
    with pytest.raises(ValueError, match=r"Each id must be unique. Received 'd' twice, in rows 0 and 2, counted"):
        index.add(["d", "e", "d"], TEXTS[:3], vectors=np.eye(3))


def test_lone_surrogates_are_dropped(changed):
    vectors = np.ones([1, 32], np.float32)
    changed.add(["n\ud800"], ["t\ud800"], [{"a": "\ud800b"}], vectors)
    hit = changed.search(vectors, top_k=1)[0][0]
    assert (hit.id, hit.text, hit.payload) == ("n", "t", {"a": "b"})
    with pytest.raises(ValueError, match="All ids must be in .* Not found: "):
        changed.delete(["n\ud800"])


def test_what_does_not_fit_is_refused_and_changes_nothing(changed):
    with pytest.raises(ValueError, match="`top_k` must be a whole number from 1 up. Received: 0"):
        changed.search(["a"], top_k=0)
    before = changed.search(["a film"])
    files = sorted(map(str, os.walk(changed.directory)))
    with pytest.raises(ValueError, match=r"All ids must be in .*index. Not found: '7', 'x'. Nothing was deleted."):
        changed.delete(["0", "7", "x"])
    with pytest.raises(ValueError, match="Each id must be unique. Received 'a' twice, in rows 0 and 1"):
        changed.add(["a", "a"], ["good", "bad"])
    with pytest.raises(ValueError, match=r"must match. Received 1 ids, 2 texts, 1 payloads and vectors of shape \[2,"):
        changed.add(["a"], ["good", "bad"])
    with pytest.raises(ValueError, match=r"must match.* shape \[1, 3\], where the index has 32 dim"):
        changed.add(["a"], ["good"], vectors=np.eye(3)[:1])
    with pytest.raises(ValueError, match="`vectors` must be finite"):
        changed.add(["a"], ["good"], vectors=np.full([1, 32], np.nan))
    with pytest.raises(ValueError, match=r"`queries` must be vectors of shape \[q, 32\]. Received: \[1, 3\]"):
        changed.search(np.eye(3)[:1])
    with pytest.raises(ValueError, match="`ids`"):
        changed.add([1], ["good"])
    with alone_in(changed.directory), pytest.raises(ValueError, match="Another run is already writing to .*`index_"):
        changed.delete(["0"])
    assert changed.search(["a film"]) == before and sorted(map(str, os.walk(changed.directory))) == files


def test_readers_keep_what_they_have_opened(changed):
    reader = SearchIndex(changed.directory)
    before = reader.search(["a film"])
    changed.delete(["0", "1", "2", "3"])  # the segment is written again
    assert not os.path.exists(os.path.join(changed.directory, "segment-000001"))
    assert reader.search(["a film"]) == before and len(SearchIndex(changed.directory)) == 1


def test_a_reader_tries_again_if_the_index_changes_while_it_opens(changed, monkeypatch):
    """It has read the description when another process removes what that names."""
    read, writer = document_index.read_object, SearchIndex(changed.directory)

    def read_and_change(*args):
        described = read(*args)
        monkeypatch.setattr(document_index, "read_object", read)
        writer.delete(["0", "1", "2"])
        return described

    monkeypatch.setattr(document_index, "read_object", read_and_change)
    assert len(SearchIndex(changed.directory)) == 2


@pytest.mark.parametrize("approximate", [False, True])
def test_an_index_that_is_created_again_is_noticed(approximate, model, tmp_path, monkeypatch):
    """All but the documents is equal: the model, the options, and the names and sizes of the segments."""
    if approximate:
        pytest.importorskip("usearch", reason="needs bert-tf[usearch]")
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


def test_an_index_never_has_vectors_of_another_index_model(model, tmp_path, monkeypatch):
    """The encoder is a fake: it returns the vector of its prompt, which stands for the model."""
    vectors, during = dict(zip("ab", np.eye(8, dtype=np.float32), strict=False)), []

    def create(prompt):
        shutil.rmtree(tmp_path / "index", ignore_errors=True)
        SearchIndex.create(tmp_path / "index", model, prompt=prompt)

    def load(path, *, prompt, **_):
        return lambda texts: ([change() for change in during], np.stack([vectors[prompt]] * len(texts)))[1]

    monkeypatch.setattr(embedders, "SentenceEncoder", load)
    create("a")
    index = SearchIndex(tmp_path / "index")
    index.add(["0"], ["good"])
    create("b")
    with pytest.raises(ValueError, match="was created again after this program opened it. Nothing was added; call `re"):
        index.add(["1"], ["good"], vectors=index.embed(["good"]))
    with pytest.raises(ValueError, match="was created again"):
        index.add_rows(None)
    index.add(["1"], ["good"])
    assert [(hit.id, hit.score) for hit in index.search(vectors["b"][None])[0]] == [("1", 1.0)]
    during.append(lambda: create("a"))
    with pytest.raises(ValueError, match="was created again"):
        index.add(["2"], ["good"])
    one, other = SearchIndex(tmp_path / "index"), SearchIndex(tmp_path / "index")
    one.add(["0"], ["good"], vectors=np.eye(8)[:1])
    with pytest.raises(ValueError, match="must match.* where the index has 8 dimensions"):
        other.add(["1"], ["good"], vectors=np.eye(4)[:1])
    assert len(SearchIndex(tmp_path / "index")) == 1


def _end_before_it_counts(directory, change):
    document_index._write_description = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    change(SearchIndex(directory))


def _add(index):
    index.add(["0", "9"], ["a", "b"], vectors=np.eye(32)[:2])


def _delete(index):
    index.delete(["0", "1", "2"])


@pytest.mark.parametrize("change", [_add, pytest.param(_delete, marks=pytest.mark.slow)])
def test_a_change_that_is_killed_leaves_the_index(changed, change):
    before, files = changed.search(["a film"]), sorted(os.listdir(changed.directory))
    process = processes.start(_end_before_it_counts, changed.directory, change)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert SearchIndex(changed.directory).search(["a film"]) == before
    changed.add(["new"], ["bad"])  # removes what is left
    changed.delete(["new"])
    assert changed.search(["a film"]) == before and len(os.listdir(changed.directory)) == len(files)
    assert not [name for _, _, names in os.walk(changed.directory) for name in names if "deleted" in name]


class _FailingIndexer(Indexer):
    """Fails at a text; the identity is that of an `Indexer`."""

    def __call__(self):
        answer = super().__call__()

        def fail(rows):
            if "bad" in rows.texts[0]:
                raise OSError("The disk is gone.")
            return answer(rows)

        return fail


def test_an_interrupted_job_resumes(changed, tmp_path, caplog):
    path = tiny.write_jsonl(tmp_path / "more.jsonl", [("dull",), ("bad",)], ["text"])
    before, indexer = changed.search(["a film"]), changed.indexer()

    def add(maker):
        changed.add_rows(lambda file: run_table_job(TableJob(str(path), file, maker, rows_per_part=1)))

    with pytest.raises(OSError, match="The disk is gone"):
        add(_FailingIndexer(indexer.path, indexer.options))
    assert SearchIndex(changed.directory).search(["a film"]) == before
    with caplog.at_level("INFO", "absl"):
        add(indexer)
    assert "Resuming: 1 of 2 parts exist." in caplog.text
    assert {hit.text for hit in changed.search(["a film"])[0] if hit.id in "01"} == {"dull", "bad"}


def test_an_interrupted_new_index_resumes(model, tmp_path, caplog, monkeypatch):
    fake = lambda *_, **__: lambda texts: np.ones([len(texts), 8], np.float32)  # noqa: E731
    monkeypatch.setattr(embedders, "SentenceEncoder", fake)
    path = tiny.write_jsonl(tmp_path / "texts.jsonl", [("dull",), ("bad",)], ["text"])

    def make(maker):
        job = TableJob(str(path), "", maker, rows_per_part=1)
        make_index(f"{tmp_path}/new/", maker, lambda file: run_table_job(dataclasses.replace(job, output_file=file)))

    with pytest.raises(OSError, match="The disk is gone"):
        make(_FailingIndexer(model))
    assert sorted(os.listdir(tmp_path)) == ["new.rows.npz.parts", "texts.jsonl"]
    with caplog.at_level("INFO", "absl"):
        make(Indexer(model))
    assert "Resuming: 1 of 2 parts exist." in caplog.text
    assert sorted(os.listdir(tmp_path)) == ["new", "texts.jsonl"]
    assert SearchIndex(tmp_path / "new").has_documents(["0", "1"]).all()


def test_a_file_in_the_place_of_the_embeddings_is_kept(model, tmp_path):
    place = tmp_path / "index.rows.npz"
    for make in (lambda: place.write_text("mine"), lambda: place.symlink_to("nowhere")):
        make()
        with pytest.raises(ValueError, match=r"index\.rows\.npz already exists\. .*; otherwise, move it or"):
            make_index(f"{tmp_path}/index/", Indexer(model), lambda path: pytest.fail(path))
        assert os.listdir(tmp_path) == [place.name] and (place.is_symlink() or place.read_text() == "mine")
        place.unlink()


# === Approximate search ===


def clusters(count, width=32, seed=0):
    """Vectors around 50 centers, and queries around some of them."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(50, width))
    near = centers[rng.integers(0, 50, count + 20)] + rng.normal(size=(count + 20, width)) * 0.7
    return np.split(near.astype(np.float32), [count])


@pytest.mark.parametrize("dtype", ["float32", "int8", "binary"])
def test_a_graph_finds_almost_all_of_the_nearest(dtype, model, tmp_path, monkeypatch):
    pytest.importorskip("usearch", reason="needs bert-tf[usearch]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 1000)
    monkeypatch.setattr(nearest_neighbors, "cores", lambda: 1)  # the graph depends on the order of insertion
    stored, queries = clusters(2000)
    names = [str(n) for n in range(2000)]
    exact = SearchIndex.create(tmp_path / "index", model, vector_dtype=dtype)
    exact.add(names, names, vectors=stored)
    exact.add(["new"], ["new"], vectors=queries[:1])  # of a segment that is too small for a graph
    deleted = [hit.id for hit in exact.search(queries[1:2], 30)[0]]
    exact.delete(deleted)
    index = SearchIndex(tmp_path / "index", approximate=True)
    recalls = []
    for found, expected in zip(index.search(queries, 10), exact.search(queries, 10), strict=True):
        recalls.append(len({hit.id for hit in found} & {hit.id for hit in expected}) / 10)
        cosines_of = {hit.id: hit.score for hit in expected}
        assert len(found) == 10 and all(hit.score == pytest.approx(cosines_of.get(hit.id, hit.score), abs=1e-5)
                                        for hit in found)  # fmt: skip
        assert not set(deleted) & {hit.id for hit in found}
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert np.mean(recalls) > (0.7 if dtype == "binary" else 0.95)
    assert index.search(queries[:1], 1)[0][0].id == "new"
    assert len(index.search(queries[:1], 5000)[0]) == len(exact)
    [graph] = (tmp_path / "index").glob("*/graph.usearch")
    written = graph.stat().st_mtime_ns
    assert SearchIndex(tmp_path / "index", approximate=True).search(queries, 3) == index.search(queries, 3)
    assert graph.stat().st_mtime_ns == written
    index.delete([name for name in names if name not in deleted])  # the segment and its graph are removed
    assert [hit.id for hit in index.search(queries[:1])[0]] == ["new"] and not graph.exists()


def test_a_graph_of_other_documents_is_refused(model, tmp_path, monkeypatch):
    pytest.importorskip("usearch", reason="needs bert-tf[usearch]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 3)
    for count in (5, 6):
        index = SearchIndex.create(tmp_path / str(count), model)
        index.add(list("abcdef"[:count]), list("abcdef"[:count]))
        SearchIndex(tmp_path / str(count), approximate=True).search(["a"])
    graphs = [tmp_path / str(count) / "segment-000001" / "graph.usearch" for count in (5, 6)]
    shutil.copyfile(*graphs)
    with pytest.raises(ValueError, match="graph.usearch is not the graph of its segment. Remove the file"):
        SearchIndex(tmp_path / "6", approximate=True).search(["a"])


def test_an_index_that_cannot_be_written_is_searched_exactly(model, tmp_path, monkeypatch, caplog):
    pytest.importorskip("usearch", reason="needs bert-tf[usearch]")
    monkeypatch.setattr(nearest_neighbors, "_LEAST_ROWS", 3)

    def fail(*_):
        raise OSError("Read-only file system")

    monkeypatch.setattr(nearest_neighbors, "_write_graph", fail)
    exact = SearchIndex.create(tmp_path / "index", model)
    exact.add(list("abcdef"), list("abcdef"))
    index = SearchIndex(tmp_path / "index", approximate=True)
    assert index.search(["a"]) == index.search(["a"]) == exact.search(["a"])
    assert caplog.text.count("is searched without a graph, which cannot be written: Read-only file system") == 1


def test_a_graph_needs_its_library(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch", None)
    monkeypatch.delitem(sys.modules, "usearch.index", raising=False)
    with pytest.raises(ValueError, match=r"`approximate` requires USearch: .*pip install 'bert-tf\[usearch\]'"):
        SearchIndex(path, approximate=True)


# === Export ===


def exported(index, folder):
    index.export(folder / "index.parquet")
    return parquet.read_table(folder / "index.parquet")


@pytest.mark.parametrize("dtype", ["float32", "int8", "binary"])
def test_an_index_is_exported_as_parquet(dtype, model, tmp_path, vectors, monkeypatch):
    monkeypatch.setattr(index_segments, "_BLOCK", 2)
    index = SearchIndex.create(tmp_path / "index", model, vector_dtype=dtype)
    index.add(list("abcde"), TEXTS, [{"page": n} for n in range(5)], vectors[0])
    index.add(["f"], ["to see"], vectors=vectors[1][:1])
    index.delete(["b", "d"])
    table = exported(index, tmp_path)
    stored = quantize_vectors(unit(np.concatenate([vectors[0][[0, 2, 4]], vectors[1][:1]])), dtype)
    assert table.schema.field("embedding").type == pa.list_(pa.from_numpy_dtype(stored.dtype), stored.shape[1])
    found = table.column("embedding").combine_chunks().flatten().to_numpy().reshape(stored.shape)
    np.testing.assert_allclose(found, stored, atol=1e-6)
    assert table.drop_columns("embedding").to_pydict() == {
        "id": list("acef"), "text": [TEXTS[0], TEXTS[2], TEXTS[4], "to see"],
        "payload": ['{"page": 0}', '{"page": 2}', '{"page": 4}', None],
    }  # fmt: skip


def test_what_cannot_be_exported(model, path, tmp_path):
    with pytest.raises(ValueError, match="new has no documents to export. Add some."):
        exported(SearchIndex.create(tmp_path / "new", model), tmp_path)
    for words, message in (
        (["--export_file=a.csv"], "--export_file must end in .parquet. Received: a.csv."),
        (["--export_file=a.parquet", "good"], "--export_file cannot be combined with queries"),
    ):
        status, log = run("search", f"--index_dir={path}", *words)
        assert status == 1 and message in log, log
    status, log = run("search", f"--index_dir={path}", f"--export_file={tmp_path}/a.parquet")
    assert status == 0 and "Wrote 5 documents with their embeddings" in log, log
    assert parquet.read_table(tmp_path / "a.parquet").num_rows == 5


# === Commands ===


def test_makers_go_to_other_processes_and_say_what_decides(model):
    embedder, indexer = (kind(model, EncodeOptions(prompt="see ")) for kind in (Embedder, Indexer))
    assert json.loads(json.dumps(embedder.identity)) == embedder.identity and embedder.identity["prompt"] == "see "
    assert indexer.identity == {**embedder.identity, "texts": True}
    assert pickle.loads(pickle.dumps(indexer)) == indexer
    assert Embedder(model).identity != embedder.identity


def test_blank_queries_are_refused():
    assert decode_queries(["a", "\udcffb"]) == ["a", "b"]
    for words in ([], ["a", " "]):
        with pytest.raises(ValueError, match="Pass at least one query as an argument, and no empty ones"):
            decode_queries(words)


def run(name, *words):
    """Returns what a command printed, which must succeed, or the error of one that must not."""
    ended = run_here(name, list(words))
    return ended["status"], ended["log"]


def results(index, query, *words):
    status, log = run("search", f"--index_dir={index}", query, "--json", *words)
    assert status == 0, log
    return json.loads(log.splitlines()[-1])


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


def test_a_null_title_counts_as_an_empty_one(model, tmp_path):
    corpus, rows = tmp_path / "corpus.jsonl", [("d1", None, "a film"), ("d2", "", "it is"), ("d3", "Music", "a")]
    tiny.write_jsonl(corpus, rows, ["_id", "title", "text"])
    columns = {"id_column": "_id", "text_columns": ("title", "text")}
    embedder = Embedder(model)
    run_table_job(TableJob(str(corpus), f"{tmp_path}/a.npz", embedder, **columns))
    expected = read_texts_by_id(str(corpus), ["d1", "d2", "d3"], "documents_file")
    assert expected == {"d1": "a film", "d2": "it is", "d3": "Music a"}
    with np.load(tmp_path / "a.npz") as found:
        np.testing.assert_allclose(found["embeddings"], SentenceEncoder(model)(list(expected.values())), atol=1e-5)
    for name in ("title", "text"):  # a title alone is the text
        tiny.write_jsonl(corpus, [("d1", None, "a"), ("d2", "Music", None)], ["_id", "title", "text"])
        columns["text_columns"] = ("title", "text") if name == "text" else (name,)
        with pytest.raises(ValueError, match=r"corpus\.jsonl: every row must have a text .*, in line [12]\. Add the"):
            run_table_job(TableJob(str(corpus), f"{tmp_path}/b.npz", embedder, **columns))
    with pytest.raises(ValueError, match=r"an index cannot store null\. 1 row of 2 have none, in line 2\. Add"):
        run_table_job(TableJob(str(corpus), f"{tmp_path}/c.npz", Indexer(model), **columns))


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
        (["embed", "--index_dir=INDEX"], "is an index; add to it with --update, or choose another directory."),
        (["embed", "--index_dir=INDEX", "--update"], "--update requires --id_column, which identifies the texts"),
        (["embed", "--index_dir=INDEX", "--update", "--id_column=key", "--pooling=max"],
         "--pooling cannot be combined with --update: the index has its own settings. Remove it."),
        (["embed", "--output_file=HOME/a.npz", "--id_column=key"], "--id_column requires --index_dir. Remove it, or"),
        (["embed", "--index_dir=HOME/new", "--id_column=text"], "texts.jsonl:2: each id must be unique. Received 'b'"),
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
