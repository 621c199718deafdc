"""Confident learning by hand, and on labels that are known to be wrong."""

import numpy as np
import pytest

from bert_tf.experiments.label_errors.confident_learning import suspect


def test_thresholds_joint_and_margins_by_hand():
    #                 given 0                          given 1
    probabilities = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6], [0.1, 0.9], [0.7, 0.3]])
    labels = np.array([0, 0, 0, 1, 1, 1])
    said = suspect(probabilities, labels)
    assert said.thresholds == pytest.approx([0.6, 0.6])
    # Over its threshold: 0 in rows 0, 1 and 5; 1 in rows 2, 3 (just) and 4.
    assert said.joint.tolist() == [[2, 1], [1, 2]]
    assert said.is_error.tolist() == [False, False, True, False, False, True]
    assert said.margin == pytest.approx([0.9, 0.7, -0.6, 0.6, 0.9, -0.4])
    assert said.order[:2].tolist() == [2, 5] and said.likely.tolist() == [0, 0, 1, 1, 1, 0]
    assert said.estimate == pytest.approx(2)


def test_a_class_of_which_models_are_seldom_sure_has_a_low_threshold():
    probabilities = np.array([[0.9, 0.05, 0.05]] * 8 + [[0.3, 0.45, 0.25]] + [[0.5, 0.4, 0.1]] * 2 + [[0.2, 0.1, 0.7]])
    said = suspect(probabilities, np.array([0] * 9 + [1, 1, 2]))
    assert said.thresholds == pytest.approx([7.5 / 9, 0.4, 0.7])
    assert said.is_error.tolist() == [False] * 8 + [True] + [False] * 3 and said.likely[8] == 1


@pytest.mark.parametrize(
    "row, likely",
    [
        ([0.049, 0.008, 0.943], 0),  # 1 reaches its threshold, and is less probable than the label; 2 does not
        ([0.006, 0.008, 0.986], 2),  # both are over the label: of those the more probable
        ([0.006, 0.008, 0.946], 1),
        ([0.006, 0.004, 0.946], 0),  # 1 does not reach its threshold
    ],
)
def test_another_class_counts_where_it_is_over_its_threshold_and_over_the_label(row, likely):
    probabilities = np.array([[0.9, 0.01, 0.09], [0.3, 0.006, 0.69], [0.02, 0.03, 0.95], row])
    said = suspect(probabilities, np.array([0, 1, 2, 0]))
    assert said.thresholds[1:] == pytest.approx([0.006, 0.95])
    assert (said.likely[3], said.is_error[3]) == (likely, likely != 0)


def _classes_of_unequal_sizes(sizes, seed):
    """Returns held-out probabilities, labels of which 4% are wrong, and the true ones."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    rng, n, width = np.random.default_rng(seed), sum(sizes), len(sizes)
    true, means = np.repeat(np.arange(width), sizes), rng.normal(size=(width, 20))
    values = rng.normal(size=(n, 20)) + 2.2 * (means / np.linalg.norm(means, axis=1, keepdims=True))[true]
    is_wrong = (rng.random(n) < 0.04) & (true < width - 3)
    given = np.where(is_wrong, (true + rng.integers(1, width, n)) % width, true)
    model = LogisticRegression(C=0.05, max_iter=500)
    return cross_val_predict(model, values, given, cv=5, method="predict_proba"), given, true


def test_a_class_of_nine_examples_does_not_draw_the_others_to_it():
    sizes = (500, 400, 300, 250, 200, 120, 80, 40, 20, 9)
    probabilities, given, true = _classes_of_unequal_sizes(sizes, 0)
    said, wrong = suspect(probabilities, given), np.flatnonzero(given != true)
    listed = np.flatnonzero(said.is_error)
    over = probabilities - said.thresholds
    assert np.sum(over.argmax(1)[over.argmax(1) != given] == 9) > 600  # what the furthest over its threshold would say
    assert len(wrong) == 69 and len(listed) < 200 and np.sum(said.likely[listed] == 9) < 9
    assert np.isin(wrong, listed).mean() > 0.7
    assert np.isin(said.order[: len(wrong)], wrong).mean() > 0.4
    assert 69 < said.estimate < 400
    others = probabilities[listed, said.likely[listed]]
    assert (others >= said.thresholds[said.likely[listed]]).all()
    assert (others > probabilities[listed, given[listed]]).all()


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
    listed = wrong[said.is_error[wrong]]
    assert len(listed) > 0.7 * len(wrong) and (said.likely[listed] == true[listed]).mean() > 0.9
    assert 70 < said.estimate < 250


@pytest.mark.parametrize(
    "probabilities, labels, message",
    [
        ([[0.5, 0.5]], [0], "each of the L classes occurs"),
        ([[1.0]], [0], "L > 1"),
        ([[0.5, 0.5], [0.1, 0.9]], [0], "shape"),
        ([[np.nan, 0.5], [0.1, 0.9]], [0, 1], "training diverged"),
    ],
)
def test_what_does_not_match_is_refused(probabilities, labels, message):
    with pytest.raises(ValueError, match=message):
        suspect(np.array(probabilities), np.array(labels))
