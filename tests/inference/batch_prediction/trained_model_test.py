"""Batch prediction with a trained model: of its files as they are, in several processes, of pairs, and resumed."""

import json
import os
import shutil
import types

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.inference.batch_prediction import trained_model
from bert_tf.inference.batch_prediction.answer_parts import PartWriter
from bert_tf.inference.batch_prediction.table_job import TableJob, run_table_job
from bert_tf.inference.batch_prediction.trained_model import find_trained_model
from tests import tiny

ROWS = [" ".join(text.split()[:6]) for text, _ in tiny.texts(7, seed=2)]


@pytest.fixture
def predict(tmp_path):
    """predict(maker, columns) -> the rows of the output; options as of a `TableJob`."""
    (tmp_path / "in.tsv").write_text("a\tb\n" + "".join(f"{row}\tfilm\n" for row in ROWS), encoding="utf-8")

    def run(maker, *columns, name="out.jsonl", **options):
        output = tmp_path / name
        run_table_job(TableJob(str(tmp_path / "in.tsv"), str(output), maker, columns, rows_per_chunk=2, **options))
        return [json.loads(line) for line in output.read_text("utf-8").splitlines()]

    return run


@pytest.fixture
def retrainable(trained, tmp_path):
    """Returns the folder of a classifier of one's own, and a function that trains it: its weights change."""
    folder = tmp_path / "model"
    shutil.copytree(trained("classification"), folder)

    def train():
        checkpoint, rng = open_checkpoint(str(folder)), np.random.default_rng(3)
        arrays = {name: array + rng.normal(0, 0.1, array.shape).astype(array.dtype)
                  for name, array in ((name, checkpoint.get(name)) for name in checkpoint.names)}  # fmt: skip
        tf1.write_arrays(os.path.join(folder, "model.ckpt-7"), arrays)

    return str(folder), train


def stop_at(last):
    """Returns a `PartWriter.write` that a user interrupts before a part."""
    write = PartWriter.write

    def stop(self, number, rows):
        if number == last:
            raise KeyboardInterrupt
        return write(self, number, rows)

    return stop


def scores(rows):
    return [row["probabilities"] for row in rows]


@pytest.mark.slow
def test_a_model_that_was_trained_again_answers_with_its_new_weights(retrainable, predict):
    folder, train = retrainable
    before = find_trained_model(folder)
    old = predict(before, "a")
    train()
    after = find_trained_model(folder)
    new = predict(after, "a", name="new.jsonl")
    assert before.identity["weights"] != after.identity["weights"]
    assert scores(new) != scores(old)
    assert new[0]["label"] == bert_tf.Predictor(folder)(ROWS[0])["label"]
    with pytest.raises(ValueError, match="model has changed since this run began. Run the same command again"):
        before.load()


def test_a_model_is_loaded_once_for_its_makers(trained, monkeypatch):
    traced = []  # neither answers anything here
    monkeypatch.setattr(trained_model, "trace_served", lambda path, served: (
        traced.append(types.SimpleNamespace(inputs=())) or traced[-1], {}
    ))  # fmt: skip
    first = find_trained_model(trained("classification"))
    again = find_trained_model(trained("classification"))
    monkeypatch.setattr(trained_model, "load_served", None)  # of which a call would fail
    assert first.load() is again.load() is traced[1]


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_after_its_parts(trained, predict, monkeypatch, caplog):
    caplog.set_level("INFO", "absl")
    whole = predict(find_trained_model(trained("classification")), "a")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PartWriter, "write", stop_at(2))
        predict(find_trained_model(trained("classification")), "a", name="parts.jsonl")
    assert predict(find_trained_model(trained("classification")), "a", name="parts.jsonl") == whole
    assert "Resuming: 2 of 4 parts exist." in caplog.messages


def test_a_run_does_not_go_on_with_other_weights(retrainable, predict, monkeypatch):
    folder, train = retrainable
    before = find_trained_model(folder)
    traced = before.load(), dict.fromkeys(before.outputs)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PartWriter, "write", stop_at(1))
        predict(before, "a")
    train()
    monkeypatch.setattr(trained_model, "trace_served", lambda path, served: traced)  # it is not asked again
    with pytest.raises(ValueError, match=r"out\.jsonl.*weights"):
        predict(find_trained_model(folder), "a")


@pytest.mark.slow
def test_a_hugging_face_model_answers_pairs_if_asked_to(trained, predict, tmp_path):
    ours = trained("regression")
    bert_tf.save(bert_tf.load(ours), tmp_path / "there", "huggingface")  # which does not say that it reads pairs
    theirs = find_trained_model(str(tmp_path / "there"), pairs=True)
    assert [each.name for each in theirs.inputs] == ["text_a", "text_b"]
    assert [each.name for each in find_trained_model(str(tmp_path / "there")).inputs] == ["text"]
    assert predict(theirs, "a", "b") == predict(find_trained_model(ours), "a", "b", name="ours.jsonl")


@pytest.mark.slow
def test_several_processes_answer_as_one_does(trained, predict):
    maker = find_trained_model(trained("classification"))
    assert predict(maker, "a", name="several.jsonl", num_workers=2) == predict(maker, "a")
