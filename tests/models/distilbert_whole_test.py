"""A DistilBERT directory as Hugging Face writes it: loaded, fine-tuned to classify and to answer, asked, exported."""

import contextlib
import json
import logging
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (the exports' ops)
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints.loading import load_description
from bert_tf.cli.main import start_program
from bert_tf.inference.fill_mask import Filler
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from tests import tiny
from tests.tasks.question_answering.support import questions, write

pytestmark = pytest.mark.usefixtures("unfused")
GOLDEN = pathlib.Path(__file__).parents[1] / "goldens" / "distilbert"
PIECES = [*tiny.VOCAB, *(f"word{n}" for n in range(200 - len(tiny.VOCAB)))]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "distilbert"
    path.mkdir()
    for file in ("config.json", "model.safetensors"):
        shutil.copy(GOLDEN / file, path / file)
    (path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return path


def _change(path, change):
    tensors = load_file(path / "model.safetensors")
    change(tensors)
    save_file(tensors, path / "model.safetensors", {"format": "pt"})


def test_load(folder, caplog):
    with caplog.at_level(logging.WARNING):
        bert = bert_tf.load(folder)
    assert "no pooler" not in caplog.text and bert.head is None
    expected = load_file(GOLDEN / "expected.safetensors")
    inputs = {"input_ids": expected["input_ids"], "input_mask": expected["attention_mask"]}
    np.testing.assert_allclose(bert.encoder(inputs)["sequence_output"], expected["hidden_states"][-1], atol=5e-5)
    rows = bert.tokenizer(["good film"], ["bad"], 12)
    assert not rows["segment_ids"].numpy().any() and rows["input_mask"].numpy().sum() == 6


def test_without_the_prefix(folder):
    whole = bert_tf.load(folder).encoder.get_weights()

    def change(tensors):
        tensors.update({name.removeprefix("distilbert."): tensors.pop(name) for name in list(tensors)})

    _change(folder, change)
    for mine, theirs in zip(bert_tf.load(folder).encoder.get_weights(), whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_head_for_every_piece_is_not_taken_for_a_classifier_s(folder):
    head = {"classifier.weight": np.ones((2, 24), np.float32), "classifier.bias": np.ones(2, np.float32)}
    _change(folder, lambda tensors: tensors.update(head))
    assert bert_tf.load(folder).head.num_labels == 2 and bert_tf.load(folder).head.transform_act is None
    job = Trainer(ClassificationTask(load_description([str(folder)]).config, 2), RunConfig("/nowhere", 8, 1, 0, 1e-3,
              init_checkpoint=str(folder)))  # fmt: skip
    with pytest.raises(ValueError, match="has no head for this task"):
        job.restore()
    below = {"pre_classifier.weight": np.ones((24, 24), np.float32), "pre_classifier.bias": np.ones(24, np.float32)}
    _change(folder, lambda tensors: tensors.update(below))
    assert bert_tf.load(folder).head.transform_act == "relu"
    job.restore()


RECIPE = ["--max_seq_length=16", "--learning_rate=3e-3", "--train_batch_size=16", "--do_train", "--do_predict",
          "--do_export"]  # fmt: skip


def _run(program, folder, out, *arguments):
    """Runs a program as the command line would, and returns what it exported."""
    with contextlib.suppress(SystemExit):
        start_program(program, [*RECIPE, f"--init_checkpoint={folder}", f"--output_dir={out}", *map(str, arguments)])
    return tf.saved_model.load(str(out / "export" / "1")).signatures["serving_default"]


@pytest.mark.slow
def test_classification(folder, tmp_path):
    out, texts = tmp_path / "out", [text for text, _ in tiny.texts(20, seed=1)]
    tiny.write_tsv(tmp_path / "train.tsv", tiny.texts(96))
    tiny.write_tsv(tmp_path / "test.tsv", [(text,) for text in texts], "text")
    served = _run("run_classifier", folder, out, f"--train_file={tmp_path}/train.tsv", "--num_train_epochs=40",
                  "--learning_rate=2e-3", f"--predict_file={tmp_path}/test.tsv")  # fmt: skip
    assert {v for v in tf.train.load_checkpoint(str(out)).get_variable_to_shape_map() if "pooler" in v} == set()
    probabilities = np.loadtxt(out / "test_results.tsv", ndmin=2)
    np.testing.assert_allclose(served(text=tf.constant(texts))["probabilities"], probabilities, atol=1e-5)
    assert np.mean(probabilities.argmax(-1) == [int(label) for _, label in tiny.texts(20, seed=1)]) > 0.9
    assert bert_tf.load(out).config == load_description([str(folder)]).config


@pytest.mark.slow
def test_question_answering(folder, tmp_path):
    out, asked = tmp_path / "out", questions(20, 1)
    write(tmp_path / "train.json", questions(96))
    write(tmp_path / "dev.json", asked)
    served = _run("run_squad", folder, out, f"--train_file={tmp_path}/train.json", "--num_train_epochs=20",
                  f"--predict_file={tmp_path}/dev.json", "--max_query_length=5", "--doc_stride=4")  # fmt: skip
    answers = list(json.loads((out / "predictions.json").read_text(encoding="utf-8")).values())
    texts = [tf.constant([row[place] for row in asked]) for place in (0, 1)]
    assert [text.decode() for text in served(question=texts[0], context=texts[1])["answer"].numpy()] == answers
    assert np.mean([answer == row[2] for answer, row in zip(answers, asked, strict=True)]) > 0.8


def test_the_served_ids_of_masks_need_no_table_of_segments(folder):
    filler = Filler(folder, top_k=2)
    (answer,) = filler(["the [MASK] is good"])
    rows = filler.reader.pad(filler.reader.pack(filler.reader.tokenize(["the [MASK] is good"]), max_seq_length=16))
    served = filler.served()
    found = served.answer_ids(*(rows[name] for name in served.task.features))
    assert [token.decode() for token in found["token"].numpy()[0]] == answer["token"]


@pytest.mark.slow
def test_fill_mask(folder, tmp_path):
    filler = Filler(folder, top_k=2)
    assert filler.max_seq_length == 20
    answers = list(filler(["the [MASK] is good"]))
    assert len(answers) == 1 and len(answers[0]["token"]) == 2
    served = tf.saved_model.load(filler.export(str(tmp_path / "export"))).signatures["serving_default"]
    got = served(text=tf.constant(["the [MASK] is good"]))
    assert [token.decode() for token in got["token"].numpy()[0]] == answers[0]["token"]
