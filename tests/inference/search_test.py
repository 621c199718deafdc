"""An index on disk: exact cosines whatever the blocks, and the model that it was made with."""

import json
import pickle
import shutil

import numpy as np
import pytest

from bert_tf.cli import main
from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job
from bert_tf.inference.search import Embedder, Indexer, SearchIndex, make_index, read_queries
from bert_tf.inference.sentence_encoder import EncodeOptions, SentenceEncoder
from tests import tiny

TEXTS = ["good film", "", "a warm story of people — 音楽", "good film", "it is dull , cold and empty ."]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny.checkpoint(tmp_path_factory.mktemp("model")))


def index_of(model, folder, texts=TEXTS, **options):
    path = folder / "texts.jsonl"
    tiny.write_jsonl(path, [(text,) for text in texts], ["text"])
    maker = Indexer(model, EncodeOptions(**options))
    make_index(str(folder / "index"), maker, lambda file: run_table_job(TableJob(str(path), file, maker)))
    return folder / "index"


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    return index_of(model, tmp_path_factory.mktemp("max"), pooling="max")


@pytest.fixture(scope="module")
def vectors(model):
    """The texts' vectors, and those of two queries."""
    found = SentenceEncoder(model, pooling="max")([*TEXTS, "a film", "good film"])
    return found[:-2], found[-2:]


@pytest.mark.parametrize("block", [2, 100])
def test_the_nearest_come_first(block, path, vectors, monkeypatch):
    monkeypatch.setattr("bert_tf.inference.search._BLOCK", block)
    index, (texts, queries) = SearchIndex(path), vectors
    scores, rows = index.search(queries, top_k=3)
    cosines = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in texts] for a in queries])
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :3], atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(cosines, rows, 1), scores, atol=1e-5)
    assert sorted(rows[1, :2].tolist()) == [0, 3] and scores[1, 0] == pytest.approx(1, abs=1e-5)
    assert [index.text(n) for n in range(len(index))] == TEXTS
    assert index.search(queries, top_k=99)[1].shape == (2, len(TEXTS))


def test_it_knows_its_model(model, path, tmp_path):
    index = SearchIndex(path)
    other = tiny.checkpoint(tmp_path / "other", num_hidden_layers=2)
    message = "was created with; .*other has different weights and tokenizer or configuration. Pass that model"
    with pytest.raises(ValueError, match=message):
        index.encoder(str(other))
    with pytest.raises(ValueError, match=r"was created with\. Pass its current path as `model`\."):
        index.encoder(str(tmp_path / "gone"))
    assert index.encoder(model).recipe.poolings == ("max",)
    shutil.copytree(path, tmp_path / "index")
    described = json.loads((path / "index.json").read_text())
    described["identity"]["poolings"] = ["mean"]
    (tmp_path / "index" / "index.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match="has different poolings. Pass that model, or create the index again"):
        SearchIndex(tmp_path / "index").encoder(model)


def test_whole_or_not_at_all(model, path, tmp_path):
    with pytest.raises(ValueError, match="a text must be a string"):
        index_of(model, tmp_path, [*TEXTS, 5])
    assert not list(tmp_path.glob("index*"))
    with pytest.raises(ValueError, match="`index_dir` must not exist yet"):
        index_of(model, path.parent)
    shutil.copytree(path, tmp_path / "index")
    np.save(tmp_path / "index" / "text_splits.npy", np.arange(3))
    with pytest.raises(ValueError, match="is not a complete index"):
        SearchIndex(tmp_path / "index")
    with pytest.raises(ValueError, match="index.json must be the description of an index"):
        SearchIndex(tmp_path)


def test_makers_go_to_other_processes_and_say_what_decides(model):
    embedder, indexer = (kind(model, EncodeOptions(prompt="see ")) for kind in (Embedder, Indexer))
    assert json.loads(json.dumps(embedder.identity)) == embedder.identity and embedder.identity["prompt"] == "see "
    assert indexer.identity == {**embedder.identity, "texts": True}
    assert pickle.loads(pickle.dumps(indexer)) == indexer
    assert Embedder(model).identity != embedder.identity


def test_blank_queries_are_refused():
    assert read_queries(["a", "\udcffb"]) == ["a", "b"]
    for words in ([], ["a", " "]):
        with pytest.raises(ValueError, match="Pass at least one query as an argument, and no empty ones"):
            read_queries(words)


def test_search_prints_json(path, capsys):
    with pytest.raises(SystemExit) as end:
        main.start_program("search", [f"--index_dir={path}", "good film", "--json", "--top_k=1"])
    assert not end.value.code
    assert json.loads(capsys.readouterr().out) == {
        "query": "good film",
        "results": [{"id": 0, "score": pytest.approx(1, abs=1e-5), "text": "good film"}],
    }
