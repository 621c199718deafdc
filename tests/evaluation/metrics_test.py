"""Promises of bert_tf.evaluation.metrics: textbook definitions, computed here a second time by hand in numpy."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from bert_tf.evaluation import metrics

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALL = ("accuracy", "f1", "precision", "recall", "matthews")


def score(labels, predictions, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return metrics.classification(np.array(labels), np.array(predictions), ALL, **arguments)


def test_two_classes_by_hand():
    # true     1 1 1 1 0 0 0 0 0 0
    # said     1 1 1 0 1 1 0 0 0 0     3 hits, 2 false alarms, 1 miss, 4 rightly left
    got = score([1, 1, 1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    expected = (0.7, 6 / 9, 3 / 5, 3 / 4, (3 * 4 - 2 * 1) / np.sqrt(5 * 4 * 6 * 5))
    assert got == pytest.approx(dict(zip(ALL, expected, strict=True)))
    assert list(got) == list(ALL) and all(type(value) is float for value in got.values())


def test_three_classes_are_a_plain_mean_over_those_that_occur():
    # class 0: precision 1/2, recall 1/1, f1 2/3.  class 1: 1, 1/2, 2/3.  class 2: 1, 1, 1.
    labels, predictions = [0, 1, 1, 2], [0, 0, 1, 2]
    got = score(labels, predictions)
    assert got["precision"] == pytest.approx(2.5 / 3) and got["recall"] == pytest.approx(2.5 / 3)
    assert got["f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert got == score(labels, predictions, num_classes=5)


def test_the_number_of_classes_decides_even_where_the_last_one_does_not_occur():
    labels, predictions = [0, 0, 1], [0, 1, 1]  # f1 of class 0 and of class 1: 2/3 each; recall 1/2 and 1
    assert score(labels, predictions)["recall"] == 1.0
    assert score(labels, predictions, num_classes=3)["recall"] == pytest.approx(0.75)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_against_the_confusion_matrix(classes):
    rng = np.random.default_rng(classes)
    labels, noise = rng.integers(0, classes, (2, 500))
    predictions = np.where(rng.random(500) < 0.6, labels, noise)
    table = np.zeros((classes, classes))
    np.add.at(table, (labels, predictions), 1)
    hits, true, said, n = np.diag(table), table.sum(1), table.sum(0), 500
    precision, recall = hits / said, hits / true
    f1 = 2 * precision * recall / (precision + recall)
    # Matthews' coefficient from the counts, as Gorodkin (2004) extends it to several classes.
    matthews = (hits.sum() * n - true @ said) / np.sqrt((n**2 - said @ said) * (n**2 - true @ true))
    pick = (lambda values: values[1]) if classes == 2 else np.mean
    expected = (hits.sum() / n, pick(f1), pick(precision), pick(recall), matthews)
    assert score(labels, predictions) == pytest.approx(dict(zip(ALL, expected, strict=True)))


def test_the_weighted_f1_counts_each_label_by_its_examples():
    # class 0: f1 2/3, of 1 example.  class 1: 2/3, of 2.  class 2: 1, of 1.  class 3 is only predicted: it counts 0.
    labels, predictions = np.array([0, 1, 1, 2, 0]), np.array([0, 0, 1, 2, 3])
    f1 = [2 / 4, 2 / 3, 1, 0]
    got = metrics.classification(labels, predictions, ["weighted_f1"])
    assert got == {"weighted_f1": pytest.approx((2 * f1[0] + 2 * f1[1] + f1[2]) / 5)}
    several = np.array([[1, 0], [1, 1], [0, 0]]), np.array([[1, 0], [0, 0], [0, 1]])  # f1 2/3 of 2, 0 of 1
    assert metrics.weighted_f1(*several, 2) == pytest.approx(2 / 3 * 2 / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.weighted_f1(np.zeros((2, 2), int), np.zeros((2, 2), int), 2) == 0.0


def test_the_precision_at_a_recall():
    marks, probabilities = np.array([1, 1, 0, 1, 0, 1]), np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    assert metrics.precision_at_recall(marks, probabilities, 0.5) == (1.0, 0.8)
    assert metrics.precision_at_recall(marks, probabilities, 0.75) == (0.75, 0.6)
    assert metrics.precision_at_recall(marks, probabilities) == (pytest.approx(4 / 6), 0.4)
    assert metrics.precision_at_recall(marks * 0, probabilities) == (0.0, 0.0)


def test_mean_errors_by_hand():
    got = metrics.regression([1.0, 2.0, 3.0], [1.0, 4.0, 2.0], ("mae", "rmse"))
    assert got == {"mae": pytest.approx(1.0), "rmse": pytest.approx(np.sqrt(5 / 3))}
    assert all(np.isnan(value) for value in metrics.regression([1.0, 2.0], [np.nan, 2.0], ("mae", "rmse")).values())


@pytest.mark.parametrize(
    "labels, predictions, expected",
    [
        ([0, 0], [0, 0], (1, 0, 0, 0, 0)),
        ([1, 1], [1, 1], (1, 1, 1, 1, 0)),
        ([0, 1], [0, 0], (0.5, 0, 0, 0, 0)),
        ([0, 0], [0, 1], (0.5, 0, 0, 0, 0)),
        ([1], [0], (0, 0, 0, 0, 0)),
    ],
)
def test_undefined_scores_are_0_without_a_warning(labels, predictions, expected):
    assert score(labels, predictions) == dict(zip(ALL, expected, strict=True))


def mean_ranks(values):
    """Ranks from 1; ties share their mean rank."""
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])


def correlation(x, y):
    x, y = x - x.mean(), y - y.mean()
    return (x @ y) / np.sqrt((x @ x) * (y @ y))


def test_correlations_from_their_definitions():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 200) * 1.0  # many ties
    scores = labels**3 + rng.normal(size=200) * 20
    got = metrics.regression(labels, scores)
    assert got == pytest.approx(
        {"pearson": correlation(labels, scores), "spearman": correlation(mean_ranks(labels), mean_ranks(scores))}
    )
    assert metrics.regression(labels, -scores, ("spearman",)) == pytest.approx({"spearman": -got["spearman"]})


def test_correlations_at_the_edge():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constant, single = metrics.regression([1.0, 2.0], [3.0, 3.0]), metrics.regression([1.0], [2.0])
    assert constant == single == {"pearson": 0.0, "spearman": 0.0}
    assert np.isnan(metrics.regression([1.0, 2.0, 3.0], [1.0, np.nan, 2.0], ("pearson",))["pearson"])


def test_the_table_names_every_metric_and_its_direction():
    assert sorted(metrics.METRICS) == [
        "accuracy", "f1", "matthews", "pearson", "precision", "recall", "spearman", "weighted_f1",
    ]  # fmt: skip
    assert all(metrics.higher_is_better(name) and metrics.higher_is_better(f"eval_{name}") for name in metrics.METRICS)
    lower = ("loss", "eval_loss", "ece", "eval_ece", "mae", "eval_rmse")
    assert not any(metrics.higher_is_better(name) for name in lower)
    assert metrics.higher_is_better("eval_weighted_f1") and metrics.higher_is_better("eval_f1_at_0.5")
    assert metrics.higher_is_better("eval_weighted_f1_at_0.5") and metrics.higher_is_better("precision_at_recall_90")
    assert metrics.higher_is_better("eval_exact")
    assert metrics.higher_is_better("brier_score") and metrics.higher_is_better("f1_type_error")
    assert not metrics.higher_is_better("eval_mean_absolute_error")


def test_the_largest_fall_is_a_share_of_what_there_was():
    before = {"eval_accuracy": 0.8, "eval_f1": 80.0, "eval_loss": 0.1, "eval_recall": 0.9, "eval_f1_PER": 0.9}
    after = {"eval_accuracy": 0.78, "eval_f1": 76.0, "eval_loss": 0.9, "eval_recall": 0.1, "eval_f1_PER": 0.1}
    assert metrics.largest_fall(before, after) == ("eval_f1", pytest.approx(0.05))
    assert metrics.largest_fall(after, before) == ("eval_accuracy", pytest.approx(1 - 0.8 / 0.78))
    none = {"loss": 1.0, "spearman": 0.0, "total": 3}
    assert metrics.largest_fall(none, none | {"loss": 2.0}) is None


def test_wrong_names_and_shapes_are_refused():
    with pytest.raises(ValueError, match=r"A metric must be one of \['accuracy', .*\]; got 'pearson'"):
        metrics.classification([0], [0], ("pearson",))
    with pytest.raises(ValueError, match="must be one of .*'loss'.*got 'acuracy'"):
        metrics.higher_is_better("acuracy")
    with pytest.raises(ValueError, match=r"shape \[n\] with n > 0; got the shapes \[2\] and \[1\]"):
        metrics.classification([0, 1], [0])
    with pytest.raises(ValueError, match=r"two arrays of shape \[n\] with n > 0; got the shapes \[0\] and \[0\]"):
        metrics.regression([], [])


def test_importing_loads_no_library_but_numpy():
    heavy = ("tensorflow", "sklearn", "scipy")
    code = f"import sys, bert_tf.evaluation.metrics; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_majority_share():
    labels = np.array([[3, 1, 0], [3, 9, 0], [3, 1, 1]], np.int32)  # 0 does not count; 3 stands three times, 1 too
    assert metrics.majority_share(labels) == pytest.approx(3 / 7)
    assert metrics.majority_share(np.array([[1], [1]])) == 1.0  # also where the most frequent is label 0
    assert np.isnan(metrics.majority_share(np.zeros((2, 3), np.int32)))
