"""BERT's children with tokenizers of their own, from a file of text through training and export to a served answer."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints.loading import load_description
from bert_tf.runs.run_task import run_task
from bert_tf.runs.task_flags import task_settings
from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "tokenizers"
ROBERTA = {"model_type": "roberta", "first_position": 2, "type_vocab_size": 1, "has_pooler": False}
ALBERT = {"model_type": "albert", "embedding_size": 16, "num_hidden_groups": 1}
CHILDREN = {
    "byte_bpe": ({**ROBERTA, "classifier_act": "tanh", "vocab_size": 601}, ("vocab.json", "merges.txt")),
    "unigram": ({**ALBERT, "vocab_size": 301}, ("spiece.model", "tokenizer.json")),
}
TEXTS = ["", "The old lighthouse, 9,500 waves!", "une cr\u00eape ``\u56fe''", "<s> [CLS] \U0001f600", "good " * 40]


def _checkpoint(folder, kind):
    """Writes a checkpoint of random weights with the golden's vocabulary."""
    config, _ = CHILDREN[kind]
    path = tiny.checkpoint(folder, dropout=0.0, **config)
    (path / "vocab.txt").unlink()
    for file in (GOLDENS / kind).iterdir():
        shutil.copy(file, path)
    return path


def _run(**given):
    run_task(ClassificationTask, task_settings(ClassificationTask)().give(given))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["byte_bpe", "unigram"])
def test_from_a_file_of_text_to_a_served_answer(kind, tmp_path):
    start, out = _checkpoint(tmp_path / "start", kind), tmp_path / "out"
    rows = [(f"{text} {i}", str(i % 2)) for i in range(4) for text in ("The ship", "It wasn't raining", "mountains")]
    tiny.write_tsv(tmp_path / "train.tsv", rows)
    tiny.write_jsonl(tmp_path / "ask.jsonl", [(text,) for text in TEXTS], ("text",))
    given = {"train_file": str(tmp_path / "train.tsv"), "predict_file": str(tmp_path / "ask.jsonl"), "do_train": True,
             "do_predict": True, "do_export": True, "init_checkpoint": str(start), "output_dir": str(out), "seed": 1,
             "max_seq_length": 24, "train_batch_size": 6, "num_train_epochs": 1.0, "learning_rate": 1e-3}  # fmt: skip
    _run(**given)

    assert all((out / name).exists() for name in CHILDREN[kind][1]) and not (out / "vocab.txt").exists()
    before, after = (load_description([str(path)]).tokenizer for path in (start, out))
    assert before.KIND == kind == after.KIND and before.vocab == after.vocab and before.template == after.template
    lines = (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    expected = [[*json.loads(line)["probabilities"].values()] for line in lines]
    serve = tf.saved_model.load(str(out / "export" / "1")).signatures["serving_default"]
    np.testing.assert_allclose(serve(text=tf.constant(TEXTS))["probabilities"], expected, atol=1e-5)
    assert np.ptp(expected, axis=0).max() > 1e-3  # texts do differ
