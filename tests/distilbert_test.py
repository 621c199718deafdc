"""A DistilBERT directory as Hugging Face writes it: loaded, fine-tuned to classify and to answer, asked, exported."""

import json
import logging
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from bert_tf.data.squad import read_squad
from bert_tf.tasks.question_answering import QuestionAnsweringTask
from bert_tf.tools.filler import Filler
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.export.trained import export_trained
from bert_tf.model_files import load_description, save_description
from bert_tf.tasks import squad
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.registry import save_task
from bert_tf.training.job import Job
from bert_tf.training.loop import RunConfig
from tests import tiny

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "distilbert"
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


def test_a_classifier_upon_a_layer_that_we_do_not_have_is_not_taken_for_ours(folder):
    head = {"classifier.weight": np.ones((2, 24), np.float32), "classifier.bias": np.ones(2, np.float32)}
    _change(folder, lambda tensors: tensors.update(head))
    assert bert_tf.load(folder).head.num_labels == 2
    below = {"pre_classifier.weight": np.ones((24, 24), np.float32), "pre_classifier.bias": np.ones(24, np.float32)}
    _change(folder, lambda tensors: tensors.update(below))
    assert bert_tf.load(folder).head is None
    job = Job(ClassificationTask(load_description([str(folder)]).config, 2), RunConfig("/nowhere", 8, 1, 0, 1e-3,
              init_checkpoint=str(folder)), 16)  # fmt: skip
    with pytest.raises(ValueError, match="which has no head for this task"):
        job.restore()


def test_classification(folder, tmp_path):
    out, rows = str(tmp_path / "out"), tiny.tokenized(64)
    model = load_description([str(folder)])
    task = ClassificationTask(model.config, 2)
    job = Job(task, RunConfig(out, 16, 150, 10, 3e-3, init_checkpoint=str(folder)), 16)
    save_description(out, model.config, model.tokenizer, ["0", "1"])
    save_task(out, task, ("text",), 16)
    job.train(rows)
    assert not [v.path for v in job.model.variables if "pooler" in v.path or "token_type" in v.path]
    assert job.scores(rows, 16)["accuracy"] > 0.9
    served = tf.saved_model.load(export_trained(out)).signatures["serving_default"]
    text = ["the film is good", "bad music"]
    inputs = model.tokenizer(text, max_seq_length=16)
    np.testing.assert_allclose(
        served(text=tf.constant(text))["probabilities"], task.answers(job.model(inputs).numpy()), atol=1e-5
    )
    assert bert_tf.load(out).config == model.config


def test_question_answering(folder, tmp_path):
    rng, paragraphs, out = np.random.default_rng(0), [], str(tmp_path / "out")
    for i in range(48):
        words = rng.choice(tiny.FILL, rng.integers(1, 8)).tolist()
        words.insert(rng.integers(len(words) + 1), str(rng.choice(tiny.GOOD)))
        context = " ".join(words)
        word = next(word for word in words if word in tiny.GOOD)
        answer = {"text": word, "answer_start": context.index(word)}
        paragraphs.append({"context": context, "qas": [{"id": str(i), "question": "the film", "answers": [answer]}]})
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}), encoding="utf-8")
    model, texts = load_description([str(folder)]), dict.fromkeys(("train", "dev"), read_squad(str(path), True))
    rows = squad.lay_out(model.tokenizer, texts, 16, 4, 4)
    assert not rows["train"].tokenized.pieces["segment_ids"].any()
    task = QuestionAnsweringTask(model.config, max_query_length=4, doc_stride=4)
    job = Job(task, RunConfig(out, 16, 150, 10, 3e-3, init_checkpoint=str(folder)), 16)
    save_description(out, model.config, model.tokenizer)
    save_task(out, task, squad.TEXT_INPUTS, 16)
    job.train(rows["train"].tokenized)
    answers = squad.find_answers(task, rows["dev"], texts["dev"], job.outputs(rows["dev"].tokenized, 16))
    right = [each.best.text == gold[0][0] for each, gold in zip(answers, texts["dev"].answers, strict=True)]
    assert np.mean(right) > 0.8
    served = tf.saved_model.load(export_trained(out)).signatures["serving_default"]
    contexts = texts["dev"].contexts[:8]
    said = served(question=tf.constant(["the film"] * 8), context=tf.constant(contexts))["answer"].numpy()
    assert [text.decode() for text in said] == [each.best.text for each in answers[:8]]


def test_fill_mask(folder, tmp_path):
    filler = Filler(folder, top_k=2)
    assert filler.max_seq_length == 20
    answers = list(filler(["the [MASK] is good"]))
    assert len(answers) == 1 and len(answers[0]["token"]) == 2
    served = tf.saved_model.load(filler.export(str(tmp_path / "export"))).signatures["serving_default"]
    got = served(text=tf.constant(["the [MASK] is good"]))
    assert [token.decode() for token in got["token"].numpy()[0]] == answers[0]["token"]
