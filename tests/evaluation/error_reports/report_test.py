"""Answers as a table: columns, order, and what would break a line."""

import numpy as np

from bert_tf.evaluation.error_reports.multi_label import MultiLabelReport
from bert_tf.evaluation.error_reports.ranking import RetrievalReport
from bert_tf.evaluation.error_reports.regression import RegressionReport
from bert_tf.evaluation.error_reports.report import write_table
from tests.evaluation.error_reports.support import choices, shown

CHANCES = [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]]


def _rows(tmp_path, judged, order="file"):
    write_table(tmp_path / "t.tsv", judged, order)
    return [line.split("\t") for line in (tmp_path / "t.tsv").read_text(encoding="utf-8").splitlines()]


def test_each_example_with_its_probability_and_text(tmp_path):
    texts = ["a", "tab\there", "line\u2028break\r\n", "ü"]
    rows = _rows(tmp_path, choices([0, 0, 0, 1], CHANCES, ["no", "yes"], texts))
    assert rows == [
        ["id", "label", "prediction", "probability", "text"],
        ["id0", "no", "no", "0.9", "a"],
        ["id1", "no", "yes", "0.8", "tab here"],
        ["id2", "no", "yes", "0.6", "line break"],
        ["id3", "yes", "yes", "0.7", "ü"],
    ]


def test_the_most_confident_errors_come_first_and_the_least_sure_of_the_others_next(tmp_path):
    rows = _rows(tmp_path, choices([0, 0, 0, 1], CHANCES, ["no", "yes"]), "errors")
    assert [row[0] for row in rows[1:]] == ["id1", "id2", "id3", "id0"]


def test_several_labels_have_the_probability_of_their_least_sure_answer(tmp_path):
    gold = np.array([[1, 1], [0, 0], [1, 0]], bool)
    chances = np.array([[0.9, 0.2], [0.4, 0.1], [0.9, 0.95]])
    judged = MultiLabelReport(
        examples=shown(["a", "b", "c"]), gold=gold, probabilities=chances, labels=["x", "y"], separator=";"
    )
    rows = _rows(tmp_path, judged, "errors")
    assert rows[1:] == [
        ["id2", "x", "x;y", "0.9", "c"],
        ["id0", "x;y", "x", "0.8", "a"],
        ["id1", "", "", "0.6", "b"],
    ]


def test_numbers_are_sorted_by_how_far_they_are_off(tmp_path):
    given = np.array([1.1, 4.0, 2.5], np.float32)
    judged = RegressionReport(examples=shown(["a", "b", "c"]), gold=np.array([1.0, 2.0, 2.25], np.float32), given=given)
    rows = _rows(tmp_path, judged, "errors")
    assert rows[1:] == [["id1", "2.0", "4.0", "b"], ["id2", "2.25", "2.5", "c"], ["id0", "1.0", "1.1", "a"]]


def test_where_scales_differ_the_order_counts():
    gold, given = np.array([0.0, 1, 2, 3]), np.array([0.1, 0.2, 0.9, 0.3])
    judged = RegressionReport(examples=shown(["a"] * 4), gold=gold, given=given, is_same_scale=False)
    assert judged.errors.tolist() == [0, 0, 0.25, -0.25]


def test_texts_that_are_found_late_come_first(tmp_path):
    rows = _rows(tmp_path, RetrievalReport(examples=shown(["a", "b"]), ranks=np.array([1, 7])), "errors")
    assert rows == [["id", "place", "text"], ["id1", "7", "b"], ["id0", "1", "a"]]
