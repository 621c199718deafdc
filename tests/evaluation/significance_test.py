"""The paired bootstrap: equal to scoring every draw one by one, and right about chance."""

import numpy as np
import pytest

from bert_tf.evaluation import metrics, significance
from bert_tf.evaluation.significance import paired_bootstrap


def _classes(n, classes, seed=0):
    """Returns labels, and two systems that are right in some 70% and 60%."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return labels, *(np.where(rng.random(n) < share, labels, rng.integers(0, classes, n)) for share in (0.7, 0.6))


def _scores(n, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 11, n) / 2  # with ties
    return labels, *((labels + rng.normal(0, noise, n)).round(1) for noise in (1.0, 1.5))


def _plain(name, classes):
    """Returns the metric as a function that scores one draw."""
    if name in metrics.REGRESSION:
        return lambda labels, said: metrics.regression(labels, said, [name])[name]
    return lambda labels, said: metrics.classification(labels, said, [name], classes)[name]


CASES = [(name, 2, 40) for name in metrics.CLASSIFICATION] + [(name, 4, 60) for name in metrics.CLASSIFICATION]
CASES += [("f1", 3, 5), ("matthews", 2, 4), *((name, None, n) for name in metrics.REGRESSION for n in (4, 50))]


@pytest.mark.parametrize(("name", "classes", "n"), CASES)
def test_all_draws_at_once_are_as_one_by_one(name, classes, n):
    labels, a, b = _classes(n, classes) if classes else _scores(n)
    fast = paired_bootstrap(name, labels, a, b, samples=40, num_classes=classes)
    slow = paired_bootstrap(_plain(name, classes), labels, a, b, samples=40)
    for field in ("a", "b", "difference", "low", "high", "p_value"):
        assert getattr(fast, field) == pytest.approx(getattr(slow, field), abs=1e-12), field
    assert fast.a == pytest.approx(_plain(name, classes)(labels, a), abs=1e-12)


def test_the_bootstrap_has_every_metric():
    assert significance.METRICS.keys() == metrics.METRICS.keys()


def test_the_bootstrap_equals_a_loop_over_drawn_indexes():
    """Counts of equal examples stand for drawn indexes: the numbers are those of the plain loop, but for chance."""
    labels, a, b = _classes(200, 2)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(4000):
        place = rng.integers(0, 200, 200)
        drawn.append(np.mean(a[place] == labels[place]) - np.mean(b[place] == labels[place]))
    found = paired_bootstrap("accuracy", labels, a, b, samples=20_000)
    seen = np.mean(a == labels) - np.mean(b == labels)
    assert found.difference == pytest.approx(seen) and found.samples == 20_000
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.011)
    assert found.p_value == pytest.approx(np.mean(np.abs(np.array(drawn) - seen) >= seen - 1e-12), abs=0.03)


def test_the_same_answers_differ_by_nothing():
    labels, a, _ = _classes(50, 3)
    found = paired_bootstrap("accuracy", labels, a, a, samples=100)
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)


def test_a_p_value_is_never_0():
    labels = np.arange(100) % 2
    found = paired_bootstrap("accuracy", labels, labels, 1 - labels, samples=999)
    assert (found.difference, found.low, found.high, found.p_value) == (1, 1, 1, pytest.approx(1 / 1000))


def test_turned_round_the_difference_changes_its_sign_only():
    labels, a, b = _classes(300, 2)
    one, other = (paired_bootstrap("accuracy", labels, *pair, samples=20_000) for pair in ((a, b), (b, a)))
    assert other.difference == -one.difference
    assert [-other.high, -other.low] == pytest.approx([one.low, one.high], abs=0.01)
    assert other.p_value == pytest.approx(one.p_value, abs=0.01)


def test_equal_systems_are_called_different_as_often_as_they_should():
    """Under chance alone p < 0.05 comes about once in twenty."""
    found = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2, 400)
        a, b = (np.where(rng.random(400) < 0.7, labels, 1 - labels) for _ in range(2))
        found.append(paired_bootstrap("accuracy", labels, a, b, samples=400, seed=seed).p_value < 0.05)
    assert 0.02 <= np.mean(found) <= 0.09


def test_a_seed_makes_the_same_numbers():
    data = _scores(30)
    one, again, other = (paired_bootstrap("spearman", *data, samples=200, seed=seed) for seed in (3, 3, 4))
    assert one == again != other


def test_in_parts_as_in_one(monkeypatch):
    data = _scores(30)
    whole = paired_bootstrap("pearson", *data, samples=200)
    monkeypatch.setattr(significance, "_CELLS", 100)
    assert paired_bootstrap("pearson", *data, samples=200) == whole


def test_errors():
    with pytest.raises(ValueError, match="The bootstrap metric must be one of .*got 'bleu'"):
        paired_bootstrap("bleu", [0, 1], [0, 1], [1, 1])
    with pytest.raises(ValueError, match=r"three arrays of shape \[n\].*got the shapes \[\[2\], \[2\], \[1\]\]"):
        paired_bootstrap("accuracy", [0, 1], [0, 1], [1])
    with pytest.raises(ValueError, match=r"with n > 0; got the shapes \[\[0\], \[0\], \[0\]\]"):
        paired_bootstrap("accuracy", [], [], [])
