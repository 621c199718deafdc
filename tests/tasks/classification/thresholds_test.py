"""Thresholds of several labels: fitted on scored examples, kept, and used by all that says what is predicted."""

import json
import logging

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.tables import LabeledTexts
from bert_tf.evaluation.abstention import Abstention
from bert_tf.evaluation.error_reports.report import write_table
from bert_tf.tasks.base import SplitPredictions, TrainedTask
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.utils.answers import split_answer
from bert_tf.utils.html_report import Page
from tests import tiny

PROBABILITIES = np.array([[0.9, 0.3], [0.6, 0.2], [0.4, 0.1], [0.2, 0.05]])
LOGITS = np.log(PROBABILITIES / (1 - PROBABILITIES)).astype(np.float32)
MARKS = np.array([[1, 1], [0, 1], [0, 0], [0, 0]], np.int32)
THRESHOLDS = [0.75, 0.15]  # above which exactly the true labels are


def _outcome(split="dev"):
    examples = LabeledTexts(list("abcd"), list("abcd"), None, None, "dev.tsv", [2, 3, 4, 5])
    rows = tiny.rows(label_ids=MARKS)
    rows.splits = np.arange(5) * 3
    return SplitPredictions(split, examples, rows, LOGITS, (np.ones(4, np.float32), np.ones(4, np.float32)))


def _task(options=None, **arguments):
    task = ClassificationTask(tiny.config(), 2, "multi_label", labels=["film", "good"], **arguments)
    task.options = ClassificationOptions(**(options or {}))
    return task


def test_thresholds_are_fitted_reported_and_kept(tmp_path, caplog):
    task = _task({"fit_thresholds": True})
    plain = _task().evaluate([_outcome()])
    with caplog.at_level(logging.INFO, "absl"):
        found = task.evaluate([_outcome()])
    assert "Thresholds fitted on dev.tsv: film 0.7500, good 0.1500" in caplog.messages
    assert found["f1"] == found["accuracy"] == found["weighted_f1"] == 1
    for name in ("accuracy", "f1", "weighted_f1", "precision", "recall"):
        assert found[f"{name}_at_0.5"] == plain[name]
    assert plain["f1"] == pytest.approx(2 * 1 / (2 + 3)) and "f1_at_0.5" not in plain
    assert found["ece"] == plain["ece"] and found["loss"] == plain["loss"]
    save_task(str(tmp_path), TrainedTask(task, ("text",), 16))
    assert json.loads((tmp_path / "task.json").read_text())["thresholds"] == pytest.approx(THRESHOLDS)
    again = read_task(str(tmp_path), tiny.config()).task
    again.options = ClassificationOptions()
    assert again.evaluate([_outcome()]) == found  # reported without being asked again


def test_what_is_served_and_written(tmp_path):
    task, plain = _task(thresholds=THRESHOLDS), _task()
    served, at_half = (each.postprocess(tf.constant(LOGITS)) for each in (task, plain))
    assert served["predicted"].numpy().tolist() == MARKS.astype(bool).tolist()
    assert set(served) == set(at_half) == {"label", "probabilities", "labels", "predicted"}
    answers = split_answer({name: value.numpy() for name, value in at_half.items()}, 4)
    assert [answer["predicted"] for answer in answers] == [["film"], ["film"], [], []]
    assert set(task.example_answer(tf.constant(LOGITS))) == {"scores", "classes"}
    task.write_answers(str(tmp_path), _outcome("test"), task.decode(_outcome("test")))
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [line["predicted"] for line in lines] == [["film", "good"], ["good"], [], []]
    plain.write_answers(str(tmp_path), _outcome("test"), plain.decode(_outcome("test")))
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [line["predicted"] for line in lines] == [["film"], ["film"], [], []]
    assert task.problem.choose(PROBABILITIES, task.outputs) == [("film", "good"), ("good",), (), ()]


def test_the_report_shows_what_is_predicted_by_them(tmp_path):
    report = _task(thresholds=THRESHOLDS).error_report(_outcome())
    write_table(tmp_path / "table.tsv", report)
    rows = [line.split("\t") for line in (tmp_path / "table.tsv").read_text().splitlines()]
    assert [row[1:4] for row in rows[1:3]] == [["film,good", "film,good", "0.3"], ["good", "good", "0.2"]]
    page = Page("")
    report.show(page)
    text = page.fragment()
    assert "Thresholds by label" in text and "0.1500" in text and "Precision at 90% recall by label" in text
    page = Page("")
    _task().error_report(_outcome()).show(page)
    assert "Thresholds by label" not in page.fragment()


def test_the_confidence_is_that_of_the_decisions():
    task = _task(thresholds=THRESHOLDS, abstention=Abstention(0.75, 0.25))
    confidence, right = task.certainty(_outcome())
    assert confidence == pytest.approx([0.3, 0.2, 0.6, 0.8]) and right.all()
    assert task.postprocess(tf.constant(LOGITS))["confident"].numpy().tolist() == [True, False, True, True]


def test_a_new_temperature_moves_the_thresholds():
    task = _task({"fit_temperature": True}, thresholds=THRESHOLDS, abstention=Abstention(0.75, 0.99))
    task.evaluate([_outcome()])
    assert task.temperature != 1 and task.problem.fitted_thresholds != THRESHOLDS
    assert task.problem.right(task.decode(_outcome()), MARKS).all() and task.abstention.threshold < 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"thresholds": [0.5]}, r"must be 2 numbers from 0 to below 1, one per label; got \[0\.5\]; fit"),
        ({"thresholds": [0.5, 1.5]}, r"must be 2 numbers from 0 to below 1"),
        ({"thresholds": [0.5, 0.5], "problem": "single_label"}, "require several labels per example"),
    ],
)
def test_thresholds_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ClassificationTask(tiny.config(), 2, **{"problem": "multi_label", **arguments})
