"""Promises of bert_tf.evaluation.calibration: the error by hand, and temperatures that are known beforehand."""

import subprocess
import sys

import numpy as np
import pytest

from bert_tf.evaluation.calibration import expected_calibration_error, fit_temperature, fit_thresholds
from tests.evaluation.metrics_test import REPOSITORY


def nll(logits, labels, temperature=1.0):
    scaled = logits / temperature
    if labels.ndim == 2:
        return np.mean(np.logaddexp(0, np.where(labels == 1, -scaled, scaled)))
    return np.mean(np.logaddexp.reduce(scaled, -1) - scaled[np.arange(len(labels)), labels])


def of_two(*confidences):
    """Probabilities of two labels, the second the likelier."""
    return np.array([[1 - c, c] for c in confidences])


def test_the_error_by_hand():
    # bins of a tenth: (0.5, 0.6] holds 0.55 right, 0.6 wrong: |0.5 - 0.575|; (0.8, 0.9] holds 0.9 right: |1 - 0.9|;
    # (0.9, 1.0] holds 0.95 wrong: 0.95.
    probabilities, labels = of_two(0.55, 0.6, 0.9, 0.95), np.array([1, 0, 1, 0])
    expected = (2 * 0.075 + 0.1 + 0.95) / 4
    assert expected_calibration_error(probabilities, labels, bins=10) == pytest.approx(expected)
    # In one bin over and under cancel out: |2/4 - 3.0/4|.
    assert expected_calibration_error(probabilities, labels, bins=1) == pytest.approx(0.25)


@pytest.mark.parametrize("confidence, right, expected", [(1.0, 1, 0.0), (1.0, 0, 1.0), (0.8, 1, 0.2), (0.5, 1, 0.5)])
def test_one_answer(confidence, right, expected):
    # At 0.5 the first label is chosen, so that `right` = 1 is wrong there.
    assert expected_calibration_error(of_two(confidence), np.array([right])) == pytest.approx(expected)


def test_the_bins_are_fifteen_and_hold_their_upper_edge():
    edges = np.arange(9, 16) / 15
    for edge in edges:
        below, above = edge - 1e-9, min(edge + 1e-9, 1.0)
        # Two in a bin, one right and one wrong, err by their mean; in two bins each errs alone.
        together = expected_calibration_error(of_two(below, edge), np.array([1, 0]))
        assert together == pytest.approx(edge - 0.5, abs=1e-6)
        if edge < 1:
            apart = expected_calibration_error(of_two(edge, above), np.array([1, 0]))
            assert apart == pytest.approx(0.5, abs=1e-6)


def test_several_labels_are_decisions_between_yes_and_no():
    # said   yes 0.9   no 0.8   yes 0.7   no 0.9
    # true   yes       no       no        yes
    probabilities, labels = np.array([[0.9, 0.2], [0.7, 0.1]]), np.array([[1, 0], [0, 1]])
    # (0.667, 0.733]: 0.7 wrong; (0.733, 0.8]: 0.8 right; (0.867, 0.933]: 0.9 right and 0.9 wrong.
    expected = (0.7 + 0.2 + 2 * abs(0.5 - 0.9)) / 4
    assert expected_calibration_error(probabilities, labels) == pytest.approx(expected)


def test_honest_probabilities_have_hardly_any_error_and_sharpened_ones_have_much():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(4), 40_000)
    labels = (probabilities.cumsum(-1) > rng.random((40_000, 1))).argmax(-1)
    assert expected_calibration_error(probabilities, labels) < 0.01
    sharp = probabilities**3 / (probabilities**3).sum(-1, keepdims=True)
    assert expected_calibration_error(sharp, labels) > 0.15


def test_a_probability_that_is_no_number_is_seen():
    assert np.isnan(expected_calibration_error(np.array([[0.5, 0.5], [np.nan, np.nan]]), np.array([0, 0])))


@pytest.mark.parametrize("temperature", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("several", [False, True])
def test_the_temperature_of_made_logits_is_found(several, temperature):
    rng = np.random.default_rng(1)
    honest = rng.normal(size=(20_000, 3)) * 2
    if several:
        labels = (rng.random(honest.shape) < 1 / (1 + np.exp(-honest))).astype(np.int32)
    else:
        labels = (honest + rng.gumbel(size=honest.shape)).argmax(-1)  # a draw from the softmax
    found = fit_temperature(honest * temperature, labels)
    assert found == pytest.approx(temperature, rel=0.03)


@pytest.mark.parametrize("several", [False, True])
def test_no_other_temperature_has_a_lower_loss(several):
    rng = np.random.default_rng(2)
    for scale in (0.01, 1.0, 30.0):
        for n in (2, 5, 60):
            logits = (rng.normal(size=(n, 3)) * scale).astype(np.float32)
            labels = rng.integers(0, 2, (n, 3)) if several else rng.integers(0, 3, n)
            found = fit_temperature(logits, labels)
            least = nll(logits.astype(float), labels, found)
            if not 0.01 < found < 100:
                continue
            for other in (1.0, found * 0.99, found * 1.01, 0.05, 50.0):
                assert least <= nll(logits.astype(float), labels, other) + 1e-12


def test_a_temperature_makes_the_error_smaller():
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(5000, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
    softmax = lambda z: np.exp(z) / np.exp(z).sum(-1, keepdims=True)  # noqa: E731
    before = expected_calibration_error(softmax(logits * 4), labels)
    after = expected_calibration_error(softmax(logits * 4 / fit_temperature(logits * 4, labels)), labels)
    assert before > 0.2 and after < 0.03


def test_where_all_is_right_nothing_is_made_surer(caplog):
    assert fit_temperature(np.array([[3.0, 1.0], [0.0, 0.5]]), np.array([0, 1])) == 1.0
    assert "correct on all 2 examples" in caplog.text and "harder examples" in caplog.text
    assert fit_temperature(np.array([[3.0, -1.0]]), np.array([[1, 0]])) == 1.0
    assert fit_temperature(np.zeros((3, 2)), np.array([0, 1, 1])) == 1.0  # and where the logits say nothing


def test_a_temperature_without_end_stops_at_the_bound():
    assert fit_temperature(np.array([[3.0, 1.0], [0.0, 0.5]]), np.array([1, 0])) == 100.0
    # And so do those that are nearly nothing, of a model that is nearly always right.
    assert fit_temperature(np.array([[-1e-6, 0.0], [1e-4, 0.0]]), np.array([0, 0])) == 0.01


def test_great_logits_do_not_overflow():
    logits = np.array([[2e4, 0.0], [0.0, 1e4], [3e4, 0.0]], np.float32)
    assert 0.01 <= fit_temperature(logits, np.array([0, 1, 1])) <= 100


def test_what_does_not_match_is_refused():
    for function in (expected_calibration_error, fit_temperature):
        with pytest.raises(ValueError, match=r"got the shapes \[2, 3\] and \[3\]"):
            function(np.zeros((2, 3)), np.zeros(3, int))
        with pytest.raises(ValueError, match=r"of shape \[n, L\] with n > 0, .*got the shapes \[0, 3\] and \[0\]"):
            function(np.zeros((0, 3)), np.zeros(0, int))
    with pytest.raises(ValueError, match="are not finite"):
        fit_temperature(np.array([[np.nan, 0.0]]), np.array([1]))


def test_importing_loads_no_heavy_library():
    code = "import sys, bert_tf.evaluation.calibration; print([m for m in ('tensorflow', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_thresholds_have_the_highest_f1(caplog):
    probabilities = np.array([[0.9, 0.2, 0.8, 0.6], [0.4, 0.3, 0.7, 0.6], [0.3, 0.1, 0.6, 0.1], [0.1, 0.05, 0.2, 0.7]])
    marks = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]])
    found = fit_thresholds(probabilities, marks, ["two", "low", "all", "none"])
    # All four are the third label's best: 3 of 4 with recall 1.
    assert found == pytest.approx([0.35, 0.15, 0.0, 0.5])
    assert [record.getMessage() for record in caplog.records] == [
        "No example has the label 'none': its threshold stays 0.5."]  # fmt: skip


def test_equal_probabilities_are_predicted_together_and_ties_stay_close_to_a_half():
    probabilities, marks = np.array([[0.9], [0.6], [0.6], [0.2]]), np.array([[1], [1], [0], [0]])
    assert fit_thresholds(probabilities, marks, ["a"]) == pytest.approx([0.4])  # 2 of 3: 4 / 5; 1 of 1: 2 / 3
    probabilities, marks = np.array([[0.9], [0.4], [0.2]]), np.array([[1], [0], [1]])
    assert fit_thresholds(probabilities, marks, ["a"]) == [0.0]  # 2 of 3: 4 / 5
    probabilities, marks = np.array([[0.9], [0.8], [0.4], [0.3]]), np.array([[1], [0], [0], [1]])
    # 1 of 1 and 2 of 4 have the same F1, 2 / 3: 0.85 is closer to a half than 0.
    assert fit_thresholds(probabilities, marks, ["a"]) == pytest.approx([0.85])


def test_thresholds_against_all_others():
    rng = np.random.default_rng(0)
    marks = (rng.random((300, 3)) < [0.5, 0.1, 0.02]).astype(int)
    probabilities = 1 / (1 + np.exp(-(rng.normal(size=marks.shape) + 2 * marks - 2)))
    for threshold, p, y in zip(fit_thresholds(probabilities, marks, "abc"), probabilities.T, marks.T, strict=True):
        f1 = [2 * (y & (p > cut)).sum() / (y.sum() + (p > cut).sum()) for cut in (threshold, 0.0, *p)]
        assert f1[0] == pytest.approx(max(f1)) and abs(p - threshold).min() > 0
