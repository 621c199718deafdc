"""Confident learning by hand, and on labels that are known to be wrong."""

import numpy as np
import pytest

from bert_tf.label_errors.confident import suspect


def test_thresholds_joint_and_margins_by_hand():
    #                 given 0                          given 1
    probabilities = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6], [0.1, 0.9], [0.7, 0.3]])
    labels = np.array([0, 0, 0, 1, 1, 1])
    said = suspect(probabilities, labels)
    assert said.thresholds == pytest.approx([0.6, 0.6])
    # Over its threshold: 0 in rows 0, 1 and 5; 1 in rows 2, 3 (just) and 4.
    assert said.joint.tolist() == [[2, 1], [1, 2]]
    assert said.is_error.tolist() == [False, False, True, False, False, True]
    assert said.margin == pytest.approx([0.8, 0.4, -0.6, 0.2, 0.8, -0.4])
    assert said.order[:2].tolist() == [2, 5] and said.likely[[2, 5]].tolist() == [1, 0]
    assert said.estimate == pytest.approx(2)


def test_a_class_of_which_models_are_seldom_sure_has_a_low_threshold():
    probabilities = np.array([[0.95, 0.05]] * 8 + [[0.6, 0.4]] + [[0.7, 0.3], [0.65, 0.35]])
    said = suspect(probabilities, np.array([0] * 9 + [1, 1]))
    assert said.order[0] == 8 and said.is_error.tolist() == [False] * 8 + [True, False, False]


def test_examples_that_count_as_no_class_are_left_out_of_the_joint():
    said = suspect(np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]), np.array([0, 0, 1]))
    assert said.joint.sum() == 2 and not said.is_error.any()


def test_labels_that_were_turned_round_come_first():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 3000)
    scores = rng.normal(size=(3000, 3)) + 3 * np.eye(3)[true]
    probabilities = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    wrong = rng.choice(3000, 90, replace=False)
    given = true.copy()
    given[wrong] = (given[wrong] + rng.integers(1, 3, 90)) % 3
    said = suspect(probabilities, given)
    assert np.isin(wrong, said.order[:150]).mean() > 0.75
    assert (said.likely[wrong] == true[wrong]).mean() > 0.85
    assert 70 < said.estimate < 250


@pytest.mark.parametrize(
    "probabilities, labels, message",
    [
        ([[0.5, 0.5]], [0], "each of the L classes occurs"),
        ([[1.0]], [0], "L > 1"),
        ([[0.5, 0.5], [0.1, 0.9]], [0], "shape"),
        ([[np.nan, 0.5], [0.1, 0.9]], [0, 1], "gone astray"),
    ],
)
def test_what_does_not_match_is_refused(probabilities, labels, message):
    with pytest.raises(ValueError, match=message):
        suspect(np.array(probabilities), np.array(labels))
