"""Which answers are given so that a share of them is right: thresholds by hand."""

import numpy as np
import pytest

from bert_tf.evaluation.abstention import CURVE_FILE, Abstention, RiskCoverageCurve, interval, scores
from bert_tf.evaluation.abstention_report import add_abstention
from bert_tf.utils.html_report import Page

#             1 of 1  2 of 2  2 of 3  3 of 4  3 of 5
CONFIDENCE = [0.9,    0.8,    0.7,    0.6,    0.5]  # fmt: skip
RIGHT = [True, True, False, True, False]


@pytest.mark.parametrize(
    "share, threshold",
    [(1.0, 0.75), (0.76, 0.75), (0.75, 0.55), (0.7, 0.55), (0.6, 0.0), (0.1, 0.0)],
)
def test_the_threshold_gives_as_many_answers_as_the_share_allows(share, threshold):
    shuffled = [3, 0, 4, 2, 1]
    curve = RiskCoverageCurve.of(np.array(CONFIDENCE)[shuffled], np.array(RIGHT)[shuffled])
    assert curve.threshold(share) == pytest.approx(threshold)


def test_a_share_that_no_threshold_reaches():
    assert RiskCoverageCurve.of([0.9, 0.8, 0.7], [False, True, True]).threshold(0.7) is None


def test_answers_of_one_probability_are_given_or_withheld_together():
    curve = RiskCoverageCurve.of([0.9, 0.9, 0.5], [True, False, True])
    assert curve.confidence.tolist() == [0.9, 0.5] and curve.coverage.tolist() == [2 / 3, 1]
    assert curve.threshold(1.0) is None and curve.threshold(0.6) == 0


def test_coverage_and_the_share_that_is_right():
    assert scores(CONFIDENCE, RIGHT, 0.65) == pytest.approx({"coverage": 0.6, "selective_accuracy": 2 / 3})
    assert scores(CONFIDENCE, RIGHT, 0.95) == {"coverage": 0.0}


def test_the_curve_is_written_at_a_thousand_thresholds_at_most(tmp_path):
    RiskCoverageCurve.of(CONFIDENCE, RIGHT).write(tmp_path)
    header, *rows = (line.split("\t") for line in (tmp_path / CURVE_FILE).read_text().splitlines())
    assert header == ["probability", "coverage", "accuracy"]
    assert [float(row[2]) for row in rows] == pytest.approx([1, 1, 2 / 3, 3 / 4, 3 / 5], abs=1e-6)
    many = np.linspace(0, 1, 5000)
    RiskCoverageCurve.of(many, many > 0.5).write(tmp_path)
    rows = (tmp_path / CURVE_FILE).read_text().splitlines()
    assert len(rows) == 1001 and float(rows[-1].split("\t")[1]) == 1


def test_the_table_ends_with_all_predictions():
    page, sure = Page("p"), np.arange(400, 0, -1) / 400  # more of them than there are percents
    add_abstention(page, RiskCoverageCurve.of(sure, sure > 0.25), None, 0.9)
    last = page.fragment().rpartition("<tr>")[2]
    assert all(f">{cell}</t" in last for cell in ("100.0%", "75.0%", "0.0025"))


def test_wilson_s_interval():
    low, high = interval(0.9, 100)
    assert (low, high) == pytest.approx((0.8256, 0.9448), abs=1e-4)
    assert interval(1.0, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)


def test_refuses_shares_thresholds_and_arrays_that_cannot_be():
    with pytest.raises(ValueError, match="must have a `share` above 0 and a `threshold` of 0 or more"):
        Abstention(0.0, 0.5)
    with pytest.raises(ValueError, match=r"must be arrays of shape \[n\] with n > 0; got the shapes \[1\] and \[2\]"):
        RiskCoverageCurve.of([0.5], [True, False])
    with pytest.raises(ValueError, match="training diverged"):
        RiskCoverageCurve.of([np.nan], [True])
