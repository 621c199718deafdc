"""Embeddings of the rows of a table: what decides them, and the texts of a row."""

import json
import pickle

import numpy as np
import pytest

from bert_tf.data.trec_files import read_texts_by_id
from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job
from bert_tf.inference.embedders import Embedder, Indexer
from bert_tf.inference.sentence_encoder import SentenceEncoder
from bert_tf.inference.settings import EncodeOptions
from tests import tiny


def test_makers_go_to_other_processes_and_say_what_decides(model):
    embedder, indexer = (kind(model, EncodeOptions(prompt="see ")) for kind in (Embedder, Indexer))
    assert json.loads(json.dumps(embedder.identity)) == embedder.identity and embedder.identity["prompt"] == "see "
    assert indexer.identity == {**embedder.identity, "texts": True}
    assert pickle.loads(pickle.dumps(indexer)) == indexer
    assert Embedder(model).identity != embedder.identity


@pytest.mark.slow
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
    with pytest.raises(ValueError, match=r"an index cannot store null\. 1 row of 2 has no text, in line 2\. Add"):
        run_table_job(TableJob(str(corpus), f"{tmp_path}/c.npz", Indexer(model), **columns))
