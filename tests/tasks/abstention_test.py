"""Tasks that say whether they are confident: fitted on scored examples, kept, served."""

import json
import logging

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.evaluation.abstention import Abstention
from bert_tf.tasks.base import SplitPredictions, TrainedTask
from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.utils.html_report import Page
from tests import tiny

LOGITS = np.array([[4, 0], [0, 3], [2, 0], [0, 1], [0.5, 0]], np.float32)
LABELS = np.array([0, 1, 1, 1, 1], np.int32)  # right, right, wrong, right, wrong, from the surest on


def _outcome(task, logits=LOGITS, labels=LABELS, split="dev"):
    examples = type("Examples", (), {"path": "dev.tsv", "ids": [], "__len__": lambda self: len(labels)})()
    losses = np.ones(len(labels), np.float32), np.ones(len(labels), np.float32)
    return SplitPredictions(split, examples, tiny.rows(label_ids=labels), logits, losses)


def _task(fit_temperature=False, fit_abstention=None, **arguments):
    task = ClassificationTask(tiny.config(), 2, labels=["bad", "good"], **arguments)
    task.options = ClassificationOptions(fit_temperature=fit_temperature, fit_abstention=fit_abstention)
    return task


def test_a_threshold_is_fitted_reported_and_kept(tmp_path, caplog):
    task = _task(fit_abstention=0.75)
    with caplog.at_level(logging.INFO, "absl"):
        found = task.evaluate([_outcome(task), _outcome(task, split="dev_other")])
    probabilities = task.answers(LOGITS).max(1)
    threshold = (probabilities[3] + probabilities[4]) / 2
    assert task.abstention.share == 0.75 and task.abstention.threshold == pytest.approx(threshold)
    assert found["coverage"] == found["coverage_other"] == 0.8
    assert task.fitted_metrics() == {"abstention_threshold", "coverage", "selective_accuracy"}
    assert found["selective_accuracy"] == 0.75 and found["abstention_threshold"] == pytest.approx(threshold)
    assert "4 of 5 predictions (80.0%)" in caplog.text and "Only 4 predictions" in caplog.text
    save_task(str(tmp_path), TrainedTask(task, ("text",), 16))
    assert json.loads((tmp_path / "task.json").read_text())["abstention"]["share"] == 0.75
    again = read_task(str(tmp_path), tiny.config()).task
    assert again.abstention == task.abstention
    assert again.fitted_metrics() == set()
    assert again.evaluate([_outcome(task)])["coverage"] == 0.8  # reported without being asked again


def test_no_threshold_is_kept_where_none_is_enough(caplog):
    task = _task(fit_abstention=0.9, abstention={"share": 0.5, "threshold": 0.5})
    found = task.evaluate([_outcome(task, labels=1 - LABELS)])
    assert task.abstention is None and found["coverage"] == 0 and "abstention_threshold" not in found
    assert "No threshold reaches `fit_abstention=0.9` on dev.tsv" in caplog.text
    assert set(task.postprocess(tf.constant(LOGITS))) == {"label", "probabilities", "labels"}


def test_a_new_temperature_moves_the_threshold():
    task = _task(fit_temperature=True, abstention=Abstention(0.75, 0.99))
    task.evaluate([_outcome(task)])
    assert task.fitted_metrics() == {"abstention_threshold", "coverage", "selective_accuracy", "ece"}
    assert task.temperature != 1 and task.abstention.threshold < 0.99
    confident = task.postprocess(tf.constant(LOGITS))["confident"]
    assert confident.numpy().tolist() == [True, True, True, True, False]


def test_what_is_served_and_written():
    task = _task(abstention=Abstention(0.75, 0.7))
    served = task.postprocess(tf.constant(LOGITS))
    assert served["confident"].dtype == tf.bool and served["confident"].numpy().tolist() == [True] * 4 + [False]
    assert set(task.example_answer(tf.constant(LOGITS))) == {"scores", "classes"}
    several = ClassificationTask(tiny.config(), 2, "multi_label", abstention=Abstention(0.75, 0.7))
    marks = tf.constant([[3.0, -3.0], [3.0, 0.1], [-3.0, -3.0]])
    assert several.postprocess(marks)["confident"].numpy().tolist() == [True, False, True]
    conf, right = several.certainty(_outcome(several, marks.numpy(), np.array([[1, 0], [1, 0], [0, 1]])))
    assert right.tolist() == [True, False, False] and conf[1] == pytest.approx(1 / (1 + np.exp(-0.1)))
    choice = MultipleChoiceTask(tiny.config(), abstention={"share": 0.75, "threshold": 0.7})
    assert choice.postprocess(tf.constant(LOGITS))["confident"].numpy().tolist() == [True] * 4 + [False]
    assert choice.to_dict() == {"abstention": {"share": 0.75, "threshold": 0.7}}


def test_the_curve_is_written_and_drawn(tmp_path):
    task = _task(fit_abstention=0.75)
    task.evaluate([_outcome(task)])
    task.write_scored(str(tmp_path), [_outcome(task)])
    assert (tmp_path / "risk_coverage.tsv").read_text().splitlines()[-1].endswith("1.000000\t0.600000")
    page = Page("")
    task.extra_report_sections(page, [_outcome(task)])
    assert "<svg" in page.fragment() and "Selective prediction" in page.fragment()
    page, none = Page(""), _task()
    none.extra_report_sections(page, [_outcome(none)])
    assert page.fragment() == ""
