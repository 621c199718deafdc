"""Japanese models whose words MeCab finds: training, predictions and embeddings of plain text, and no exports."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf.export.hub.export import export_hub
from bert_tf.inference.fill_mask import Filler
from bert_tf.pretraining.corpus.document_tokenization import tokenize_documents
from bert_tf.utils.documents import Document
from tests import japanese, tiny

GOOD, BAD = ("面白い", "楽しい"), ("退屈だ", "寒い")
FILL = ("この映画は", "ﾃﾚﾋﾞで見た", "㍿ミライの話は", "友人と", "\u3000", "、", "とても")
NAMES = ("東京", "ﾆｭｰﾖｰｸ", "がくし\u3099ま", "Ａ区")
OUTSIDE = "must contain its tokenizer as TensorFlow operations; got one whose words are found by MeCab"
SETTINGS = {"max_seq_length": 32, "train_batch_size": 16, "learning_rate": 4e-3, "num_train_epochs": 8, "seed": 1,
            "verbose": False}  # fmt: skip


@pytest.fixture(autouse=True)
def by_script(monkeypatch):
    japanese.without_mecab(monkeypatch)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    vocab = japanese.vocabulary([*GOOD, *BAD, *FILL, *NAMES, "。"], gaps=0)
    return japanese.checkpoint(tmp_path_factory.mktemp("start"), vocab)


def _reviews(count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        label = int(rng.integers(2))
        yield {"text": "".join([*rng.choice(FILL, 3), rng.choice((BAD, GOOD)[label]), "。"]), "label": str(label)}


def _tagged(count, seed=0):
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        before, name = "".join(rng.choice(FILL, 2)) + "、", str(rng.choice(NAMES))
        entity = {"start": len(before), "end": len(before) + len(name), "type": "LOC", "text": name}
        rows.append({"text": f"{before}{name}、{rng.choice(FILL)}", "entities": [entity]})
    return rows


@pytest.mark.slow
def test_a_classifier_learns_and_predicts(start, tmp_path):
    rows, dev = list(_reviews(160)), list(_reviews(40, 1))
    run = bert_tf.finetune("classification", rows, dev, init_checkpoint=start, output_dir=tmp_path / "out", **SETTINGS)
    assert run.metrics["eval_accuracy"] == 1
    predictor = bert_tf.Predictor(tmp_path / "out")
    assert [answer["label"] for answer in predictor([row["text"] for row in dev])] == [row["label"] for row in dev]
    assert predictor.token_counts.total.unknown == 0
    with pytest.raises(ValueError, match=f"An export {OUTSIDE}"):
        bert_tf.export_model(tmp_path / "out", tmp_path / "export")
    assert not (tmp_path / "export").exists()


@pytest.mark.slow
def test_entities_are_found_in_the_original_text(start, tmp_path):
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps(row) + "\n" for row in _tagged(160)), encoding="utf-8")
    settings = {**SETTINGS, "doc_stride": 16, "word_boundaries": "characters"}
    bert_tf.finetune("tagging", train, init_checkpoint=start, output_dir=tmp_path / "out", **settings)
    expected = _tagged(30, 1)
    for row, answer in zip(expected, bert_tf.Predictor(tmp_path / "out")([r["text"] for r in expected]), strict=True):
        found = [{name: each[name] for name in ("start", "end", "type", "text")} for each in answer["entities"]]
        assert found == row["entities"]


def test_embeddings_and_pretraining_data_have_the_same_tokens(start):
    bert, texts = bert_tf.load(start), [row["text"] for row in _reviews(5)]
    assert bert.tokenizer.KIND == "mecab" and bert.tokenizer.token_edges.continues.any()
    vectors = bert_tf.SentenceEncoder(start).encode(texts)
    normalized = bert_tf.SentenceEncoder(start).encode([text.replace("ﾃﾚﾋﾞ", "テレビ") for text in texts])
    np.testing.assert_allclose(vectors, normalized, atol=1e-6)
    documents = tokenize_documents([Document(0, 1, 1, texts)], bert.tokenizer, 0)
    assert documents.tokens.flat.tolist() == bert.tokenizer.tokenize(texts).flat_values.numpy().tolist()


def test_what_must_be_one_graph_is_refused_by_name(start, tmp_path):
    tokenizer = bert_tf.load(start).tokenizer
    rows = list(_reviews(4))
    for what, make in {
        "A Keras layer": lambda: bert_tf.TokenizerLayer(tokenizer),
        "An export for TF Hub": lambda: export_hub(start, tmp_path / "hub"),
        "`do_export`": lambda: bert_tf.finetune("classification", rows, init_checkpoint=start,
                                                export_dir=tmp_path / "export", **SETTINGS),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"{what} {OUTSIDE}"):
            make()
    masked = tiny.pretrained(tmp_path / "masked", vocab_size=tokenizer.vocab_size)
    tokenizer.save(masked)
    filler = Filler(str(masked))
    assert len(bert_tf.Predictor(masked)("この[MASK]は、")["token"]) == 5
    with pytest.raises(ValueError, match=f"An export {OUTSIDE}"):
        filler.export(str(tmp_path / "filler"))
