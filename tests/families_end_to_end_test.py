"""BERT's children from random weights to an answer: trained on film reviews, exported, served, asked."""

import json
import shutil

import numpy as np
import pytest

from bert_tf.serving.client import Client
from bert_tf.serving.server import serve
from tests.conftest import ROOT
from tests.scripts import run

TOKENIZERS = ROOT / "tests" / "goldens" / "tokenizers"
_SHAPE = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "hidden_act": "gelu",
    "max_position_embeddings": 258, "layer_norm_eps": 1e-6, "hidden_dropout_prob": 0.1,
}  # fmt: skip
# The family -> what its configuration says beside the shape, and where its vocabulary is; None: learned from the texts.
CASES = {
    "roberta": ({"vocab_size": 601, "type_vocab_size": 1}, "byte_bpe/vocab.json"),
    "albert": ({"vocab_size": 301, "embedding_size": 32, "num_hidden_groups": 1}, "unigram/spiece.model"),
    "electra": ({"vocab_size": 2000, "embedding_size": 32}, None),
}


def _model(folder, data, family):
    """Puts a configuration and a vocabulary into `folder`; returns the vocabulary's path."""
    fields, vocabulary = CASES[family]
    (folder / "config.json").write_text(json.dumps({"model_type": family, **_SHAPE, **fields}), encoding="utf-8")
    if vocabulary:
        source = TOKENIZERS / vocabulary
        shutil.copytree(source.parent, folder, dirs_exist_ok=True)
        return folder / source.name
    lines = (data / "train.tsv").read_text(encoding="utf-8").splitlines()
    (folder / "texts.txt").write_text("".join(f"{line.split(chr(9))[0]}\n" for line in lines), encoding="utf-8")
    path = folder / "vocab.txt"
    flags = (f"--input_file={folder}/texts.txt", f"--output_file={path}", f"--vocab_size={fields['vocab_size']}")
    run(["bert_tf", "train_vocabulary", *flags], "-m")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("family", CASES)
def test_reviews(family, shared_data, tmp_path):
    data, output = shared_data / "sst2-tutorial", tmp_path / "output"
    vocabulary = _model(tmp_path, data, family)
    run([
        f"--train_file={data}/train.tsv", f"--eval_file={data}/dev.tsv", f"--predict_file={data}/test.tsv",
        "--header=false", "--text_column=0", "--label_column=1", f"--bert_config_file={tmp_path}/config.json",
        f"--vocab_file={vocabulary}", f"--output_dir={output}", "--do_train", "--do_eval", "--do_predict",
        "--do_export", "--max_seq_length=192", "--train_batch_size=32", "--learning_rate=1e-3",
        "--num_train_epochs=3", "--seed=1",
    ])  # fmt: skip
    scores = dict(line.split(" = ") for line in (output / "eval_results.txt").read_text().splitlines())
    print(f"{family}: accuracy {scores['eval_accuracy']} of the dev file, from random weights")
    assert float(scores["eval_accuracy"]) > 0.55
    written = [json.loads(line) for line in (output / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    with serve(str(output / "export"), "reviews") as server, Client(f"localhost:{server.port}", "reviews") as client:
        answers = client.classify([row["text"] for row in written])
    assert [answer["label"] for answer in answers] == [row["label"] for row in written]
    ours, theirs = ([list(a["probabilities"].values()) for a in answers], [row["probabilities"] for row in written])
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
