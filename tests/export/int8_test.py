"""Integers from the flag to the model card: what they score is measured, and too little is not exported."""

import logging
import os
import pathlib
import types

import numpy as np
import pytest

from bert_tf.evaluation.results import read_results
from bert_tf.export.cpu import products
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.saved_model import export
from bert_tf.export.trained_model import export_trained
from bert_tf.runs.run_task import run_task
from bert_tf.runs.task_flags import task_settings
from bert_tf.serving.exports import open_export
from bert_tf.serving.verification import verify
from bert_tf.tasks.classification.task import ClassificationTask
from tests import tiny
from tests.processor import needs_int8


def _run(**given):
    given = {"do_eval": True, "do_export": True, "export_dtype": "int8"} | given
    run_task(ClassificationTask, task_settings(ClassificationTask)().give(given))


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """The flags with which a model is scored and exported that was trained, and exported with ranges from training."""
    folder = tmp_path_factory.mktemp("int8")
    files = {name: str(tiny.write_tsv(folder / f"{name}.tsv", tiny.texts(n, seed=seed)))
             for name, n, seed in (("train", 96, 0), ("dev", 80, 1))}  # fmt: skip
    given = {"eval_file": files["dev"], "output_dir": str(folder / "out")}
    _run(**given, train_file=files["train"], init_checkpoint=str(tiny.checkpoint(folder / "start", dropout=0.0)),
         do_train=True, export_for="cpu", export_dir=str(folder / "calibrated"), max_seq_length=20,
         train_batch_size=16, num_train_epochs=8.0, learning_rate=1e-3, seed=1)  # fmt: skip
    return given


@needs_int8
@pytest.mark.slow
def test_both_scores_are_in_the_card(flags, caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        _run(**flags, export_for="cpu")
    path = pathlib.Path(flags["output_dir"], "export", "1")
    exact = read_results(flags["output_dir"])
    card = (path / "assets.extra" / "MODEL_CARD.md").read_text(encoding="utf-8")
    rows = dict(line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| eval_"))
    assert float(rows["eval_accuracy"]) == exact["eval_accuracy"] > 0.8
    assert float(rows["eval_accuracy, in int8 as exported"]) == pytest.approx(exact["eval_accuracy"], abs=0.03)
    assert float(rows["eval_loss, in int8 as exported"]) != exact["eval_loss"]
    assert "were not measured" not in card
    assert "Largest change in int8: eval_" in caplog.text

    model = open_export(str(path))  # the card's number is that of what is served
    texts, labels = zip(*tiny.texts(80, seed=1), strict=True)
    signature = model.signatures["serving_default"]
    (asked,), wanted = signature.inputs.values(), signature.outputs["label"].tensor
    (served,) = model.run({asked.tensor: np.array([text.encode() for text in texts], object)}, [wanted])
    model.close()
    accuracy = np.mean([label.decode() == gold for label, gold in zip(served, labels, strict=True)])
    assert float(rows["eval_accuracy, in int8 as exported"]) == pytest.approx(accuracy)


@needs_int8
@pytest.mark.slow
def test_examples_of_the_training_set_ranges(flags):
    path = pathlib.Path(flags["output_dir"]).parent / "calibrated" / "1"
    assert b"_QuantizedMatMul" in (path / "saved_model.pb").read_bytes()
    assert not any(each.problems for each in verify(str(path), tolerance=1e-6))
    card = (path / "assets.extra" / "MODEL_CARD.md").read_text(encoding="utf-8")
    weights = ClassificationTask(tiny.config(), 2).build_model().count_params()
    assert f"| weights | {weights:,} |" in card and "| activation scales | static (calibrated) |" in card
    assert "| numbers | float32, int8 |" in card
    rows = dict(line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| eval_"))
    exact = read_results(flags["output_dir"])["eval_accuracy"]
    assert float(rows["eval_accuracy, in int8 as exported"]) == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n\n", r"has no calibration examples\. Write one example per line\."),
        ("one\ttwo\n", r"texts\.txt:1: a line must contain the model's input, text; got 2 texts"),
    ],
)
def test_a_file_of_other_texts_is_refused(trained, tmp_path, content, message):
    (tmp_path / "texts.txt").write_text(content, encoding="utf-8")
    form, file = ExportOptions("int8", "cpu"), str(tmp_path / "texts.txt")
    with pytest.raises(ValueError, match=message):
        export_trained(str(trained("classification")), str(tmp_path / "export"), form, calibration=file)
    assert not (tmp_path / "export").exists()


@needs_int8
@pytest.mark.slow
def test_too_low_a_score_is_not_exported(flags, tmp_path, monkeypatch):
    def nothing(kernel):
        return np.zeros(kernel.shape, np.int8), np.ones(kernel.shape[1], np.float32)

    monkeypatch.setattr(products, "quantize_columns", nothing)
    with pytest.raises(ValueError, match=r"`int8_tolerance=0\.05` in int8: eval_\w+ is .* Nothing was expor"):
        _run(**flags, export_dir=str(tmp_path / "export"), int8_tolerance=0.05)
    assert not (tmp_path / "export").exists()


def test_without_onednn_every_export_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    with pytest.raises(ValueError, match="requires oneDNN.* because of TF_ENABLE_ONEDNN_OPTS=0 in the .*machine.$"):
        export(types.SimpleNamespace(options=ExportOptions("int8")), str(tmp_path / "export"))
    assert not os.listdir(tmp_path)
